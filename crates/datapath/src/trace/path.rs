// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts the path of a packet, as far as that is possible without sending it: the programs are not run, because they
//! would count it.

use std::net::IpAddr;

use diolkos_nat64::session::TableStep;
use diolkos_nat64::Nat64Trace;
use diolkos_xlat::{Reason, Verdict};

use super::packet::Transport;
use super::Asked;

/// The programs of a running translator.
#[derive(Clone, Debug)]
pub struct FastPathKind {
    /// The hook, as `show status` names it, and the placement.
    pub name: String,
    /// True if it has sessions.
    pub is_stateful: bool,
}

/// Returns `fast`, `slow` or `either`, and the reason.
pub fn likely(asked: &Asked<'_>, trace: &Nat64Trace) -> (&'static str, String) {
    let Some(fast) = &asked.fast else {
        return ("slow", "there is no fast path".to_owned());
    };
    if let Some(reason) = declined(asked, trace) {
        let (name, meaning) = (reason.name(), reason.describe());
        return (
            "slow",
            format!("the fast path declines it ({name}): {meaning}"),
        );
    }
    if matches!(trace.packet.verdict, Verdict::Drop(_) | Verdict::Held) {
        return (
            "either",
            "whichever refuses it does so for the same reason".to_owned(),
        );
    }
    if fast.is_stateful {
        let has_session = trace
            .tables
            .iter()
            .any(|step| matches!(step, TableStep::Session(_)));
        let is_out = matches!(asked.packet.words.src, IpAddr::V6(_));
        if !has_session && is_out {
            let why = "it opens a session: fast if the programs have a lease for the node, otherwise slow (decline_state)";
            return ("either", why.to_owned());
        }
        if !has_session {
            let name = Reason::DeclineState.name();
            return (
                "slow",
                format!("the fast path declines it ({name}): it has no session"),
            );
        }
    }
    ("fast", fast.name.clone())
}

/// Returns the reason why the programs certainly leave the packet to the slow path. The order of checks is that of the
/// programs (bpf/parse.h).
fn declined(asked: &Asked<'_>, trace: &Nat64Trace) -> Option<Reason> {
    let has = |is: fn(&TableStep) -> bool| trace.tables.iter().any(is);
    let verdict = trace.packet.verdict;
    let too_big = matches!(verdict, Verdict::Drop(Reason::TooBig | Reason::TooLong));
    if asked.packet.details.hop_limit <= 1 {
        return Some(Reason::DeclineHopLimit);
    }
    if matches!(asked.packet.words.transport, Transport::Other(_)) {
        return Some(Reason::DeclineTransport);
    }
    if trace.packet.turns {
        Some(Reason::DeclineHairpin)
    } else if too_big || verdict == Verdict::Emitted {
        Some(Reason::DeclineSize)
    } else if has(|step| matches!(step, TableStep::Session(view) if !view.is_for_fast_path()))
        || has(|step| matches!(step, TableStep::NoSession | TableStep::GivesBlock { .. }))
    {
        Some(Reason::DeclineState)
    } else {
        None
    }
}
