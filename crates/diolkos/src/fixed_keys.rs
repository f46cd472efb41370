// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which parts of a configuration may change while it is in force: everything
//! that means something to one packet at a time.

use crate::config::{Dns64, Settings};

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
        ("cluster", old.cluster == new.cluster),
        // The slices of a cluster are those of the pool, and all nodes have to have the same ones.
        (
            "nat64.pool4",
            old.cluster.is_none() || old.nat64.pool4 == new.nat64.pool4,
        ),
        ("control.group", old.control == new.control),
        ("log.level", old.log.level == new.log.level),
    ];
    let of_dns64 = of_dns64(old.dns64.as_ref(), new.dns64.as_ref());
    let (key, _) = fixed.iter().chain(&of_dns64).find(|(_, same)| !same)?;
    Some(format!(
        "{key} cannot change while diolkos runs: stop it and start it again; the old configuration stays in force"
    ))
}

/// What of a DNS64 needs another start: its sockets, its rights, and how much memory and how many files it may have.
fn of_dns64(old: Option<&Dns64>, new: Option<&Dns64>) -> Vec<(&'static str, bool)> {
    let (Some(o), Some(n)) = (old, new) else {
        return vec![("dns64", old.is_none() && new.is_none())];
    };
    vec![
        ("dns64.name", o.name == n.name),
        ("dns64.listen", o.listen == n.listen),
        (
            "dns64.pref64 = \"auto\"",
            o.follows_network() == n.follows_network(),
        ),
        ("dns64.uplink", o.uplink == n.uplink),
        ("dns64.max_tcp", o.max_tcp == n.max_tcp),
        (
            "dns64.max_outstanding",
            o.max_outstanding == n.max_outstanding,
        ),
        ("dns64.cache_bytes", o.cache_bytes == n.cache_bytes),
    ]
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
    fn a_dns64_takes_other_rules_and_no_other_sockets() {
        let old = Settings {
            dns64: Some(Dns64::default()),
            ..Settings::default()
        };
        let with = |change: fn(&mut Dns64)| {
            let mut new = old.clone();
            change(new.dns64.get_or_insert_default());
            refusal(&old, &new).unwrap_or_default()
        };
        assert_eq!(with(|dns64| dns64.exclude4.clear()), "");
        assert_eq!(with(|dns64| dns64.rate = 7), "");
        assert_eq!(
            with(|dns64| dns64.pref64 = Some(Networks::These(Vec::new()))),
            ""
        );
        assert!(with(|dns64| dns64.listen.clear()).starts_with("dns64.listen cannot change"));
        assert!(with(|dns64| dns64.pref64 = Some(Networks::Auto)).contains("\"auto\" cannot"));
        assert!(with(|dns64| dns64.max_tcp += 1).starts_with("dns64.max_tcp cannot"));
        let none = Settings::default();
        assert!(refusal(&old, &none).is_some_and(|why| why.starts_with("dns64 cannot")));
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
