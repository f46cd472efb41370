// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inputs and outputs of a node.

use crate::armed::Armed;
use crate::config::NodeId;
use crate::record::{Answer, Request};
use crate::Moment;
use diolkos_nat64::config::{Binding, Endpoint4, Protocol};

/// An event for a node.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection with another node is up, and the peer's certificate has been checked. From now on only this
    /// connection counts.
    Connected {
        /// The other node.
        peer: NodeId,
        /// Identifies the connection; never reused.
        connection: u64,
        /// Bytes that it can take.
        room: usize,
    },
    /// A message has arrived.
    Message {
        /// The sender.
        peer: NodeId,
        /// The connection.
        connection: u64,
        /// The message as received.
        bytes: &'a [u8],
    },
    /// A connection has ended.
    Lost {
        /// The other node.
        peer: NodeId,
        /// The connection.
        connection: u64,
    },
    /// A connection can take this many bytes now.
    Room {
        /// The other node.
        peer: NodeId,
        /// The connection.
        connection: u64,
        /// Number of bytes.
        room: usize,
    },
    /// The engine answers.
    Answer {
        /// The request.
        token: u64,
        /// The answer.
        answer: Answer,
    },
    /// This node has made a binding ([`crate::Node::may_open`]).
    Opened(Binding),
    /// A binding of this node has ended, and no program translates by it any more.
    Closed(Protocol, Endpoint4),
    /// There are too few free ports.
    Short,
    /// Time passes; sent every 20 to 100 ms.
    Tick,
    /// New subscribers are to go to other nodes.
    Drain,
    /// Ends the effect of `Drain`.
    Stay,
    /// The operator wants this node to change to another file together with all others.
    Arm(Armed),
    /// Ends the effect of `Arm`, unless the node is already changing.
    Disarm,
    /// The node stops. Its programs should no longer translate.
    Leave,
}

/// An action for the caller, to be carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// The recipient.
        peer: NodeId,
        /// The connection.
        connection: u64,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Close a connection, and make another one.
    Close {
        /// The other node.
        peer: NodeId,
        /// The connection.
        connection: u64,
    },
    /// Send a request to the engine, and return its answer with this token. Without an answer the node asks again.
    Ask {
        /// Identifies the request.
        token: u64,
        /// The request.
        request: Request,
    },
    /// Translate by sessions from copies of this owner's bindings until this time of this node's clock, in programs,
    /// too.
    SetDeadline {
        /// The owner.
        owner: NodeId,
        /// The end of use.
        until: Moment,
    },
    /// End the sessions that were made from this copy.
    Forget(Protocol, Endpoint4),
    /// End the sessions that were made from any copy of this owner's bindings.
    ForgetAll(NodeId),
    /// Translate by this binding of this node, which another node knew.
    Install(Binding),
    /// Make this port unavailable until [`Action::Free`]: another node may use it.
    Hold(Protocol, Endpoint4),
    /// Make the port available: it no longer rests.
    Free(Protocol, Endpoint4),
    /// The set of nodes that are reachable or take new subscribers has changed: read [`crate::Node::home`] and
    /// [`crate::Node::takes`] again.
    Homes,
    /// The same for one bucket: another node has its first binding in it, or has no more.
    Home(usize),
    /// Attract packets, or stop attracting them.
    Attract(bool),
    /// There is more to do than one turn may: let packets pass, and then send a tick.
    Again,
    /// Leave, and start again with this file, expecting the others. The node does not change until it is told to leave.
    GoOver(u64),
    /// Everything that had to be said before the process ends is said.
    Left,
    /// Something for the operator.
    Report(Report),
}

/// A report for the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The other node's file differs in this part.
    Differs(NodeId, &'static str),
    /// The other node sends something that it may not send, or that cannot be read.
    Strange(NodeId),
    /// The other node reads messages too slowly, and gets a new snapshot.
    Slow(NodeId),
    /// This node no longer waits for the other one, and may reuse the ports.
    Void(NodeId),
    /// Another process has this node's name. This one has to end.
    Superseded,
}

/// The treatment of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Translate by a binding of this node.
    Here,
    /// Translate by a copy, until the deadline of its owner.
    Copy(Binding),
    /// Forward it to that node.
    Forward(NodeId),
    /// Open a binding.
    Open,
    /// Drop it.
    Drop(Reason),
}

/// The reason why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No node has a binding.
    NoBinding,
    /// The owner is not reachable, and copies may not be used.
    Unreachable,
    /// Another node has forwarded it here by mistake; the correction is in flight.
    Stale,
    /// No node opens bindings.
    NotServing,
    /// It is not an address of the pool.
    Foreign,
}
