// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which parts of a configuration may change while it is in force: everything
//! that means something to one packet at a time.

use crate::config::Settings;

/// The first key that differs and must not, as a sentence.
pub fn refusal(old: &Settings, new: &Settings) -> Option<String> {
    let (o, n) = (&old.translator, &new.translator);
    let fixed = [
        ("translator.mode", o.mode == n.mode),
        ("translator.datapath", o.datapath == n.datapath),
        ("translator.placement", o.placement == n.placement),
        ("translator.hook", o.hook == n.hook),
        ("translator.device", o.device == n.device),
        ("translator.queues", o.queues == n.queues),
        ("translator.interfaces", o.interfaces == n.interfaces),
        ("siit.metric", old.siit.metric == new.siit.metric),
        ("nat64.metric", old.nat64.metric == new.nat64.metric),
        (
            "nat64.max_sessions",
            old.nat64.max_sessions == new.nat64.max_sessions,
        ),
        (
            "nat64.max_bindings",
            old.nat64.max_bindings == new.nat64.max_bindings,
        ),
        ("nat64.state", old.nat64.state == new.nat64.state),
        (
            "nat64.state_interval",
            old.nat64.state_interval == new.nat64.state_interval,
        ),
        ("dns64", old.dns64 == new.dns64),
        ("control.group", old.control == new.control),
        ("log.level", old.log.level == new.log.level),
    ];
    let (key, _) = fixed.iter().find(|(_, same)| !same)?;
    Some(format!(
        "{key} cannot change while diolkos runs: stop it and start it again; the old configuration stays in force"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Networks;

    #[test]
    fn what_is_about_packets_may_change() {
        let old = Settings::default();
        let mut new = old.clone();
        new.translator.pref64 = Networks::These(Vec::new());
        new.translator.lowest_ipv6_mtu = 1400;
        new.icmp.rate = 1;
        assert_eq!(refusal(&old, &new), None);
    }

    #[test]
    fn what_the_maps_have_as_size_may_not() {
        let old = Settings::default();
        let (mut sessions, mut bindings) = (old.clone(), old.clone());
        sessions.nat64.max_sessions -= 1;
        bindings.nat64.max_bindings -= 1;
        for (key, new) in [
            ("nat64.max_sessions", sessions),
            ("nat64.max_bindings", bindings),
        ] {
            let sentence = refusal(&old, &new).expect("it is refused");
            let begin = format!("{key} cannot change while diolkos runs");
            assert!(sentence.starts_with(&begin), "{sentence}");
        }
    }

    #[test]
    fn what_is_about_the_device_may_not() {
        let old = Settings::default();
        let mut new = old.clone();
        new.translator.device = "other".to_owned();
        let sentence = refusal(&old, &new).expect("it is refused");
        assert!(
            sentence.starts_with("translator.device cannot change"),
            "{sentence}"
        );
    }
}
