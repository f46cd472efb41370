// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which changes of a configuration a reload refuses: those of keys whose entry demands more than a reload
//! ([`Reload`](crate::key::Reload)).
//!
//! schema ─► keys, each with its rule ─► the values of both configurations at each key ─► the first that differs

use std::sync::OnceLock;

use ipnet::Ipv4Net;
use serde_json::Value;

use crate::key::Reload;
use crate::{Cluster, Node, Settings};

/// A key of the file that has no keys below it.
#[derive(Debug)]
struct Key {
    /// As in messages: `nat64.timeouts.udp`.
    name: String,
    rule: Option<Reload>,
}

/// The first key that has changed but must not, as a sentence.
pub fn refusal(old: &Settings, new: &Settings) -> Option<String> {
    let values = match values(old, new) {
        Ok(values) => values,
        Err(sentence) => return Some(sentence),
    };
    let shared = match (&old.cluster, &new.cluster) {
        (Some(old), Some(new)) => changed(&values, &[Reload::Shared])
            .or_else(|| (addresses(old) != addresses(new)).then_some("cluster.node.pool4")),
        _ => None,
    };
    match shared {
        Some(key) => Some(format!(
            "{key} cannot change at one node of a cluster while it runs, since all nodes have to have the same: `diolkos cluster roll` at each of them \
             brings it to all; the old configuration stays in force"
        )),
        None => needs_start(old, new, &values, &[Reload::Restart, Reload::Rejoin])
            .or_else(|| bypassed(old, new)),
    }
}

/// `auto` has chosen at the start, when no part of the pool needed conntrack.
fn bypassed(old: &Settings, new: &Settings) -> Option<String> {
    let at = new.nat64.pool4.iter();
    let at = at.enumerate().find(|(_, part)| part.interface.is_some())?.0;
    (new.wan().is_some() && !old.is_at_device()).then(|| {
        format!(
            "nat64.pool4[{at}].interface cannot be added while diolkos runs, because it has chosen a placement that bypasses conntrack: stop it \
             and start it again; the old configuration stays in force"
        )
    })
}

/// The first changed key, as a sentence, that must not change even when all nodes of a cluster change to a new file together.
pub fn of_this_process(old: &Settings, new: &Settings) -> Option<String> {
    match values(old, new) {
        Ok(values) => needs_start(old, new, &values, &[Reload::Restart]),
        Err(sentence) => Some(sentence),
    }
}

/// The first changed key, as a sentence, for which a running DNS64 needs another start: one of its own, or of those that it shares
/// with a translator in the same file.
pub fn of_dns64(old: &Settings, new: &Settings) -> Option<String> {
    let values = match values(old, new) {
        Ok(values) => values,
        Err(sentence) => return Some(sentence),
    };
    let is_fixed = |key: &Key| match key.rule {
        Some(Reload::Dns64) => true,
        Some(Reload::Restart) => ["control.", "log."]
            .iter()
            .any(|of| key.name.starts_with(of)),
        _ => false,
    };
    let key = first_change(&values, is_fixed)?;
    Some(format!(
        "{key} cannot change while the DNS64 runs: restart it; the old configuration stays in force"
    ))
}

fn needs_start(
    old: &Settings,
    new: &Settings,
    values: &[Value; 2],
    rules: &[Reload],
) -> Option<String> {
    let key = match old.cluster.is_some() == new.cluster.is_some() {
        true => changed(values, rules)?,
        false => "cluster",
    };
    Some(format!(
        "{key} cannot change while diolkos runs: stop it and start it again; the old configuration stays in force"
    ))
}

/// The addresses of each node, which all nodes compare. Ports, protocols and how the file divides a network they do not.
fn addresses(cluster: &Cluster) -> Vec<Vec<Ipv4Net>> {
    let nets = |node: &Node| node.pool4.iter().map(|part| part.net).collect();
    let nodes = cluster.node.iter();
    nodes.map(|node| Ipv4Net::aggregate(&nets(node))).collect()
}

/// Both configurations as the file has them.
fn values(old: &Settings, new: &Settings) -> Result<[Value; 2], String> {
    let value = |settings: &Settings| {
        let settings = Settings {
            // A reload may change them, and a million of them would take a gigabyte as values.
            eam: Vec::new(),
            ..settings.clone()
        };
        serde_json::to_value(settings)
            .map_err(|error| format!("the configuration cannot be compared: {error}"))
    };
    Ok([value(old)?, value(new)?])
}

/// The first key with one of these rules whose values differ.
fn changed(values: &[Value; 2], rules: &[Reload]) -> Option<&'static str> {
    first_change(values, |key| {
        rules.contains(&key.rule.unwrap_or(Reload::Restart))
    })
}

/// The first of some keys whose values differ.
fn first_change(values: &[Value; 2], which: impl Fn(&Key) -> bool) -> Option<&'static str> {
    let [old, new] = values;
    let mut keys = keys().iter().filter(|key| which(key));
    let key = keys.find(|key| {
        let path: Vec<&str> = key.name.split('.').collect();
        at(old, &path) != at(new, &path)
    })?;
    Some(&key.name)
}

