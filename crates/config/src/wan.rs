// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool with ports of the address of an interface (`nat64.pool4.interface`): what excludes it.

use diolkos_nat64::config::Wan;

use super::objections::Objection;
use super::{Datapath, Mode, Placement, Settings};

/// Bytes of an interface's name (linux/if.h, IFNAMSIZ without the zero).
const LONGEST_NAME: usize = 15;

impl Settings {
    /// The part of the pool that shares the address of an interface.
    pub fn wan(&self) -> Option<Wan> {
        Wan::of(&self.nat64.pool4).filter(|_| self.translator.mode == Mode::Nat64)
    }

    pub(super) fn object_to_wan(&self, found: &mut Vec<Objection>) {
        let Some(wan) = self.wan() else {
            return;
        };
        let mut object = |key: &str, message: String| found.push(Objection::new(key, message));
        let t = &self.translator;
        let name = &wan.interface;
        let at = self
            .nat64
            .pool4
            .iter()
            .position(|part| part.interface.is_some());
        let key = format!("nat64.pool4[{}].interface", at.unwrap_or(0));
        if !(1..=LONGEST_NAME).contains(&name.len()) || *name == t.device {
            object(&key, format!("{name:?} is no interface to other routers"));
        }
        if !matches!(t.placement, Placement::Device | Placement::Auto) {
            let message =
                "nat64.pool4.interface needs conntrack, which only \"device\" does not bypass";
            object("translator.placement", message.into());
        }
        if t.datapath == Datapath::P4 {
            let message = "a switch bypasses conntrack, which nat64.pool4.interface needs";
            object("translator.datapath", message.into());
        }
        if self.nat64.state().is_some() {
            let message = format!(
                "sessions are not kept for the address of {name}, which may be another one at the next start: remove it"
            );
            object("nat64.state", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn said(translator: &str, nat64: &str, pool: &str) -> String {
        let text = format!(
            "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\n{translator}\n[nat64]\n{nat64}\n\
             [[nat64.pool4]]\naddress = \"192.168.64.1\"\ninterface = \"wan0\"\n{pool}\n"
        );
        let said = parse(&text, "x.toml", |_| ()).err();
        said.map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_bypasses_conntrack_or_outlives_the_address_is_refused() {
        let ports = "ports = \"40000-59999\"";
        for translator in ["", "datapath = \"tun\"", "interfaces = [\"wan0\"]"] {
            assert_eq!(said(translator, "", ports), "");
        }
        for (translator, nat64, pool, key) in [
            (
                "placement = \"direct\"\ninterfaces = [\"wan0\"]",
                "",
                ports,
                "placement",
            ),
            (
                "placement = \"xdp\"\ninterfaces = [\"wan0\"]",
                "",
                ports,
                "placement",
            ),
            (
                "datapath = \"p4\"\nswitch_ports = [\"a\"]",
                "",
                ports,
                "datapath",
            ),
            ("", "state = \"/var/lib/x\"", ports, "state"),
            ("", "ports_per_block = 64", ports, "ports_per_block"),
            ("", "", "", "ports"),
            ("device = \"wan0\"", "", ports, "interface"),
        ] {
            let said = said(translator, nat64, pool);
            assert!(said.contains(key), "{key}: {said:?}");
        }
    }

    #[test]
    fn auto_is_device() {
        let text = "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\ninterfaces = [\"wan0\"]\n\
                    [[nat64.pool4]]\naddress = \"192.168.64.1\"\ninterface = \"wan0\"\nports = \"40000-59999\"\n";
        let settings = parse(text, "x.toml", |_| ()).expect("a configuration");
        assert!(settings.is_at_device());
        assert!(settings
            .keeps_auto()
            .is_some_and(|why| why.contains("conntrack")));
    }
}
