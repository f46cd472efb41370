// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a configuration that may change while it is in force: all that affect only one packet at a time. A test lists
//! every key of the schema, so that a new key cannot be added without a decision.

use ipnet::Ipv4Net;

use crate::{Cluster, Settings};

/// The first key that has changed but must not, as a sentence.
pub fn refusal(old: &Settings, new: &Settings) -> Option<String> {
    of_cluster(old, new).or_else(|| of_this_process(old, new))
}

/// The first changed key, as a sentence, that must not change even when all nodes of a cluster change to a new file together.
pub fn of_this_process(old: &Settings, new: &Settings) -> Option<String> {
    let fixed = of_translator(old, new);
    let (key, _) = fixed.iter().find(|(_, same)| !same)?;
    Some(while_it_runs(key))
}

/// The keys that need a restart, each with whether it is unchanged.
fn of_translator(old: &Settings, new: &Settings) -> Vec<(&'static str, bool)> {
    let (o, n) = (&old.translator, &new.translator);
    vec![
        ("translator.mode", o.mode == n.mode),
        ("translator.datapath", o.datapath == n.datapath),
        ("translator.placement", o.placement == n.placement),
        ("translator.hook", o.hook == n.hook),
        ("translator.switch", o.switch == n.switch),
        ("translator.switch_ports", o.switch_ports == n.switch_ports),
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
    ]
}

/// The first changed key that all nodes of a cluster must agree on: with another value, a node would be isolated.
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

/// The nodes and their addresses.
fn nodes(cluster: &Cluster) -> Vec<(&str, Vec<Ipv4Net>)> {
    let nodes = cluster.node.iter().map(|node| {
        let nets = node.pool4.iter().map(|part| part.net).collect();
        (node.name.as_str(), Ipv4Net::aggregate(&nets))
    });
    nodes.collect()
}

/// The lifetimes of bindings, which their copies share.
fn shared(settings: &Settings) -> [std::time::Duration; 4] {
    let t = &settings.nat64.timeouts;
    [t.udp, t.tcp_established, t.tcp_transitory, t.icmp]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::{Networks, Node};

    /// All other keys, by section. `cluster` as a whole is fixed; a translator uses no key of `dns64`.
    const MAY_CHANGE: &str = "\
        announce: addresses duplicate_detection echo interface
        clat: metric other_clat resolvers routes v4 v6 v6_prefix
        dns64: cache_bytes listen max_outstanding max_tcp name uplink
        dns64: allow_private_with_wkp burst clients exclude4 exclude6 max_negative_ttl_s
        dns64: max_outstanding_of_client max_ttl_s on_error pref64 rate tcp_idle_s timeout_ms tries udp_size upstream
        dns64.range: pref64 v4
        eam: v4 v6
        icmp: address4 address6 burst name_routers rate source_pool4 source_pool6
        log: instance
        log.bindings: address domain facility name path queue sessions to transport
        metrics: listen
        nat64: alarm_percent filtering host_share max_bindings_per_source max_blocks_per_source max_sessions_per_source
        nat64: outside_share port_preservation ports_per_block routes4 routes6 site_prefix_lens site_share
        nat64: source_prefix_len source_share
        nat64.deterministic: overflow_share ports_per_source sources
        nat64.pool4: address ports protocols
        nat64.static: protocol v4 v6
        nat64.timeouts: fragments icmp port_block tcp_established tcp_incoming_syn tcp_transitory udp
        siit: routes4 routes6
        translator: allow_private_with_wkp lowest_ipv6_mtu mtu4 mtu6 pref64 traffic_class udp_zero_checksum
        translator: udp_zero_checksum_ports";

    /// Collects every key below a part of the schema.
    fn keys(name: &str, schema: &Value, found: &mut BTreeSet<String>) {
        let either = schema["anyOf"].as_array().into_iter().flatten();
        let parts = either.chain([schema, &schema["items"]]);
        let tables: Vec<_> = parts
            .filter_map(|part| match part.get("properties") {
                Some(properties) => properties.as_object(),
                None => part.get("items")?.get("properties")?.as_object(),
            })
            .collect();
        if tables.is_empty() {
            found.insert(name.to_owned());
        }
        for (key, value) in tables.into_iter().flatten() {
            let dot = if name.is_empty() { "" } else { "." };
            keys(&format!("{name}{dot}{key}"), value, found);
        }
    }

    #[test]
    fn it_is_decided_of_every_key_whether_it_may_change() {
        let mut all = BTreeSet::new();
        let schema = serde_json::to_value(crate::schema()).expect("it is JSON");
        keys("", &schema, &mut all);
        let settings = Settings::default();
        let fixed: Vec<_> = of_translator(&settings, &settings)
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        let is_fixed = |key: &&String| {
            let is_it = |fixed: &&str| key == fixed || key.starts_with(&format!("{fixed}."));
            fixed.iter().any(is_it)
        };
        let may_change: BTreeSet<String> = MAY_CHANGE
            .lines()
            .filter_map(|line| line.trim().split_once(':'))
            .flat_map(|(section, keys)| {
                keys.split_whitespace()
                    .map(move |key| format!("{section}.{key}"))
            })
            .collect();
        assert_eq!(
            may_change.iter().find(is_fixed),
            None,
            "it is one or the other"
        );
        let undecided: Vec<_> = all
            .difference(&may_change)
            .filter(|key| !is_fixed(key))
            .collect();
        assert!(
            undecided.is_empty(),
            "may these change at a reload? {undecided:?}"
        );
        let gone: Vec<_> = may_change.difference(&all).collect();
        assert!(gone.is_empty(), "there are no such keys: {gone:?}");
        for key in fixed {
            let is_there = all
                .iter()
                .any(|one| one == key || one.starts_with(&format!("{key}.")));
            assert!(is_there, "there is no key {key}");
        }
    }

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
            // For these keys, a restart of this node alone is enough.
            with(|new| new.cluster.get_or_insert_default().port += 1),
        ] {
            assert!(
                said.starts_with("cluster cannot change while diolkos runs"),
                "{said}"
            );
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
