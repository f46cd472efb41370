// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of a packet through the tables, for a trace.

use crate::config::Protocol;
use crate::session::{BindingView, Event, SessionView};
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::Step;
use std::net::{IpAddr, SocketAddr};

/// A step of a packet through a NAT64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nat64Step {
    /// One that needs no state.
    Stateless(Step),
    /// The binding that it belongs to, which was there.
    Binding(BindingView),
    /// The session that it belongs to, which was there.
    Session(SessionView),
    /// No binding is that of the packet that an ICMP error quotes.
    NoBinding {
        /// The table in which there is none.
        protocol: Protocol,
        /// The node's address and port, as the packet has them.
        node: SocketAddr,
    },
    /// An ICMP error goes to another address than that from which the packet came that it quotes.
    Astray {
        /// Where the error goes.
        to: IpAddr,
        /// Where the quoted packet came from.
        quoted: IpAddr,
    },
    /// An ICMP error quotes a fragment without ports, which no table can find.
    QuotesLaterFragment,
    /// The first fragment of a packet: its ports are remembered for the others.
    FirstFragment {
        /// So many others had come before it, were held, and leave behind it.
        held: usize,
    },
    /// A later fragment, whose first one has passed: it has the ports of that one.
    LaterFragment {
        /// The port of the source.
        src_port: u16,
        /// The port of the destination.
        dst_port: u16,
    },
    /// A later fragment, whose first one has not come: it is held until then.
    HeldFragment,
    /// A fragment of ICMP, or of UDP without checksum: it is held until all others of its packet have come.
    GatheredFragment,
    /// The last fragment of such a packet to come: the steps behind this one are those of the packet, put together.
    Reassembled {
        /// So many fragments.
        fragments: usize,
        /// Bytes of the packet.
        len: usize,
    },
    /// There is no session, and it opens none: a TCP packet other than SYN.
    NoSession,
    /// It comes from the IPv4 side and belongs to no session.
    Filtering {
        /// Filtering depends on addresses (RFC 4787 section 5).
        by_address: bool,
        /// It may come in.
        permits: bool,
    },
    /// It would change the tables so.
    Changes(Event),
}

impl Nat64Step {
    /// That of a later fragment, whose first one has passed with these ports.
    pub(crate) fn of_later_fragment(numbers: Numbers) -> Nat64Step {
        Nat64Step::LaterFragment {
            src_port: numbers.src,
            dst_port: numbers.dst,
        }
    }
}

impl From<Step> for Nat64Step {
    fn from(step: Step) -> Nat64Step {
        Nat64Step::Stateless(step)
    }
}
