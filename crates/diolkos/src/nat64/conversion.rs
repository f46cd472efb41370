// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions as the tables have them, and as the fast path has them.

use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_core::session::{SessionState, SessionView};
use diolkos_sys::fastpath::{Opening, Session};

/// As the maps have it: protocols by IPv4's numbers.
pub fn to_maps(view: &SessionView) -> Session {
    let binding = &view.binding;
    Session {
        protocol: match binding.protocol {
            Protocol::Icmp => 1,
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        },
        node: (binding.v6.addr, binding.v6.port),
        v4: (binding.v4.addr, binding.v4.port),
        peer: (view.peer.addr, view.peer.port),
        prefix: view.prefix,
    }
}

/// A session that a program has opened just now.
pub fn opened(opening: &Opening) -> SessionView {
    let endpoint4 = |(addr, port)| Endpoint4 { addr, port };
    let (addr, port) = opening.node;
    SessionView {
        binding: Binding {
            protocol: Protocol::Udp,
            v4: endpoint4(opening.v4),
            v6: Endpoint6 { addr, port },
        },
        peer: endpoint4(opening.peer),
        prefix: opening.prefix,
        state: SessionState::Udp,
        // All that its kind may have.
        remaining: Duration::from_secs(u32::MAX.into()),
    }
}
