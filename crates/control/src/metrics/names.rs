// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of the figures, by the conventions of Prometheus. Labels have values from fixed lists only, never an address.

use diolkos_xlat::verdict::Group;
use diolkos_xlat::Reason;
use prometheus_client::registry::Unit;

use super::cluster;
use super::family::{Family, Value};
use super::process;
use super::state;
use crate::translator::{Finding, FindingKind, Reason as Why, Status};
use diolkos_figures::counters::Counter;
use diolkos_figures::figures::Figures;

/// All families. `dns64`: true if the DNS64 beside the translator has answered; `None` if there is none.
pub fn families(figures: &Figures, dns64: Option<bool>, status: &Status) -> Vec<Family> {
    let about: Vec<(&'static str, &str)> = ABOUT
        .iter()
        .filter_map(|name| Some((*name, value_of(&figures.about, name)?)))
        .collect();
    let mut families = vec![
        Family::new("diolkos_build", "The program's version.")
            .with(&[("version", env!("CARGO_PKG_VERSION"))], Value::Info),
        Family::new(
            "diolkos_instance",
            "The running translator: its mode, its device and where it translates packets.",
        )
        .with(&about, Value::Info),
    ];
    families.extend(standing(status));
    families.extend(process::families());
    families.extend(counted(&figures.counters));
    if let Some(state) = &figures.state {
        families.extend(state::families(state));
    }
    if let Some(status) = &figures.cluster {
        families.extend(cluster::families(status));
    }
    if let Some(is_up) = dns64 {
        let help = "Whether the DNS64 beside the translator returns its counters: 1 or 0.";
        let value = Value::Gauge(u64::from(is_up));
        families.push(Family::new("diolkos_dns64_up", help).with(&[], value));
    }
    families
}

/// The readiness, and the number of findings by reason.
fn standing(status: &Status) -> [Family; 3] {
    let ready = "Whether packets can pass: 1, or 0 and an obstacle says why.";
    let mut obstacles = Family::new(
        "diolkos_obstacles",
        "What keeps packets, or some of them, from passing, by reason.",
    );
    let mut troubles = Family::new(
        "diolkos_troubles",
        "What is wrong although packets pass, by reason.",
    );
    for reason in Why::ALL {
        for (kind, family) in [
            (FindingKind::Obstacle, &mut obstacles),
            (FindingKind::Trouble, &mut troubles),
        ] {
            let is_it = |its: &&Finding| (its.kind, its.reason) == (kind, reason);
            let count = status.findings.iter().filter(is_it).count();
            family.add(&[("reason", reason.name())], Value::Gauge(count as u64));
        }
    }
    [
        Family::gauge("diolkos_ready", ready, status.is_ready().into()),
        obstacles,
        troubles,
    ]
}

/// The keys that [`Figures::about`] may have.
const ABOUT: [&str; 4] = ["mode", "device", "datapath", "placement"];

fn value_of<'a>(about: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = about.iter().find(|(its, _)| its == name);
    found.map(|(_, value)| value.as_str())
}

/// All counters of `diolkos show counters`, except those that [`state`] and [`cluster`] present better.
fn counted(counters: &[Counter]) -> Vec<Family> {
    let mut packets = Packets::new();
    let mut dns64 = Family::new("diolkos_dns64_events", "DNS queries, by outcome.");
    let mut events = Family::new(
        "diolkos_events",
        "Other events in the parts of the program, by name.",
    );
    let mut mappings = Family::new(
        "diolkos_pcp_mappings",
        "Bindings that nodes have asked for (PCP).",
    );
    for counter in counters {
        let value = Value::Counter(counter.packets);
        match counter.name.split_once('.') {
            Some((path @ ("fast" | "slow"), name)) => packets.add(path, name, counter),
            Some(("dns64", event)) => dns64.add(&[("event", event)], value),
            Some(("state", "bindings" | "sessions" | "sources" | "held_syns")) => {}
            // They may become less.
            Some(("p4", "up" | "sessions")) => {}
            Some(("pcp", "mappings")) => mappings.add(&[], Value::Gauge(counter.packets)),
            // The families of the cluster present these, by node.
            Some(("cluster", _)) => {}
            Some((part, event)) => events.add(&[("part", part), ("event", event)], value),
            None => {}
        }
    }
    let mut families = packets.0.to_vec();
    families.extend([dns64, events, mappings]);
    families
}

/// The outcomes of packets.
struct Packets([Family; 6]);

