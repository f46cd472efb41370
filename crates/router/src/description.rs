// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway in one line of the log.

use super::gateway::Gateway;
use super::routes::Routes;
use diolkos_config::{network, Mode, Placement};
use diolkos_datapath::choice;
use diolkos_service::counted::counted;

impl Gateway {
    /// Describes the mode and the path of packets in one line.
    pub fn description(&self) -> String {
        let t = &self.settings.translator;
        let list = |of: Vec<String>| match of.is_empty() {
            true => "none".to_owned(),
            false => of.join(", "),
        };
        let prefixes = list(t.pref64.given().iter().map(ToString::to_string).collect());
        let what = match t.mode {
            Mode::Nat64 => {
                let pool = self.settings.pool4().iter();
                let pool = pool.map(|part| network::short(part.net)).collect();
                format!(
                    "nat64 on {}, prefixes {prefixes}, pool {}",
                    t.device,
                    list(pool)
                )
            }
            Mode::Clat | Mode::Siit => format!(
                "siit on {}, prefixes {prefixes}, {}",
                t.device,
                counted(self.settings.eam.len(), "mapping")
            ),
        };
        let inline = match (t.placement, self.translation.fast()) {
            (Placement::Inline, Some(_)) => format!(", inline at {}", t.interfaces.join(", ")),
            (Placement::Device, _) | (_, None) => String::new(),
            (_, Some(_)) => {
                let names = t.interfaces.join(", ");
                match self.has_drivers() {
                    true => format!(", direct and XDP between {names}"),
                    false => format!(", direct between {names}"),
                }
            }
        };
        let mss = self.settings.tcp_mss(self.found);
        let mss = mss.map_or(String::new(), |mss| format!(", MSS {mss}"));
        format!(
            "{what}, MTU {} (IPv4) and {} (IPv6){mss}, datapath {}",
            t.mtu4.or(self.found.mtu4),
            t.mtu6.or(self.found.mtu6),
            choice::named(t, self.translation.fast()) + &inline,
        )
    }

    /// Logs the event with it, and warns of a family without a route.
    pub fn announce(&self, event: &str) {
        let t = &self.settings.translator;
        tracing::info!("{event}: {}", self.description());
        let section = Routes::section(&self.settings);
        for (family, number, empty) in [
            (4, "routes4", self.routes.v4.is_empty()),
            (6, "routes6", self.routes.v6.is_empty()),
        ] {
            if empty {
                tracing::warn!(
                    "no IPv{family} route leads to {}: give {section}.{number}, or add routes yourself",
                    t.device
                );
            }
        }
    }
}
