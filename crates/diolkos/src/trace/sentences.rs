// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of a packet in sentences.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_nat64::config::{Binding, LevelKind};
use diolkos_nat64::session::{Event, Held, Holding};
use diolkos_nat64::Nat64Step;
use diolkos_xlat::addr::Via;
use diolkos_xlat::step::End;
use diolkos_xlat::{Config, Eam, Reason, Step};

use super::report::Report;

/// Writes every step.
pub fn steps(report: &mut Report, steps: &[Nat64Step], config: &Config) {
    let mut is_of_others = false;
    for step in steps {
        // What waited for a first fragment goes its way, which has been told.
        if is_of_others && !matches!(step, Nat64Step::Changes(_)) {
            continue;
        }
        is_of_others |= matches!(step, Nat64Step::FirstFragment { .. });
        match step {
            Nat64Step::Stateless(Step::Mapped { end, v6, v4, via }) => {
                let (name, which) = names(*end);
                report.step(name, format!("{which}{v6} is {v4} by {}", by(config, *via, *v6, *v4)));
            }
            Nat64Step::Stateless(Step::Unmapped { end, addr }) => {
                let (name, which) = names(*end);
                let other = if addr.is_ipv4() { "IPv6" } else { "IPv4" };
                report.step(name, format!("{which}{addr} has no {other} address"));
            }
            Nat64Step::Stateless(Step::StandsIn { router, by }) => {
                report.step("source", format!("{by} stands in for the router {router} (RFC 6791)"));
            }
            Nat64Step::NoBinding { protocol, node } => report.step(
                "binding",
                format!("none is that of the quoted packet: {} {node}", protocol.name()),
            ),
            Nat64Step::Astray { to, quoted } => report.step(
                "quoted",
                format!("the packet came from {quoted}, but the error goes to {to}"),
            ),
            Nat64Step::QuotesLaterFragment => report.step(
                "quoted",
                "a fragment other than the first, which has no ports to find a binding by".to_owned(),
            ),
            Nat64Step::Stateless(Step::LoneFragment) => report.step(
                "fragment",
                "translated by itself, without regard to the others (RFC 7915 sections 4.1 and 5.1.1)".to_owned(),
            ),
            Nat64Step::FirstFragment { held } => report.step("fragment", first_fragment(*held)),
            Nat64Step::LaterFragment { src_port, dst_port } => report.step(
                "fragment",
                format!("the first one of the packet has passed, with the ports {src_port} > {dst_port}"),
            ),
            Nat64Step::HeldFragment => report.step(
                "fragment",
                "the first one of the packet, which has the ports, has not come: this one would be held until then (RFC 6146 section 3.4)"
                    .to_owned(),
            ),
            Nat64Step::GatheredFragment => report.step(
                "fragment",
                "of ICMP, or of UDP without checksum, which is translated as a whole: it would be held until all others have come (RFC 6146 section 3.4)"
                    .to_owned(),
            ),
            Nat64Step::Reassembled { fragments, len } => report.step(
                "fragment",
                format!("the last one to come: {fragments} make a packet of {len} bytes, of which the lines below tell"),
            ),
            Nat64Step::Stateless(Step::Turns) => report.step(
                "hairpin",
                "the destination is behind the translator, too: the packet turns back to IPv6 (RFC 6146 section 3.8, RFC 7757 section 4.2)"
                    .to_owned(),
            ),
            Nat64Step::Binding(view) => {
                let (origin, sessions) = (view.origin.name(), view.sessions);
                report.step("binding", format!("found: {} ({origin}, sessions: {sessions})", both(&view.binding)));
            }
            Nat64Step::Session(view) => report.step(
                "session",
                format!(
                    "found: with {} ({}, expires in {} s)",
                    view.peer,
                    view.state.name(),
                    view.remaining.as_secs()
                ),
            ),
            Nat64Step::NoSession => report.step(
                "session",
                "none, and none would be opened: the packet is no SYN; the binding alone lets it through (RFC 6146 section 3.5.2.2)"
                    .to_owned(),
            ),
            Nat64Step::Filtering { by_address, permits } => report.step("filtering", filtering(*by_address, *permits).to_owned()),
            Nat64Step::Changes(event) => changes(report, event),
        }
    }
}

/// Of an address: the name of the step, and the beginning of the sentence.
fn names(end: End) -> (&'static str, &'static str) {
    match end {
        End::Source => ("source", ""),
        End::Destination => ("destination", ""),
        End::QuotedSource => ("quoted", "source "),
        End::QuotedDestination => ("quoted", "destination "),
    }
}

fn first_fragment(held: usize) -> String {
    let ports = "the first one of the packet: its ports are remembered for the others";
    match held {
        0 => ports.to_owned(),
        1 => format!("{ports}; 1 is held and leaves behind it"),
        held => format!("{ports}; {held} are held and leave behind it"),
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

fn changes(report: &mut Report, event: &Event) {
    match event {
        Event::BindingOpened(binding) => report.step(
            "binding",
            format!("would be opened: {}, or another port, which is chosen at random unless a port is preserved", both(binding)),
        ),
        Event::SessionOpened(view) => report.step(
            "session",
            format!("would be opened: with {} ({})", view.peer, view.state.name()),
        ),
        Event::SessionChanged(view, (before, _)) => report.step(
            "session",
            format!("would change from {} to {}", before.name(), view.state.name()),
        ),
        Event::BlockAllocated(block) => report.step(
            "block",
            format!(
                "would be given to {}/{}: ports {}-{} of {}, or another one",
                block.source, block.source_prefix_len, block.first, block.last, block.addr
            ),
        ),
        // What was opened before is taken back: the verdict says why.
        Event::BindingClosed(_) => report.step("binding", "would be closed again".to_owned()),
        Event::CopyMade(binding, _) => report.step(
            "binding",
            format!("would be that of another gateway: {}", both(binding)),
        ),
        Event::SessionClosed(_) | Event::BlockReleased(_) | Event::CopyEnded(..) => {}
    }
}

fn both(binding: &Binding) -> String {
    format!(
        "{} {} is {}",
        binding.protocol.name(),
        binding.v6,
        binding.v4
    )
}

/// What mapped an address.
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

/// What the prefixes have that the sender is in, if that is why it is refused.
pub fn shares(report: &mut Report, reason: Reason, holdings: &[Holding]) {
    // Of other limits, this is not what counts.
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
        let of = |held: Held| format!("{} of {}", held.has, held.may);
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
