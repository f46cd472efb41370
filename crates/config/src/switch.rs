// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a P4 switch: `translator.switch` and `translator.switch_ports`.

use super::objections::Objection;
use super::{Datapath, Mode, Settings, Translator};

/// The most port pairs of a switch.
const MOST_PORTS: usize = 7;

impl Settings {
    pub(super) fn object_to_switch(&self, found: &mut Vec<Objection>) {
        let t = &self.translator;
        let mut object = |key: &str, message: String| found.push(Objection::new(key, message));
        if t.datapath != Datapath::P4 {
            let unset = Translator::default();
            for (key, is_unset) in [
                ("translator.switch", t.switch == unset.switch),
                ("translator.switch_ports", t.switch_ports.is_empty()),
            ] {
                if !is_unset {
                    let datapath = t.datapath.name();
                    object(
                        key,
                        format!("a switch needs translator.datapath = \"p4\", and the datapath is \"{datapath}\""),
                    );
                }
            }
            return;
        }
        if t.mode == Mode::Clat {
            object(
                "translator.datapath",
                "a P4 switch is for routers; a CLAT has \"tc\" and \"tun\"".to_owned(),
            );
        }
        if t.switch.file_name().is_none() {
            object("translator.switch", "it names no socket".to_owned());
        }
        let ports = &t.switch_ports;
        if ports.is_empty() {
            object(
                "translator.switch_ports",
                "a switch needs ports: name the interfaces that it makes (SHADOW of `--port DEVICE=SHADOW`)".to_owned(),
            );
        }
        if ports.len() > MOST_PORTS {
            let message = format!("{} ports; {MOST_PORTS} are supported", ports.len());
            object("translator.switch_ports", message);
        }
        for (at, name) in ports.iter().enumerate() {
            if name.is_empty() || ports[..at].contains(name) {
                object(
                    &format!("translator.switch_ports[{at}]"),
                    "each interface of the switch is named once".to_owned(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn said(keys: &str) -> String {
        let text = format!(
            "[translator]\nmode = \"nat64\"\n{keys}\n[[nat64.pool4]]\naddress = \"192.0.2.0/29\"\n"
        );
        let parsed = parse(&text, "nat64.toml", |_| ());
        parsed.map_or_else(|failure| failure.to_string(), |_| String::new())
    }

    #[test]
    fn a_switch_has_a_socket_and_ports() {
        let p4 = "datapath = \"p4\"\n";
        assert_eq!(
            said(&format!("{p4}switch_ports = [\"lan0\", \"wan0\"]")),
            ""
        );
        for (keys, expected) in [
            (
                p4.to_owned(),
                "nat64.toml:1:1: translator.switch_ports: a switch needs ports",
            ),
            (
                format!("{p4}switch_ports = [\"a\", \"a\"]"),
                "translator.switch_ports[1]: each interface",
            ),
            (
                format!("{p4}switch_ports = [\"a\"]\nswitch = \"/\""),
                "translator.switch: it names no socket",
            ),
            (
                format!("{p4}switch_ports = [\"a\"]\ninterfaces = [\"a\"]\nplacement = \"direct\""),
                "the datapath is \"p4\"",
            ),
            (
                "datapath = \"tun\"\nswitch_ports = [\"a\"]".to_owned(),
                "translator.switch_ports: a switch needs translator.datapath = \"p4\"",
            ),
        ] {
            let said = said(&keys);
            let expected = expected.trim_start_matches("nat64.toml:1:1: ");
            assert!(said.contains(expected), "{keys}: {said}");
        }
    }
}