impl Packets {
    fn new() -> Packets {
        let family = Family::new;
        Packets([
            family(
                "diolkos_translated_packets",
                "Packets translated; a super-packet (GSO or GRO) counts once.",
            ),
            family(
                "diolkos_translated",
                "Bytes of translated packets before translation, including the IP header.",
            )
            .unit(Unit::Bytes),
            family("diolkos_dropped_packets", "Packets dropped, by reason."),
            family(
                "diolkos_limit_hits",
                "Packets dropped because a limit, a share or the pool was exhausted.",
            ),
            family(
                "diolkos_declined_packets",
                "Packets that the fast path left to the slow path, by reason.",
            ),
            family("diolkos_packet_events", "Other events of packets, by name."),
        ])
    }

    fn add(&mut self, path: &str, name: &str, counter: &Counter) {
        let [translated, bytes, dropped, limits, declined, others] = &mut self.0;
        let (path, value) = (("path", path), Value::Counter(counter.packets));
        if let Some(direction) = name.strip_prefix("translated_") {
            let labels = [path, ("direction", direction)];
            translated.add(&labels, value);
            let its = counter.bytes.unwrap_or_default();
            bytes.add(&labels, Value::Counter(its));
        } else if let Some(reason) = name.strip_prefix("drop.") {
            dropped.add(&[path, ("reason", reason)], value);
            if is_of_limit(reason) {
                limits.add(&[("limit", reason)], value);
            }
        } else if let Some(reason) = name.strip_prefix("decline_") {
            declined.add(&[("reason", reason)], value);
        } else {
            others.add(&[path, ("event", name)], value);
        }
    }
}

/// Returns true if the reason of a drop is that a limit was reached.
fn is_of_limit(name: &str) -> bool {
    let reason = Reason::ALL.iter().find(|reason| reason.name() == name);
    let is_of_state = reason.is_some_and(|reason| reason.group() == Group::State);
    is_of_state && (name.ends_with("_limit") || name == Reason::PoolExhausted.name())
}

#[cfg(test)]
mod tests {
    use super::super::family::text;
    use super::*;
    use crate::translator::{Condition, State};

    fn counter(name: &str, packets: u64, bytes: Option<u64>) -> Counter {
        Counter {
            name: name.to_owned(),
            packets,
            bytes,
        }
    }

    #[test]
    fn every_counter_has_a_place() {
        let counters = [
            counter("fast.translated_4to6", 1, Some(100)),
            counter("fast.decline_state", 2, Some(1)),
            counter("fast.sent_xdp", 3, Some(1)),
            counter("slow.translated_6to4", 4, Some(400)),
            counter("slow.drop.host_session_limit", 5, None),
            counter("slow.drop.hop_limit", 6, None),
            counter("slow.drop.pool_exhausted", 7, None),
            counter("slow.held", 8, None),
            counter("state.sessions", 9, None),
            counter("state.write_failed", 10, None),
            counter("dns64.answer.passed", 11, None),
            counter("answer.sent", 12, None),
        ];
        let figures = Figures {
            about: vec![("mode".to_owned(), "siit".to_owned())],
            counters: counters.into(),
            state: None,
            cluster: None,
        };
        let mut status = Status::starting("siit", "diolkos0");
        status.take(Condition {
            state: State::Ready,
            obstacles: vec!["eth0 is down".to_owned()],
            findings: vec![Finding::trouble(Why::StateFile, "the disk is full")],
            ..Condition::default()
        });
        let page = text(families(&figures, None, &status));
        for line in [
            "diolkos_instance_info{mode=\"siit\"} 1",
            "diolkos_ready 0",
            "diolkos_obstacles{reason=\"way\"} 1",
            "diolkos_troubles{reason=\"way\"} 0",
            "diolkos_troubles{reason=\"state_file\"} 1",
            "diolkos_translated_packets_total{path=\"fast\",direction=\"4to6\"} 1",
            "diolkos_translated_bytes_total{path=\"slow\",direction=\"6to4\"} 400",
            "diolkos_declined_packets_total{reason=\"state\"} 2",
            "diolkos_packet_events_total{path=\"fast\",event=\"sent_xdp\"} 3",
            "diolkos_dropped_packets_total{path=\"slow\",reason=\"hop_limit\"} 6",
            "diolkos_limit_hits_total{limit=\"host_session_limit\"} 5",
            "diolkos_limit_hits_total{limit=\"pool_exhausted\"} 7",
            "diolkos_packet_events_total{path=\"slow\",event=\"held\"} 8",
            "diolkos_events_total{part=\"state\",event=\"write_failed\"} 10",
            "diolkos_dns64_events_total{event=\"answer.passed\"} 11",
            "diolkos_events_total{part=\"answer\",event=\"sent\"} 12",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
        assert!(
            !page.contains("limit=\"hop_limit\"") && !page.contains("_up"),
            "{page}"
        );
    }
}
