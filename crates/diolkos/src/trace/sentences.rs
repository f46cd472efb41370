// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of a packet in sentences.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_core::addr::Via;
use diolkos_core::config::nat64::{Binding, LevelKind};
use diolkos_core::session::{Event, Held, Holding, Origin};
use diolkos_core::trace::End;
use diolkos_core::{Config, Eam, Reason, Step};

use super::report::Report;

/// Writes every step.
pub fn steps(report: &mut Report, steps: &[Step], config: &Config) {
    for step in steps {
        match step {
            Step::Mapped { end, v6, v4, via } => {
                let end = match end {
                    End::Source => "source",
                    End::Destination => "destination",
                };
                report.step(end, format!("{v6} is {v4} by {}", by(config, *via, *v6, *v4)));
            }
            Step::Turns => report.step(
                "hairpin",
                "the destination is behind the translator, too: the packet turns back to IPv6 (RFC 6146 section 3.8, RFC 7757 section 4.2)"
                    .to_owned(),
            ),
            Step::Binding(view) => {
                let origin = match view.origin {
                    Origin::Configured => "configured",
                    Origin::Operator => "operator",
                    Origin::Dynamic => "dynamic",
                };
                let sessions = view.sessions;
                report.step("binding", format!("found: {} ({origin}, sessions: {sessions})", both(&view.binding)));
            }
            Step::Session(view) => report.step(
                "session",
                format!(
                    "found: with {} ({}, expires in {} s)",
                    view.peer,
                    view.state.name(),
                    view.remaining.as_secs()
                ),
            ),
            Step::NoSession => report.step(
                "session",
                "none, and none would be opened: the packet is no SYN; the binding alone lets it through (RFC 6146 section 3.5.2.2)"
                    .to_owned(),
            ),
            Step::Filtering { by_address, permits } => report.step("filtering", filtering(*by_address, *permits).to_owned()),
            Step::Changes(event) => changes(report, event),
        }
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
        Event::SessionClosed(_) | Event::BlockReleased(_) => {}
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
    if !(reason.name().ends_with("_limit") || reason == Reason::PoolExhausted) {
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
