// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resources of a NAT64 that have a limit, beyond which user packets or binding records are lost, with advice for each.

use diolkos_figures::figures::{SourcePoolFigures, StateFigures, PROTOCOLS};

/// A resource with a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The name for metrics and scripts: from a fixed list, except for `log_queue.NAME`.
    pub name: String,
    /// The name for people.
    pub what: String,
    /// The amount in use.
    pub used: u64,
    /// The limit. It is not 0.
    pub limit: u64,
    /// What is lost at the limit, and how to avoid it.
    pub advice: String,
}

/// Records that wait for a collector: name of its queue, number of records, capacity of the queue.
pub type Waiting = (String, u64, u64);

/// Returns all resources of this configuration.
pub fn resources(state: &StateFigures, logs: &[Waiting]) -> Vec<Resource> {
    let sum = |of: [u32; 3]| of.iter().map(|&n| u64::from(n)).sum();
    let mut all = vec![
        resource(
            "sessions",
            "sessions",
            Use {
 used: sum(state.sessions),
 limit: state.max_sessions.into(),
 },
            "a full table drops every new session: raise nat64.max_sessions and start again; `diolkos show top` names \
             who has most",
        ),
        resource(
            "bindings",
            "bindings",
            Use {
 used: sum(state.bindings),
 limit: state.max_bindings.into(),
 },
            "a full table drops every new binding: raise nat64.max_bindings and start again; `diolkos show top --by \
             bindings` names who has most",
        ),
    ];
    let nouns = [
        ("tcp_ports", "TCP ports of the pool"),
        ("udp_ports", "UDP ports of the pool"),
        ("icmp_ids", "ICMP identifiers of the pool"),
    ];
    debug_assert_eq!(PROTOCOLS.len(), nouns.len());
    for (at, (name, what)) in nouns.into_iter().enumerate() {
        let pool = &state.pool[at];
        let (free, ports, of) =
            fullest(state, |pool| pool.ports[at]).unwrap_or((pool.free, pool.ports, ""));
        let what = match of {
            "" => what.to_owned(),
            of => format!("{what} for {of}"),
        };
        all.push(resource(
            name,
            &what,
            Use {
                used: ports - free.min(ports),
                limit: ports,
            },
            "new bindings are dropped without a free port: add addresses to nat64.pool4",
        ));
    }
    let [free, blocks] = state.port_blocks;
    let (free, blocks, of) = fullest(state, |pool| pool.blocks).unwrap_or((free, blocks, ""));
    let what = match of {
        "" => "port blocks".to_owned(),
        of => format!("port blocks of the pool for {of}"),
    };
    all.push(resource(
        "port_blocks",
        &what,
        Use {
 used: blocks - free.min(blocks),
 limit: blocks,
 },
        match state.is_deterministic {
            true => {
                "sources get no more ports than their own without a free block: raise \
                 nat64.deterministic.overflow_share, or add addresses to nat64.pool4"
            }
            false => {
                "new sources are dropped without a free block: add addresses to nat64.pool4, or lower \
                 nat64.ports_per_block"
            }
        },
    ));
    let [outside, may] = state.outside_sessions;
    all.push(resource(
        "sessions_from_ipv4",
        "sessions that the IPv4 side may open",
        Use {
 used: outside,
 limit: may,
 },
        "more sessions that begin on the IPv4 side are dropped: stop a flood in the firewall, or raise \
         nat64.outside_share or nat64.max_sessions",
    ));
    all.push(resource(
        "held_syns",
        "places for SYNs from the IPv4 side that wait for the node",
        Use {
 used: state.held_syns,
 limit: state.max_held_syns.into(),
 },
        "more such SYNs are dropped; established connections are not affected: stop a flood in the firewall",
    ));
    for (collector, waiting, room) in logs {
        all.push(Resource {
            name: format!("log_queue.{collector}"),
            what: format!("places for records that wait for the log \"{collector}\""),
            used: *waiting,
            limit: *room,
            advice: "records of bindings are lost (and counted) when none is left: see whether the collector is there \
                     and fast enough, or raise queue in [[log.bindings]]"
                .to_owned(),
        });
    }
    all.retain(|resource| resource.limit > 0);
    all
}

/// How much of a resource is in use.
struct Use {
    used: u64,
    limit: u64,
}

fn resource(name: &str, what: &str, of: Use, advice: &str) -> Resource {
    Resource {
        name: name.to_owned(),
        what: what.to_owned(),
        used: of.used,
        limit: of.limit,
        advice: advice.to_owned(),
    }
}

impl Resource {
    /// Returns the percentage in use, rounded down.
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        percent.try_into().unwrap_or(u64::MAX)
    }

    /// Describes the amount in use and the limit.
    pub fn level(&self) -> String {
        format!(
            "{} of {} {} are in use ({} %)",
            self.used,
            self.limit,
            self.what,
            self.percent()
        )
    }
}

/// The fullest pool by source, as what is free of it, all of it and its name. `of` has both numbers of a pool. A pool that
/// is full drops bindings whatever others have.
fn fullest(
    state: &StateFigures,
    of: impl Fn(&SourcePoolFigures) -> [u64; 2],
) -> Option<(u64, u64, &str)> {
    let all = state.source_pools.iter();
    let all = all.map(|pool| (of(pool), &*pool.pool));
    let least = all
        .filter(|([_, all], _)| *all > 0)
        .min_by_key(|([free, all], _)| free * 1000 / all)?;
    let ([free, ports], name) = least;
    Some((free, ports, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_figures::figures::PoolFigures;

    #[test]
    fn only_what_has_a_limit_is_a_resource() {
        let udp = PoolFigures {
            ports: 10,
            free: 3,
            lent: 2,
            exhausted_addresses: 0,
        };
        let state = StateFigures {
            sessions: [1, 2, 3],
            max_sessions: 12,
            max_bindings: 5,
            pool: [PoolFigures::default(), udp, PoolFigures::default()],
            ..StateFigures::default()
        };
        let log = ("syslog".to_owned(), 7, 8);
        let found = resources(&state, &[log]);
        let found: Vec<_> = found
            .iter()
            .map(|r| (r.name.as_str(), r.used, r.limit, r.percent()))
            .collect();
        assert_eq!(
            found,
            [
                ("sessions", 6, 12, 50),
                ("bindings", 0, 5, 0),
                // A port that is lent is not available to others.
                ("udp_ports", 7, 10, 70),
                ("log_queue.syslog", 7, 8, 87),
            ]
        );
    }

    #[test]
    fn the_fullest_pool_by_source_counts() {
        let pool = |pool: &str, udp| SourcePoolFigures {
            pool: pool.to_owned(),
            ports: [[0, 0], udp, [0, 0]],
            blocks: udp,
        };
        let state = StateFigures {
            source_pools: vec![
                pool("default", [1000, 1000]),
                pool("2001:db8:a::/48", [1, 10]),
                pool("2001:db8:b::/48", [2, 10]),
            ],
            ..StateFigures::default()
        };
        let found = resources(&state, &[]);
        let ports = found.iter().find(|found| found.name == "udp_ports");
        let ports = ports.expect("there are ports");
        assert_eq!((ports.used, ports.limit), (9, 10));
        assert_eq!(ports.what, "UDP ports of the pool for 2001:db8:a::/48");
        let blocks = found.iter().find(|found| found.name == "port_blocks");
        let blocks = blocks.expect("there are blocks");
        assert_eq!((blocks.used, blocks.limit), (9, 10));
        assert_eq!(blocks.what, "port blocks of the pool for 2001:db8:a::/48");
    }
}
