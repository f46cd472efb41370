// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos run`, `diolkos siit`, `diolkos nat64`: file → settings → translator, or DNS64 if the file has nothing else.

use crate::cli;
use crate::files::Files;
use crate::process::{dns64_alone, translator};
use diolkos_clat as clat;
use diolkos_config::port_owner;
use diolkos_config::{self as config, Mode};
use diolkos_router as router;
use diolkos_service::failure::Failure;

/// Runs the translator of a file, or its DNS64 if the file has nothing else. `mode` is the mode that the command names.
pub fn run(options: cli::Run, mode: Option<Mode>) -> Result<(), Failure> {
    let read = move || {
        let loaded = config::load(&options.config, |settings| {
            if let Some(mode) = mode {
                settings.translator.mode = mode;
                settings.no_translator = false;
                settings.only_translator = true;
            }
            if let Some(state) = &options.state {
                settings.nat64.state.clone_from(state);
            }
            if let (Some(node), Some(cluster)) = (&options.node, &mut settings.cluster) {
                cluster.me.clone_from(node);
            }
            options.common.override_in(settings);
        });
        Ok::<_, Failure>(loaded?)
    };
    let settings = read()?;
    if settings.dns64_alone().is_some() {
        return dns64_alone(settings, read);
    }
    port_owner::note(&settings);
    let (files, level) = (Files::of_translator(&settings), settings.log.level);
    // The other commands have warned already.
    let is_told = settings.dns64.is_some() && mode.is_none();
    let tell = move || {
        if is_told {
            tracing::warn!(
                "[dns64] is for `diolkos dns64 --config FILE` (diolkos-dns64@NAME.service): this process translates"
            );
        }
    };
    match settings.translator.mode {
        Mode::Clat => translator(files, level, |with| {
            tell();
            clat::run(settings, read, with)
        }),
        Mode::Siit | Mode::Nat64 => translator(files, level, |with| {
            tell();
            router::run(settings, read, with)
        }),
    }
}
