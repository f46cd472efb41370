// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of sessions between the form of the tables and that of the fast path.

use std::time::Duration;

use diolkos_fastpath::{NodePort, Opening, Owner, Sent, Session};
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{SessionState, SessionView};

/// Converts a session to the form of the maps: protocols have the numbers of IPv4.
pub fn to_maps(view: &SessionView, owner: Owner) -> Session {
    let binding = &view.binding;
    Session {
        protocol: number(binding.protocol),
        node: (binding.v6.addr, binding.v6.port),
        v4: (binding.v4.addr, binding.v4.port),
        peer: (view.peer.addr, view.peer.port),
        prefix: view.prefix,
        owner,
    }
}

/// Returns the protocol number in IP headers; that of ICMP also stands for ICMPv6.
pub fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Icmp => 1,
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

/// Returns the port of a binding as the maps have it. ICMP queries have none.
pub fn node_port(binding: &Binding) -> Option<NodePort> {
    (binding.protocol != Protocol::Icmp).then(|| NodePort {
        protocol: number(binding.protocol),
        addr: binding.v6.addr,
        port: binding.v6.port,
    })
}

/// Returns the protocol of a program's report.
pub fn protocol_of(opening: &Opening) -> Protocol {
    match opening.protocol {
        6 => Protocol::Tcp,
        _ => Protocol::Udp,
    }
}

/// Returns what each side must have sent for a session to be in this state.
pub fn sent(state: SessionState) -> Sent {
    Sent(match state {
        SessionState::Udp | SessionState::Icmp => 0,
        SessionState::V4Init => Sent::SYN4,
        SessionState::V6Init => Sent::SYN6,
        SessionState::Established | SessionState::Trans => Sent::SYNS,
        SessionState::V4FinRcv => Sent::SYNS | Sent::FIN4,
        SessionState::V6FinRcv => Sent::SYNS | Sent::FIN6,
        SessionState::V4FinV6FinRcv => Sent::SYNS | Sent::FINS,
    })
}

/// Returns true if the copy of a session that was in this state, with this prefix number, is still right for what the
/// session is now. When a port is used again, the copy must forget what both sides have sent before.
pub fn is_copied_alike(now: &SessionView, state: SessionState, prefix: u8) -> bool {
    let before = SessionView {
        state,
        prefix,
        ..*now
    };
    prefix == now.prefix
        && before.is_for_fast_path() == now.is_for_fast_path()
        && state != SessionState::V4FinV6FinRcv
}

/// Returns the binding and the peer of a session that a program reports.
pub fn session_of(opening: &Opening) -> (Binding, Endpoint4) {
    let endpoint4 = |(addr, port)| Endpoint4 { addr, port };
    let (addr, port) = opening.node;
    let binding = Binding {
        protocol: protocol_of(opening),
        v4: endpoint4(opening.v4),
        v6: Endpoint6 { addr, port },
    };
    (binding, endpoint4(opening.peer))
}

/// Returns a session that a program has just opened.
pub fn opened(opening: &Opening) -> SessionView {
    let (binding, peer) = session_of(opening);
    SessionView {
        binding,
        peer,
        prefix: opening.prefix,
        state: match binding.protocol {
            Protocol::Tcp => SessionState::V6Init,
            _ => SessionState::Udp,
        },
        // It has all of the lifetime that its kind may have.
        remaining: Duration::from_secs(u32::MAX.into()),
    }
}
