// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos dns64`: file and options → settings → DNS64.

use super::settings::checked;
use crate::cli;
use crate::error;
use crate::process::dns64_alone;
use diolkos_config::{self as config, Networks, Prefix, Settings};
use diolkos_service::failure::Failure;

/// Runs a DNS64 until a signal ends it.
pub fn run(options: cli::Dns64) -> Result<(), Failure> {
    let read = || settings(&options);
    dns64_alone(read()?, read)
}

fn settings(cli: &cli::Dns64) -> Result<Settings, Failure> {
    let pref64 = match cli.pref64.as_slice() {
        [] => None,
        [Prefix::Auto] => Some(Networks::Auto),
        prefixes => {
            let fixed: Option<_> = prefixes.iter().map(|prefix| prefix.fixed()).collect();
            let fixed = fixed.ok_or_else(|| {
                error::usage("--pref64: `auto` cannot be combined with other prefixes")
            })?;
            Some(Networks::These(fixed))
        }
    };
    let adjust = |settings: &mut Settings| {
        // The translator of this file serves the figures of both.
        if settings.dns64.is_some() && !settings.no_translator {
            settings.metrics.listen.clear();
        }
        settings.no_translator = true;
        settings.log.level = cli.log.unwrap_or(settings.log.level);
        let dns64 = settings.dns64.get_or_insert_default();
        if let Some(name) = &cli.name {
            dns64.name.clone_from(name);
        }
        if !cli.listen.is_empty() {
            dns64.listen.clone_from(&cli.listen);
        }
        if !cli.upstream.is_empty() {
            dns64.upstream.clone_from(&cli.upstream);
        }
        if let Some(pref64) = &pref64 {
            dns64.pref64 = Some(pref64.clone());
        }
        if let Some(uplink) = &cli.uplink {
            dns64.uplink.clone_from(uplink);
        }
    };
    if let Some(path) = &cli.config {
        return Ok(config::load(path, adjust)?);
    }
    let mut settings = Settings::default();
    adjust(&mut settings);
    settings.settle_prefix_of_dns64(false);
    checked(settings, true)
}
