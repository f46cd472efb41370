// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of the figures about a NAT64's tables.

use prometheus_client::registry::Unit;

use super::family::{Family, Value};
use diolkos_figures::figures::{StateFigures, KINDS, PROTOCOLS};

/// All families.
pub fn families(state: &StateFigures) -> Vec<Family> {
    let gauge = Family::gauge;
    let mut families = vec![
        by_protocol(
            "diolkos_sessions",
            "Open sessions.",
            state.sessions.map(u64::from),
        ),
        gauge(
            "diolkos_sessions_limit",
            "Limit of open sessions: nat64.max_sessions.",
            state.max_sessions.into(),
        ),
        by_protocol(
            "diolkos_bindings",
            "Bindings of an IPv6 node's address and port to an IPv4 address and port.",
            state.bindings.map(u64::from),
        ),
        gauge(
            "diolkos_bindings_limit",
            "Limit of bindings: nat64.max_bindings.",
            state.max_bindings.into(),
        ),
        gauge(
            "diolkos_sources",
            "IPv6 prefixes of nat64.source_prefix_len that have bindings.",
            state.sources.into(),
        ),
        gauge(
            "diolkos_held_syns",
            "SYNs from IPv4 that wait for a SYN of the IPv6 node.",
            state.held_syns,
        ),
        gauge(
            "diolkos_held_fragments",
            "Fragments that wait for the first fragment of their packet.",
            state.held_fragments,
        ),
        gauge(
            "diolkos_pool_addresses",
            "IPv4 addresses of the pool.",
            state.pool_addresses,
        ),
        by_protocol(
            "diolkos_pool_exhausted_addresses",
            "IPv4 addresses of the pool without a free port.",
            state.pool.map(|pool| pool.exhausted_addresses),
        ),
        gauge(
            "diolkos_leases",
            "Leases: IPv6 nodes whose sessions the fast path may open by itself.",
            state.leases.into(),
        ),
        gauge(
            "diolkos_lent_sessions",
            "Sessions that the fast path may still open by itself.",
            state.lent_sessions.into(),
        ),
    ];
    families.push(pool(state));
    families.extend((!state.source_pools.is_empty()).then(|| source_pools(state)));
    families.extend(source_pool_blocks(state));
    families.extend(resources(state));
    for (name, help, spread) in [
        (
            "diolkos_controller_wait",
            "Time that packets of the slow path waited for the session tables.",
            state.lock_wait,
        ),
        (
            "diolkos_controller_packet",
            "Time that a packet of the slow path held the session tables.",
            state.lock_held,
        ),
    ] {
        let family = Family::new(name, help).unit(Unit::Seconds);
        families.push(family.with(&[], Value::Histogram(spread)));
    }
    families
}

fn by_protocol(name: &'static str, help: &'static str, values: [u64; 3]) -> Family {
    let mut family = Family::new(name, help);
    for (protocol, value) in PROTOCOLS.iter().zip(values) {
        family.add(&[("protocol", protocol)], Value::Gauge(value));
    }
    family
}

/// The usage of all resources that have a limit.
fn resources(state: &StateFigures) -> [Family; 4] {
    let mut used = Family::new("diolkos_resource_used", "How much of a resource is in use.");
    let mut limit = Family::new("diolkos_resource_limit", "How much of it there is.");
    let mut alarm = Family::new(
        "diolkos_resource_alarm",
        "Whether nat64.alarm_percent of it were in use: 1 or 0.",
    );
    for resource in &state.resources {
        let labels = [("resource", resource.name.as_str())];
        used.add(&labels, Value::Gauge(resource.used));
        limit.add(&labels, Value::Gauge(resource.limit));
        alarm.add(&labels, Value::Gauge(resource.is_raised.into()));
    }
    let help = "IPv6 prefixes that have nat64.alarm_percent or more of what they may have.";
    let mut near = Family::new("diolkos_prefixes_near_share", help);
    for (kind, count) in KINDS.iter().zip(state.near_share) {
        near.add(&[("kind", kind)], Value::Gauge(count));
    }
    [used, limit, alarm, near]
}

/// The states of a port are mutually exclusive, so their sum is the size of the pool.
fn pool(state: &StateFigures) -> Family {
    let help = "Ports of the pool on all addresses, by use.";
    let mut family = Family::new("diolkos_pool_ports", help);
    for (protocol, pool) in PROTOCOLS.iter().zip(&state.pool) {
        let bound = pool.ports.saturating_sub(pool.free + pool.lent);
        for (is, ports) in [("free", pool.free), ("lent", pool.lent), ("bound", bound)] {
            family.add(
                &[("protocol", protocol), ("state", is)],
                Value::Gauge(ports),
            );
        }
    }
    family
}

/// One pool has ports free while another has none.
fn source_pools(state: &StateFigures) -> Family {
    let help = "Ports of each pool by source, by use; taken ports are bound, lent or resting.";
    let mut family = Family::new("diolkos_source_pool_ports", help);
    for pool in &state.source_pools {
        for (protocol, [free, all]) in PROTOCOLS.iter().zip(pool.ports) {
            for (is, ports) in [("free", free), ("taken", all.saturating_sub(free))] {
                let labels = [("pool", &*pool.pool), ("protocol", protocol), ("state", is)];
                family.add(&labels, Value::Gauge(ports));
            }
        }
    }
    family
}

/// The same of blocks of ports, if there are some.
fn source_pool_blocks(state: &StateFigures) -> Option<Family> {
    let help = "Blocks of ports of each pool by source, by use.";
    let mut family = Family::new("diolkos_source_pool_blocks", help);
    let some = state.source_pools.iter().filter(|pool| pool.blocks[1] > 0);
    let mut is_empty = true;
    for pool in some {
        let [free, all] = pool.blocks;
        for (is, blocks) in [("free", free), ("taken", all.saturating_sub(free))] {
            let labels = [("pool", &*pool.pool), ("state", is)];
            family.add(&labels, Value::Gauge(blocks));
        }
        is_empty = false;
    }
    (!is_empty).then_some(family)
}

#[cfg(test)]
mod tests {
    use super::super::family::text;
    use super::*;
    use diolkos_figures::figures::{PoolFigures, SourcePoolFigures};

    #[test]
    fn ports_are_free_or_lent_or_bound() {
        let udp = PoolFigures {
            ports: 100,
            free: 60,
            lent: 30,
            exhausted_addresses: 0,
        };
        let state = StateFigures {
            pool: [PoolFigures::default(), udp, PoolFigures::default()],
            sessions: [1, 2, 3],
            source_pools: vec![SourcePoolFigures {
                pool: "2001:db8:a::/48".to_owned(),
                ports: [[7, 9], [3, 9], [0, 0]],
                blocks: [1, 5],
            }],
            ..StateFigures::default()
        };
        let page = text(families(&state));
        for line in [
            "diolkos_pool_ports{protocol=\"udp\",state=\"free\"} 60",
            "diolkos_pool_ports{protocol=\"udp\",state=\"lent\"} 30",
            "diolkos_pool_ports{protocol=\"udp\",state=\"bound\"} 10",
            "diolkos_source_pool_ports{pool=\"2001:db8:a::/48\",protocol=\"udp\",state=\"taken\"} 6",
            "diolkos_source_pool_blocks{pool=\"2001:db8:a::/48\",state=\"taken\"} 4",
            "diolkos_sessions{protocol=\"tcp\"} 1",
            "diolkos_sessions{protocol=\"icmp\"} 3",
            "# TYPE diolkos_controller_wait_seconds histogram",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
    }
}