/// The value at a key. Where a table may be repeated, an array with that of each: what one table has, no other has instead.
fn at(value: &Value, path: &[&str]) -> Value {
    match (path, value) {
        ([], _) => value.clone(),
        (_, Value::Array(tables)) => tables.iter().map(|table| at(table, path)).collect(),
        ([part, below @ ..], table) => table
            .get(part)
            .map_or(Value::Null, |value| at(value, below)),
    }
}

/// All keys of the schema.
fn keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut found = Vec::new();
        collect("", crate::schema().as_value(), None, &mut found);
        found
    })
}

/// Collects the keys below a part of the schema. `above` is the rule of the tables around it.
fn collect(name: &str, schema: &Value, above: Option<Reload>, found: &mut Vec<Key>) {
    let rule = Reload::stated(schema).or(above);
    let either = schema["anyOf"].as_array().into_iter().flatten();
    let parts = either.chain([schema, &schema["items"]]);
    let tables: Vec<_> = parts
        .filter_map(|part| match part.get("properties") {
            Some(properties) => properties.as_object(),
            None => part.get("items")?.get("properties")?.as_object(),
        })
        .collect();
    if tables.is_empty() {
        let name = name.to_owned();
        found.push(Key { name, rule });
    }
    for (key, value) in tables.into_iter().flatten() {
        let dot = if name.is_empty() { "" } else { "." };
        collect(&format!("{name}{dot}{key}"), value, rule, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_nat64::config::Pool4;

    use crate::{Networks, Placement};

    fn rule_of(name: &str) -> Option<Reload> {
        let key = keys().iter().find(|key| key.name == name);
        key.unwrap_or_else(|| panic!("there is no key {name}")).rule
    }

    #[test]
    fn every_key_has_a_rule() {
        assert!(keys().len() > 110, "{}", keys().len());
        let without = keys().iter().filter(|key| key.rule.is_none());
        let names: Vec<&str> = without.map(|key| key.name.as_str()).collect();
        assert!(names.is_empty(), "may these change at a reload? {names:?}");
    }

    #[test]
    fn the_nearest_rule_counts() {
        for (name, rule) in [
            ("translator.device", Reload::Restart),
            ("translator.lowest_ipv6_mtu", Reload::Live),
            ("translator.pref64", Reload::Shared),
            ("eam.v4", Reload::Live),
            ("nat64.timeouts.udp", Reload::Shared),
            ("nat64.timeouts.fragments", Reload::Live),
            ("nat64.pool4.address", Reload::Live),
            ("cluster.node.pool4.address", Reload::Rejoin),
            ("cluster.node.links", Reload::Rejoin),
            ("cluster.port", Reload::Rejoin),
            ("dns64.range.v4", Reload::Dns64),
        ] {
            assert_eq!(rule_of(name), Some(rule), "{name}");
        }
    }

    #[test]
    fn a_dns64_takes_what_is_about_names() {
        let settings = |keys: &str| {
            let text = format!("[dns64]\nupstream = [\"192.0.2.53\"]\n{keys}\n");
            crate::parse(&text, "x.toml", |_| ()).expect("a configuration")
        };
        let old = settings("");
        for keys in [
            "never_synthesize = [\"a\"]",
            "always_synthesize = [\"a\"]",
            "query_log = \"full\"",
            "query_log_rate = 1",
        ] {
            assert_eq!(of_dns64(&old, &settings(keys)), None, "{keys}");
        }
        for (keys, key) in [
            ("rate = 7", "dns64.rate"),
            ("pref64 = [\"2001:db8:64::/96\"]", "dns64.pref64"),
            ("[log]\nlevel = \"warn\"", "log.level"),
            (
                "[[dns64.range]]\nv4 = \"10.0.0.0/8\"\npref64 = []",
                "dns64.range.pref64",
            ),
        ] {
            let said = of_dns64(&old, &settings(keys)).expect(keys);
            assert!(
                said.starts_with(&format!("{key} cannot change while the DNS64 runs")),
                "{said}"
            );
        }
        let beside = "[translator]\npref64 = [\"2001:db8:64::/96\"]\ninterfaces = [\"eth0\"]";
        let said = of_dns64(&old, &settings(beside)).expect("its prefix follows");
        assert!(said.starts_with("dns64.pref64 cannot"), "{said}");
    }

    /// They are left out of the comparison.
    #[test]
    fn mappings_may_change() {
        let mappings = keys().iter().filter(|key| key.name.starts_with("eam"));
        assert!(mappings.clone().count() > 0);
        assert!(mappings.clone().all(|key| key.rule == Some(Reload::Live)));
    }

    /// `auto` has chosen `direct`, and the file still has `auto`.
    #[test]
    fn a_placement_that_bypasses_conntrack_gets_no_address_of_an_interface() {
        let settings = |pool: &str, placement| {
            let text = format!(
                "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\ninterfaces = [\"wan0\"]\n\
                 [[nat64.pool4]]\naddress = \"192.168.64.1\"\nports = \"40000-40999\"\n{pool}"
            );
            let mut settings = crate::parse(&text, "x.toml", |_| ()).expect("a configuration");
            settings.translator.placement = placement;
            settings
        };
        let (without, with) = ("", "interface = \"wan0\"\n");
        for (placement, is_refused) in [
            (Placement::Device, false),
            (Placement::Direct, true),
            (Placement::Xdp, true),
        ] {
            let (old, new) = (settings(without, placement), settings(with, placement));
            let said = refusal(&old, &new);
            assert_eq!(said.is_some(), is_refused, "{placement:?}: {said:?}");
            assert!(said.is_none_or(|said| said.starts_with("nat64.pool4[0].interface ")));
            assert_eq!(refusal(&old, &old), None);
        }
    }

    /// Each key that needs more than a reload, changed by itself.
    #[test]
    fn every_fixed_key_is_compared() {
        let settings = Settings {
            cluster: Some(Cluster {
                node: vec![node()],
                ..Cluster::default()
            }),
            ..Settings::default()
        };
        let old = serde_json::to_value(&settings).expect("it is JSON");
        let fixed = [Reload::Restart, Reload::Shared, Reload::Rejoin];
        let mut count = 0;
        for key in keys() {
            let is_fixed = key.rule.is_some_and(|rule| fixed.contains(&rule));
            // The part of a pool is not there in this configuration.
            if !is_fixed || key.name.starts_with("cluster.node.pool4.") {
                continue;
            }
            let mut new = old.clone();
            let mut place = &mut new;
            for part in key.name.split('.') {
                place = match place {
                    Value::Array(tables) => &mut tables[0][part],
                    table => &mut table[part],
                };
            }
            assert_ne!(*place, Value::Null, "{} is not printed", key.name);
            *place = Value::from("another value");
            assert_eq!(changed(&[old.clone(), new], &fixed), Some(&*key.name));
            count += 1;
        }
        assert!(count > 30, "{count}");
    }

    fn node() -> Node {
        Node {
            name: "gw1".to_owned(),
            address: std::net::Ipv6Addr::LOCALHOST,
            links: Vec::new(),
            pool4: Vec::new(),
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
            ("nat64.timeouts.udp", with(hour)),
            (
                "nat64.source_prefix_len",
                with(|new| new.nat64.source_prefix_len -= 1),
            ),
            (
                "translator.pref64",
                with(|new| new.translator.pref64 = Networks::These(Vec::new())),
            ),
            (
                "cluster.node.name",
                with(|new| {
                    new.cluster.get_or_insert_default().node.push(node());
                }),
            ),
        ] {
            let begin = format!("{key} cannot change at one node of a cluster");
            assert!(said.starts_with(&begin), "{said}");
        }
        for (key, said) in [
            ("cluster", with(|new| new.cluster = None)),
            // A restart of this node alone is enough.
            (
                "cluster.port",
                with(|new| new.cluster.get_or_insert_default().port += 1),
            ),
        ] {
            let begin = format!("{key} cannot change while diolkos runs");
            assert!(said.starts_with(&begin), "{said}");
        }
        let mut new = old.clone();
        new.cluster.get_or_insert_default().port += 1;
        assert_eq!(of_this_process(&old, &new), None, "a roll brings it");
        new.nat64.metric += 1;
        let said = of_this_process(&old, &new).unwrap_or_default();
        assert!(said.starts_with("nat64.metric cannot"), "{said}");
    }

    /// Otherwise two nodes would give away the same ports.
    #[test]
    fn an_address_does_not_move_from_one_node_to_another() {
        let with = |pools: [&[&str]; 2]| {
            let pool = |net: &&str| Pool4 {
                interface: None,
                net: net.parse().expect("a network"),
                ports: 1024..=65535,
                protocols: Vec::new(),
                sources: vec![],
            };
            let nodes = [("gw1", pools[0]), ("gw2", pools[1])];
            Settings {
                cluster: Some(Cluster {
                    node: nodes
                        .map(|(name, nets)| Node {
                            name: name.to_owned(),
                            pool4: nets.iter().map(pool).collect(),
                            ..node()
                        })
                        .into(),
                    ..Cluster::default()
                }),
                ..Settings::default()
            }
        };
        let old = with([&["192.0.2.0/32", "192.0.2.1/32"], &["192.0.2.2/32"]]);
        for moved in [
            with([&["192.0.2.0/32"], &["192.0.2.1/32", "192.0.2.2/32"]]),
            with([&["192.0.2.1/32", "192.0.2.0/32"], &["192.0.2.3/32"]]),
            with([&[], &["192.0.2.0/31", "192.0.2.2/32"]]),
        ] {
            let said = refusal(&old, &moved).unwrap_or_default();
            let begin = "cluster.node.pool4 cannot change at one node of a cluster";
            assert!(said.starts_with(begin), "{said}");
        }
        // For the same addresses, otherwise written, a roll would have nothing to do.
        let same = with([&["192.0.2.0/31"], &["192.0.2.2/32"]]);
        let said = refusal(&old, &same).unwrap_or_default();
        let begin = "cluster.node.pool4.address cannot change while diolkos runs";
        assert!(said.starts_with(begin), "{said}");
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
