// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos run`, `diolkos siit`, `diolkos nat64`: file → settings → translator, DNS64 or both.

use crate::clat;
use crate::cli;
use crate::companion::Supervision;
use crate::files::Files;
use crate::process::{dns64_alone, translator};
use crate::router;
use diolkos_config::port_owner;
use diolkos_config::{self as config, Mode, Settings};
use diolkos_service::failure::Failure;

/// Everything that a file says, where the command line does not say it. `mode` is what the command is called.
pub fn run(options: cli::Run, mode: Option<Mode>) -> Result<(), Failure> {
    let read = move || {
        config::load(&options.config, |settings| {
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
        })
    };
    let settings = read()?;
    if settings.dns64_alone().is_some() {
        return dns64_alone(settings);
    }
    port_owner::note(&settings);
    let (files, level) = (Files::of_translator(&settings), settings.log.level);
    // `run` does everything that the file says, and the other commands what they are called.
    let beside = settings.dns64.is_some() && mode.is_none();
    let beside = beside.then(|| settings.clone());
    match settings.translator.mode {
        Mode::Clat => translator(files, level, beside, |with| {
            let read = offered(&with, read);
            clat::run(settings, read, with)
        }),
        Mode::Siit | Mode::Nat64 => translator(files, level, beside, |with| {
            let read = offered(&with, read);
            router::run(settings, read, with)
        }),
    }
}

/// Lets what runs beside a translator know what is read.
fn offered(
    with: &Supervision,
    read: impl Fn() -> Result<Settings, Failure>,
) -> impl Fn() -> Result<Settings, Failure> {
    let companion = with.companion.clone();
    move || {
        let settings = read()?;
        companion.offer(&settings);
        Ok(settings)
    }
}
