// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos clat-manager`: the manager itself, or an order to the running one.

use super::output::{print, print_now, unless_closed};
use crate::clats;
use crate::cli;
use crate::files::Files;
use crate::process;
use diolkos_config::Level;
use diolkos_service::failure::Failure;

/// Runs the manager of CLATs, or has the running one do something.
pub fn run(options: cli::ClatManager) -> Result<(), Failure> {
    match options.order {
        None => {
            let level = options.log.unwrap_or(Level::Info);
            process::foreground(Files::default(), level, clats::run(options.control_group))
        }
        Some(cli::ClatOrder::Up {
            interface,
            pref64,
            v6,
            v6_prefix,
            routes,
            datapath,
            resolvers,
            metric,
            other_clat,
        }) => clats::up(clats::Spec {
            interface,
            pref64,
            v6,
            v6_prefix,
            routes: routes.iter().map(ToString::to_string).collect(),
            datapath,
            resolvers: resolvers.iter().map(ToString::to_string).collect(),
            metric,
            other_clat,
        })
        .map(|_| ()),
        Some(cli::ClatOrder::Down { interface }) => clats::down(&interface).map(|_| ()),
        Some(cli::ClatOrder::List { json, follow }) if !follow => {
            print(clats::shown(&clats::list()?, json))
        }
        Some(cli::ClatOrder::List { json, .. }) => {
            let mut done = Ok(());
            clats::follow(|clats| {
                done = print_now(&clats::shown(&clats, json));
                done.is_ok()
            })?;
            unless_closed(done)
        }
    }
}
