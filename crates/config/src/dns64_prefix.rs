// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The prefix of a DNS64 and of the translator in the same file: synthesised addresses must lead to the translator.

use super::objections::Objection;
use super::{Mode, Networks, Settings, WELL_KNOWN_PREFIX};

impl Settings {
    /// Sets the prefix of a router without the key `translator.pref64` to the well-known prefix: unlike a CLAT, a router
    /// discovers no prefix. `is_given`: the key is present.
    pub fn settle_prefix_of_router(&mut self, is_given: impl FnOnce() -> bool) {
        let t = &mut self.translator;
        if t.mode != Mode::Clat && t.pref64 == Networks::Auto && !is_given() {
            t.pref64 = Networks::These(vec![WELL_KNOWN_PREFIX]);
        }
    }

    /// Sets the prefix of a DNS64 without the key `pref64`. Beside a translator, it is the translator's first prefix, because
    /// each further prefix would only add another address of the same node to each answer. Otherwise it is the well-known
    /// prefix. `has_translator`: the file has a translator, whichever part this process serves.
    pub fn settle_prefix_of_dns64(&mut self, has_translator: bool) {
        let is_alone = !has_translator;
        let translator = &self.translator;
        let Some(dns64) = self.dns64.as_mut().filter(|dns64| dns64.pref64.is_none()) else {
            return;
        };
        dns64.pref64 = Some(match &translator.pref64 {
            Networks::Auto if !is_alone => {
                if let ("", [uplink]) = (dns64.uplink.as_str(), &translator.interfaces[..]) {
                    dns64.uplink.clone_from(uplink);
                }
                Networks::Auto
            }
            Networks::These(prefixes) if !is_alone && !prefixes.is_empty() => {
                Networks::These(vec![prefixes[0]])
            }
            _ => Networks::These(vec![WELL_KNOWN_PREFIX]),
        });
    }

    /// Objects to prefixes in which the DNS64 synthesises, but which the translator beside it does not translate.
    pub(super) fn prefixes_apart(&self) -> Vec<Objection> {
        let (Some(dns64), Networks::These(translated)) = (&self.dns64, &self.translator.pref64)
        else {
            return Vec::new();
        };
        let list: Vec<String> = translated.iter().map(ToString::to_string).collect();
        let list = match list.is_empty() {
            true => "is empty".to_owned(),
            false => format!("has {}", list.join(", ")),
        };
        let given = dns64.prefixes().given().iter().enumerate();
        let apart = given.filter(|(_, prefix)| !translated.contains(prefix));
        let said = apart.map(|(at, prefix)| Objection {
            key: format!("dns64.pref64[{at}]"),
            message: format!(
                "the translator in this file does not translate {prefix}: translator.pref64 {list}; names lead nowhere unless \
                 another NAT64 has {prefix}"
            ),
        });
        said.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::Settings;

    const DNS64: &str = "[dns64]\nupstream = [\"192.0.2.53\"]\n";
    const POOL: &str = "[[nat64.pool4]]\naddress = \"192.0.2.1\"\n";

    fn settings(translator: &str, dns64: &str) -> Settings {
        let text = format!("{translator}{DNS64}{dns64}");
        parse(&text, "x.toml", |_| ()).expect("it is right")
    }

    fn nat64(pref64: &str) -> String {
        format!("{POOL}[translator]\nmode = \"nat64\"\n{pref64}")
    }

    /// The prefixes of the DNS64, and the warnings.
    fn settled(settings: &Settings) -> (String, Vec<String>) {
        let dns64 = settings.dns64.as_ref().expect("there is one");
        let prefixes = toml::Value::try_from(dns64.prefixes()).expect("they print");
        let warnings = settings.warnings().into_iter();
        let warnings = warnings.map(|warning| format!("{}: {}", warning.key, warning.message));
        (prefixes.to_string(), warnings.collect())
    }

    #[test]
    fn a_dns64_beside_a_translator_takes_its_first_prefix() {
        for (pref64, taken) in [
            (
                "pref64 = [\"2001:db8:64::/96\"]\n",
                "[\"2001:db8:64::/96\"]",
            ),
            (
                "pref64 = [\"2001:db8:2::/96\", \"2001:db8:1::/96\"]\n",
                "[\"2001:db8:2::/96\"]",
            ),
            ("", "[\"64:ff9b::/96\"]"),
        ] {
            let settings = settings(&nat64(pref64), "");
            assert_eq!(settled(&settings), (taken.to_owned(), Vec::new()));
            let print = settings.canonical().expect("settings are TOML");
            let again = parse(&print, "print", |_| ()).expect("the print is right");
            assert_eq!(again, settings);
        }
    }

    #[test]
    fn the_prefix_is_the_translators_also_where_another_process_translates() {
        let text = format!("{}{DNS64}", nat64("pref64 = [\"2001:db8:2::/96\"]\n"));
        let alone = parse(&text, "x.toml", |settings| settings.no_translator = true);
        let (prefix, warnings) = settled(&alone.expect("it is right"));
        assert_eq!(
            (prefix.as_str(), warnings.len()),
            ("[\"2001:db8:2::/96\"]", 0)
        );
    }

    #[test]
    fn a_dns64_beside_a_clat_learns_the_prefix_as_that_one_does() {
        let clat = "[translator]\ninterfaces = [\"eth0\"]\npref64 = \"auto\"\n";
        let taken = settings(clat, "").dns64.expect("there is one");
        assert!(taken.follows_network());
        assert_eq!(taken.uplink, "eth0");
        let other = settings(clat, "uplink = \"eth1\"\n").dns64;
        assert_eq!(other.expect("there is one").uplink, "eth1");
    }

    #[test]
    fn a_dns64_alone_takes_the_well_known_prefix() {
        let alone = settings("", "");
        assert!(alone.dns64_alone().is_some());
        assert_eq!(
            settled(&alone),
            ("[\"64:ff9b::/96\"]".to_owned(), Vec::new())
        );
    }

    #[test]
    fn a_prefix_that_the_translator_does_not_translate_is_warned_of() {
        let translator = nat64("pref64 = [\"2001:db8:1::/96\", \"2001:db8:2::/96\"]\n");
        let given = "pref64 = [\"2001:db8:2::/96\", \"2001:db8:3::/96\"]\n";
        let (prefixes, warnings) = settled(&settings(&translator, given));
        assert_eq!(prefixes, "[\"2001:db8:2::/96\", \"2001:db8:3::/96\"]");
        let [warning] = &warnings[..] else {
            panic!("one prefix is wrong: {warnings:?}")
        };
        for part in [
            "dns64.pref64[1]: ",
            "does not translate 2001:db8:3::/96",
            "has 2001:db8:1::/96, 2001:db8:2::/96",
        ] {
            assert!(warning.contains(part), "{warning}");
        }
        // The prefix that a network will announce is not known here.
        let follows = "pref64 = \"auto\"\nuplink = \"eth0\"\n";
        assert_eq!(settled(&settings(&translator, follows)).1, [""; 0]);
    }

    #[test]
    fn a_translator_of_mappings_alone_has_no_prefix_to_take() {
        let siit = "[[eam]]\nv4 = \"192.0.2.1\"\nv6 = \"2001:db8::1\"\n[translator]\nmode = \"siit\"\npref64 = []\n";
        let (prefixes, warnings) = settled(&settings(siit, ""));
        assert_eq!(prefixes, "[\"64:ff9b::/96\"]");
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains("translator.pref64 is empty"),
            "{warnings:?}"
        );
    }
}
