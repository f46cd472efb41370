// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which parts of a configuration may change while it is in force: everything
//! that means something to one packet at a time.

use ipnet::Ipv4Net;

use crate::{Cluster, Dns64, Settings};

/// The first key that differs and must not, as a sentence.
pub fn refusal(old: &Settings, new: &Settings) -> Option<String> {
    of_cluster(old, new).or_else(|| of_this_process(old, new))
}

/// The same of what cannot even change when all nodes of a cluster go over to a new file together.
pub fn of_this_process(old: &Settings, new: &Settings) -> Option<String> {
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
        ("control.group", old.control == new.control),
        ("log.level", old.log.level == new.log.level),
        ("cluster", old.cluster.is_some() == new.cluster.is_some()),
    ];
    let of_dns64 = of_dns64(old.dns64.as_ref(), new.dns64.as_ref());
    let (key, _) = fixed.iter().chain(&of_dns64).find(|(_, same)| !same)?;
    Some(while_it_runs(key))
}

/// What all nodes of a cluster compare: with another value, a node would be alone.
fn of_cluster(old: &Settings, new: &Settings) -> Option<String> {
    let (Some(o), Some(n)) = (&old.cluster, &new.cluster) else {
        let is_same = old.cluster.is_none() && new.cluster.is_none();
        return (!is_same).then(|| while_it_runs("cluster"));
    };
    let key = [
        ("cluster.name", o.name == n.name),
        ("cluster.node", nodes(o) == nodes(n)),
        (
            "nat64.source_prefix_len",
            old.nat64.source_prefix_len == new.nat64.source_prefix_len,
        ),
        (
            "translator.pref64",
            old.translator.pref64 == new.translator.pref64,
        ),
        ("nat64.timeouts", shared(old) == shared(new)),
    ];
    let Some((key, _)) = key.into_iter().find(|(_, same)| !same) else {
        return (o != n).then(|| while_it_runs("cluster"));
    };
    Some(format!(
        "{key} cannot change at one node of a cluster while it runs, since all nodes have to have the same: `diolkos cluster roll` at each of them \
         brings it to all; the old configuration stays in force"
    ))
}

fn while_it_runs(key: &str) -> String {
    format!(
        "{key} cannot change while diolkos runs: stop it and start it again; the old configuration stays in force"
    )
}

/// The nodes, and whose the addresses are.
fn nodes(cluster: &Cluster) -> Vec<(&str, Vec<Ipv4Net>)> {
    let nodes = cluster.node.iter().map(|node| {
        let nets = node.pool4.iter().map(|part| part.net).collect();
        (node.name.as_str(), Ipv4Net::aggregate(&nets))
    });
    nodes.collect()
}

/// How long bindings live: copies of them live as long.
fn shared(settings: &Settings) -> [std::time::Duration; 4] {
    let t = &settings.nat64.timeouts;
    [t.udp, t.tcp_established, t.tcp_transitory, t.icmp]
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
    use crate::{Networks, Node};

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
    fn what_the_nodes_of_a_cluster_compare_may_not() {
        let old = Settings {
            cluster: Some(Cluster::default()),
            ..Settings::default()
        };
        let with = |change: fn(&mut Settings)| {
            let mut new = old.clone();
            change(&mut new);
            refusal(&old, &new).unwrap_or_default()
        };
        assert_eq!(with(|new| new.nat64.alarm_percent = 7), "");
        assert_eq!(with(|new| new.nat64.timeouts.fragments *= 2), "");
        let hour = |new: &mut Settings| new.nat64.timeouts.udp *= 2;
        for (key, said) in [
            ("nat64.timeouts", with(hour)),
            (
                "nat64.source_prefix_len",
                with(|new| new.nat64.source_prefix_len -= 1),
            ),
            (
                "translator.pref64",
                with(|new| new.translator.pref64 = Networks::These(Vec::new())),
            ),
            (
                "cluster.node",
                with(|new| {
                    let node = Node {
                        name: "gw1".to_owned(),
                        address: std::net::Ipv6Addr::LOCALHOST,
                        links: Vec::new(),
                        pool4: Vec::new(),
                    };
                    new.cluster.get_or_insert_default().node.push(node);
                }),
            ),
        ] {
            let begin = format!("{key} cannot change at one node of a cluster");
            assert!(said.starts_with(&begin), "{said}");
        }
        for said in [
            with(|new| new.cluster = None),
            // Another start of this node alone is enough.
            with(|new| new.cluster.get_or_insert_default().port += 1),
        ] {
            assert!(
                said.starts_with("cluster cannot change while diolkos runs"),
                "{said}"
            );
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
