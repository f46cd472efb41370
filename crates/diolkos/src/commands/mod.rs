// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands, each in a file of its own. `translate` and `lookup` are modules of their own.
//!
//! options → settings → service, or request → answer → output

mod bind;
mod clat;
mod cluster;
mod dns64;
mod follow;
mod output;
mod reload;
mod run;
mod session;
mod settings;
mod show;
mod trace;

use crate::cli::Command;
use crate::lookup;

use crate::stop;
use diolkos_config::{self as config, Mode};
use diolkos_offline as offline;
use diolkos_service::failure::Failure;

use output::print;

/// Runs the command.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Clat(options) => clat::run(options),
        Command::Siit(options) => run::run(options, Some(Mode::Siit)),
        Command::Nat64(options) => run::run(options, Some(Mode::Nat64)),
        Command::Dns64(options) => dns64::run(options),
        Command::Run(options) => run::run(options, None),
        Command::Check { file } => config::load(&file, |_| ())
            .and_then(|settings| settings.canonical())
            .map_err(Failure::from)
            .and_then(print),
        Command::Translate(options) => Ok(offline::run(&options)?),
        Command::Lookup(options) => lookup::look_up(&options).and_then(print),
        Command::Show(options) => show::run(&options),
        Command::Status(options) => show::run(&options.into()),
        Command::Trace(options) => trace::run(&options),
        Command::Bind(options) => bind::run(options),
        Command::Session(options) => session::run(options),
        Command::Cluster(options) => cluster::run(options),
        Command::Follow(options) => follow::run(&options),
        Command::Reload(options) => reload::run(options),
        Command::Stop(options) => stop::stop(&options.which.device()?),
    }
}
