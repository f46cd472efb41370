// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where packets are translated, as far as the file decides it: `auto` is `device` where no other placement is possible. The
//! rest is up to the machine.

use super::{Datapath, Mode, Placement, Settings};

impl Settings {
    /// Returns true if packets are translated over the TUN device alone.
    pub fn is_at_device(&self) -> bool {
        match self.translator.placement {
            Placement::Device => true,
            Placement::Auto => self.keeps_auto().is_some(),
            Placement::Inline | Placement::Direct | Placement::Xdp => false,
        }
    }

    /// Returns why `auto` is `device` whatever the machine has. None if the machine decides.
    pub fn keeps_auto(&self) -> Option<&'static str> {
        let t = &self.translator;
        match (t.mode, t.datapath) {
            (Mode::Clat, _) => Some("a CLAT translates at its uplink"),
            (_, Datapath::Tun | Datapath::P4) => {
                Some("`datapath` excludes the eBPF fast path, which the other placements need")
            }
            _ if self.wan().is_some() => {
                Some("`nat64.pool4.interface` needs conntrack, which the other placements bypass")
            }
            _ if t.interfaces.is_empty() => {
                Some("no `interfaces` are named; name them to allow `direct` or `xdp`")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, Settings};

    fn settings(keys: &str) -> Settings {
        let text = format!(
            "[translator]\nmode = \"nat64\"\n{keys}\n[[nat64.pool4]]\naddress = \"192.0.2.0/29\"\n"
        );
        parse(&text, "x.toml", |_| ()).expect("a configuration")
    }

    #[test]
    fn auto_is_never_refused() {
        for (keys, is_at_device) in [
            ("", true),
            ("placement = \"auto\"", true),
            ("datapath = \"tun\"\ninterfaces = [\"a\", \"b\"]", true),
            (
                "datapath = \"p4\"\nswitch_ports = [\"a\"]\ninterfaces = [\"a\"]",
                true,
            ),
            ("interfaces = [\"a\", \"b\"]", false),
            ("interfaces = [\"a\"]\ndatapath = \"tc\"", false),
            ("interfaces = [\"a\"]\nplacement = \"device\"", true),
            ("interfaces = [\"a\"]\nplacement = \"inline\"", false),
        ] {
            let settings = settings(keys);
            assert_eq!(settings.is_at_device(), is_at_device, "{keys}");
        }
        assert!(Settings::default().is_at_device(), "a CLAT");
    }

    #[test]
    fn auto_answers_pings_and_xdp_does_not() {
        let announced = |placement: &str| {
            let text = format!(
                "[translator]\nmode = \"nat64\"\n{placement}interfaces = [\"eth0\"]\n\
                 [[nat64.pool4]]\naddress = \"192.0.2.8/29\"\n\
                 [[announce]]\ninterface = \"eth0\"\necho = [\"192.0.2.8\"]\n"
            );
            parse(&text, "x.toml", |_| ()).is_ok()
        };
        assert!(announced(""));
        assert!(announced("placement = \"auto\"\n"));
        assert!(!announced("placement = \"xdp\"\n"));
    }
}
