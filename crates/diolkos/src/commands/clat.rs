// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos clat`: file and options → settings → translator.

use super::settings::checked;
use crate::cli;
use crate::error;
use crate::files::Files;
use crate::process::translator;
use diolkos_clat as clat;
use diolkos_config::port_owner;
use diolkos_config::{self as config, Mode, Settings, V4Address};
use diolkos_service::failure::Failure;

/// Runs a CLAT until a signal ends it.
pub fn run(options: cli::Clat) -> Result<(), Failure> {
    let settings = configured(&options)?;
    let read = move || match &options.config {
        Some(_) => configured(&options),
        None => Err(error::usage(
            "there is no configuration file to read again: start with `--config FILE`",
        )),
    };
    port_owner::note(&settings);
    let (files, level) = (Files::of_translator(&settings), settings.log.level);
    translator(files, level, |with| clat::run(settings, read, with))
}

fn configured(options: &cli::Clat) -> Result<Settings, Failure> {
    let mut settings = match &options.config {
        // Without an interface a file is not complete; with --uplink it is.
        Some(path) => config::load(path, |file| {
            file.translator.mode = Mode::Clat;
            file.no_translator = false;
            file.only_translator = true;
            if let Some(uplink) = &options.uplink {
                file.translator.interfaces = vec![uplink.clone()];
            }
        })?,
        None => Settings::default(),
    };
    options.common.override_in(&mut settings);
    if let Some(uplink) = &options.uplink {
        settings.translator.interfaces = vec![uplink.clone()];
    }
    let is_new = options.config.is_none() || options.pref64.is_some();
    if let Some(pref64) = options.pref64 {
        settings.translator.pref64 = pref64.into();
    }
    if let Some(device) = &options.device {
        settings.translator.device.clone_from(device);
    }
    if let Some(group) = &options.control_group {
        settings.control.group.clone_from(group);
    }
    settings.clat.v4 = options.v4.map_or(settings.clat.v4, V4Address::Fixed);
    settings.clat.v6 = options.v6.unwrap_or(settings.clat.v6);
    settings.clat.v6_prefix = options.v6_prefix.unwrap_or(settings.clat.v6_prefix);
    settings.clat.metric = options.metric.or(settings.clat.metric);
    settings.clat.other_clat = options.other_clat.unwrap_or(settings.clat.other_clat);
    if !options.routes.is_empty() {
        settings.clat.routes.clone_from(&options.routes);
    }
    if !options.resolvers.is_empty() {
        settings.clat.resolvers.clone_from(&options.resolvers);
    }
    checked(settings, is_new)
}
