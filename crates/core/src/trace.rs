// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would become of a packet, and why.
//!
//! A trace goes the way of the packet itself: the same stages, the same tables, the same verdict. Afterwards every change is
//! undone ([`Nat64::trace`]), of the fragments that are followed, too, and no token of the limit of ICMP errors has been
//! used. On its way the packet tells its steps ([`Step`]) through [`Outbox::step`] and [`Watcher::step`], which cost nothing where nobody listens.

use crate::addr::Via;
use crate::config::nat64::Protocol;
use crate::icmp::Tokens;
use crate::nat64::{Nat64, Random};
use crate::packet::{Env, Offload, Outbox, Packet, HEADROOM};
use crate::session::{BindingView, Event, SessionView, Watcher};
use crate::verdict::{Reason, Verdict};
use crate::xlat::Translator;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// Which address of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
    /// The source of the packet that an ICMP error quotes.
    QuotedSource,
    /// The destination of that packet.
    QuotedDestination,
}

/// A step of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An address was mapped.
    Mapped {
        /// Which one.
        end: End,
        /// In IPv6.
        v6: Ipv6Addr,
        /// In IPv4.
        v4: Ipv4Addr,
        /// By what.
        via: Via,
    },
    /// An address of an ICMP error, or of the packet that it quotes, has none in the other family.
    Unmapped {
        /// Which one.
        end: End,
        /// The address.
        addr: IpAddr,
    },
    /// The error is a router's, and leaves with this source in place of the router's own (RFC 6791).
    StandsIn {
        /// The router.
        router: IpAddr,
        /// The source.
        by: IpAddr,
    },
    /// The destination is behind the translator, as the source is: the packet turns back (RFC 6146 section 3.8, RFC 7757
    /// section 4.2).
    Turns,
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
    /// A fragment is translated by itself, without regard to the others of its packet.
    LoneFragment,
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

/// What would become of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// In their order.
    pub steps: Vec<Step>,
    /// As [`Nat64::translate`] and [`Translator::translate`] say it.
    pub verdict: Verdict,
    /// What would leave, translated: one packet, or several fragments; and behind a first fragment those that waited for it.
    pub sent: Vec<Vec<u8>>,
    /// Packets that were held before and would be dropped now, each with the reason.
    pub dropped: Vec<Reason>,
    /// The ICMP error that its sender would get.
    pub answer: Option<Vec<u8>>,
}

impl Translator {
    /// What would become of a packet that came now. No error is counted.
    pub fn trace(&self, packet: &[u8], env: &mut impl Env) -> Trace {
        let record = RefCell::default();
        let verdict = rehearsed(packet, &record, |packet| {
            self.translate_with(packet, env, &mut Recorder(&record), Tokens::Look)
        });
        record.into_inner().into_trace(verdict)
    }
}

impl Nat64 {
    /// What would become of a packet that came now. The tables, and the fragments that are followed, are afterwards as they
    /// were.
    pub fn trace(&mut self, packet: &[u8], env: &mut impl Random) -> Trace {
        let record = RefCell::default();
        self.rehearse();
        let verdict = rehearsed(packet, &record, |packet| {
            let (out, watcher) = (&mut Recorder(&record), &mut Recorder(&record));
            self.translate_with(packet, env, out, watcher, Tokens::Look)
        });
        self.roll_back();
        record.into_inner().into_trace(verdict)
    }
}

/// Has a copy of the packet translated, and takes down what it became.
fn rehearsed(
    bytes: &[u8],
    record: &RefCell<Record>,
    translate: impl FnOnce(&mut Packet<'_>) -> Verdict,
) -> Verdict {
    let end = HEADROOM + bytes.len();
    let mut buffer = vec![0; end + BACK];
    buffer[HEADROOM..end].copy_from_slice(bytes);
    let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
    let verdict = translate(&mut packet);
    if verdict == Verdict::Forward {
        record.borrow_mut().sent.push(packet.bytes().to_vec());
    }
    verdict
}

/// What a packet has told so far.
#[derive(Default)]
struct Record {
    steps: Vec<Step>,
    sent: Vec<Vec<u8>>,
    dropped: Vec<Reason>,
    answer: Option<Vec<u8>>,
    is_refused: bool,
}

impl Record {
    fn into_trace(self, verdict: Verdict) -> Trace {
        Trace {
            steps: self.steps,
            verdict,
            sent: self.sent,
            dropped: self.dropped,
            answer: self.answer,
        }
    }
}

struct Recorder<'a>(&'a RefCell<Record>);

impl Outbox for Recorder<'_> {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        let mut record = self.0.borrow_mut();
        match record.is_refused {
            true => record.answer = Some(packet.to_vec()),
            false => record.sent.push(packet.to_vec()),
        }
    }

    fn refused(&mut self, _: Reason, _: &[u8]) {
        self.0.borrow_mut().is_refused = true;
    }

    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.0.borrow_mut().steps.push(step());
    }
}

impl Watcher for Recorder<'_> {
    fn event(&mut self, event: Event) {
        self.0.borrow_mut().steps.push(Step::Changes(event));
    }

    /// Whoever knows it may forget it when it is asked.
    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, reason: Reason) {
        self.0.borrow_mut().dropped.push(reason);
    }

    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.0.borrow_mut().steps.push(step());
    }
}
