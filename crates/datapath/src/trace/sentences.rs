// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the steps of a packet in sentences.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_nat64::config::LevelKind;
use diolkos_nat64::session::{Holding, QuotaUse, TableStep};
use diolkos_nat64::Nat64Trace;
use diolkos_xlat::map::Via;
use diolkos_xlat::trace::{End, Mapping};
use diolkos_xlat::{Config, Eam, Reason};

use super::report::Report;

/// Adds every step to the report.
pub fn steps(report: &mut Report, trace: &Nat64Trace, config: &Config) {
    for mapping in &trace.packet.mappings {
        let (Mapping::Mapped { end, .. } | Mapping::Unmapped { end, .. }) = mapping;
        let name = match end {
            End::Source => "source",
            End::Destination => "destination",
        };
        let text = match mapping {
            Mapping::Mapped { v6, v4, via, .. } => {
                format!("{v6} is {v4} by {}", by(config, *via, *v6, *v4))
            }
            Mapping::Unmapped { addr, .. } => {
                let other = if addr.is_ipv4() { "IPv6" } else { "IPv4" };
                format!("{addr} has no {other} address")
            }
        };
        report.step(name, text);
    }
    if trace.packet.turns {
        let text = "the destination is behind the translator, too: the packet turns back to IPv6 (RFC 6146 section 3.8, RFC 7757 section 4.2)";
        report.step("hairpin", text.to_owned());
    }
    for step in &trace.tables {
        let (name, text) = table_step(step);
        report.step(name, text);
    }
    if let Some(mss) = trace.packet.clamped {
        let text = format!(
            "the SYN announces {} bytes and leaves with {} (translator.tcp_mss)",
            mss.from, mss.to
        );
        report.step("mss", text);
    }
}

fn table_step(step: &TableStep) -> (&'static str, String) {
    match step {
        TableStep::Binding(view) => {
            let binding = view.binding;
            let (protocol, v6, v4) = (binding.protocol.name(), binding.v6, binding.v4);
            let (origin, sessions) = (view.origin.name(), view.sessions);
            (
                "binding",
                format!("found: {protocol} {v6} is {v4} ({origin}, sessions: {sessions})"),
            )
        }
        TableStep::Binds {
            protocol,
            v6,
            addr,
            port,
            pool,
        } => {
            let pool = pool.map_or_else(String::new, |of| format!(" for {of}"));
            let port = match port {
                Some(port) => format!("with port {port}"),
                None => "with a port that is chosen at random".to_owned(),
            };
            let protocol = protocol.name();
            (
                "binding",
                format!("would be opened: {protocol} {v6} on {addr} of the pool{pool}, {port}"),
            )
        }
        TableStep::Session(view) => (
            "session",
            format!(
                "found: with {} ({}, expires in {} s)",
                view.peer,
                view.state.name(),
                view.remaining.as_secs()
            ),
        ),
        TableStep::Opens { peer, state } => (
            "session",
            format!("would be opened: with {peer} ({})", state.name()),
        ),
        TableStep::Moves { from, to } => (
            "session",
            format!("would change from {} to {}", from.name(), to.name()),
        ),
        TableStep::NoSession => (
            "session",
            "none, and none would be opened: the packet is no SYN; the binding alone lets it through (RFC 6146 section 3.5.2.2)"
                .to_owned(),
        ),
        TableStep::KeepsSyn => (
            "session",
            "none: the SYN would be kept for the case that the node sends one, too (RFC 6146 section 3.5.2.2)".to_owned(),
        ),
        TableStep::Filtering {
            by_address,
            permits,
        } => ("filtering", filtering(*by_address, *permits).to_owned()),
        TableStep::GivesBlock {
            source,
            source_prefix_len,
            addr,
        } => (
            "block",
            format!("would be given to {source}/{source_prefix_len}, of {addr}"),
        ),
    }
}

fn filtering(by_address: bool, permits: bool) -> &'static str {
    match (by_address, permits) {
        (false, _) => {
            "depends on endpoints only: everybody may send to a binding (RFC 4787 section 5)"
        }
        (true, true) => {
            "depends on addresses: the node has sent to this address (RFC 4787 section 5)"
        }
        (true, false) => {
            "depends on addresses: the node has not sent to this address (RFC 4787 section 5)"
        }
    }
}

/// Describes what mapped an address.
fn by(config: &Config, via: Via, v6: Ipv6Addr, v4: Ipv4Addr) -> String {
    match via {
        Via::Pref64(at) => match config.pref64.get(usize::from(at)) {
            Some(prefix) => format!("the translation prefix {prefix} (RFC 6052)"),
            None => "a translation prefix (RFC 6052)".to_owned(),
        },
        Via::Eam => {
            let fits = |eam: &&Eam| eam.v4.contains(&v4) && eam.v6.contains(&v6);
            // The longest match decides (RFC 7757 section 3.2).
            let longest = config
                .eam
                .iter()
                .filter(fits)
                .max_by_key(|eam| eam.v4.prefix_len());
            match longest {
                Some(eam) => format!("the mapping {} = {} (RFC 7757)", eam.v4, eam.v6),
                None => "an explicit mapping (RFC 7757)".to_owned(),
            }
        }
    }
}

/// Describes what the sender's prefixes hold, if that is why it is refused.
pub fn shares(report: &mut Report, reason: Reason, holdings: &[Holding]) {
    // For other limits, shares do not matter.
    let is_of_shares = matches!(
        reason,
        Reason::PoolExhausted
            | Reason::SessionLimit
            | Reason::BindingLimit
            | Reason::HostSessionLimit
            | Reason::HostBindingLimit
            | Reason::SourceSessionLimit
            | Reason::SourceBindingLimit
            | Reason::SiteSessionLimit
            | Reason::SiteBindingLimit
    );
    if !is_of_shares {
        return;
    }
    for holding in holdings {
        let kind = match holding.kind {
            LevelKind::Site => "site",
            LevelKind::Source => "source",
            LevelKind::Host => "host",
        };
        let of = |held: QuotaUse| format!("{} of {}", held.has, held.may);
        let [tcp, udp, icmp] = holding.ports.map(of);
        report.step(
            "share",
            format!(
                "{kind} {}/{} has {} sessions, {} bindings; ports: TCP {tcp}, UDP {udp}, ICMP {icmp}",
                holding.prefix,
                holding.prefix_len,
                of(holding.sessions),
                of(holding.bindings),
            ),
        );
    }
}
