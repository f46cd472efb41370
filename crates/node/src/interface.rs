// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes into a node, and what comes out.

use crate::config::NodeId;
use crate::record::{Answer, Request};
use crate::roll::Armed;
use crate::Moment;
use diolkos_nat64::config::{Binding, Endpoint4, Protocol};

/// What happens to a node.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection with another node is up, whose certificate says that it is this one. It counts from now on, and no other.
    Connected {
        /// The other node.
        peer: NodeId,
        /// Names the connection; never used again.
        connection: u64,
        /// Bytes that it can take.
        room: usize,
    },
    /// A message has come.
    Message {
        /// From whom.
        peer: NodeId,
        /// On which connection.
        connection: u64,
        /// As it came.
        bytes: &'a [u8],
    },
    /// A connection has ended.
    Lost {
        /// With whom.
        peer: NodeId,
        /// Which one.
        connection: u64,
    },
    /// A connection can take so many bytes now.
    Room {
        /// With whom.
        peer: NodeId,
        /// Which one.
        connection: u64,
        /// Bytes.
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
    /// Free ports are short.
    Short,
    /// Time passes; every 20 to 100 ms.
    Tick,
    /// New subscribers are to go elsewhere.
    Drain,
    /// Not any more.
    Stay,
    /// The operator wants this node to go over to another file with all others.
    Arm(Armed),
    /// Not any more; too late if it goes over already.
    Disarm,
    /// The node stops. Its programs should not translate any more.
    Leave,
}

/// What is to be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// To whom.
        peer: NodeId,
        /// On which connection.
        connection: u64,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Close a connection, and make another one.
    Close {
        /// With whom.
        peer: NodeId,
        /// Which one.
        connection: u64,
    },
    /// Ask the engine, and answer with this token. Without an answer the node asks again.
    Ask {
        /// Names the request.
        token: u64,
        /// The request.
        request: Request,
    },
    /// Sessions from copies of this owner's bindings are translated until this moment of this node's clock, in programs, too.
    SetDeadline {
        /// The owner.
        owner: NodeId,
        /// Its end.
        until: Moment,
    },
    /// End the sessions that were made from this copy.
    Forget(Protocol, Endpoint4),
    /// End the sessions that were made from any copy of this owner's bindings.
    ForgetAll(NodeId),
    /// Another node knew this binding of this node: translate by it.
    Install(Binding),
    /// Another node may use this port: take it from the free ones until [`Action::Free`].
    Hold(Protocol, Endpoint4),
    /// The port rests no longer: put it back to the free ones.
    Free(Protocol, Endpoint4),
    /// Which nodes are reachable or take new subscribers has changed: read [`crate::Node::home`] and [`crate::Node::takes`] anew.
    Homes,
    /// The same of one bucket: another node has the first of its bindings, or has them no more.
    Home(usize),
    /// Attract packets, or do not.
    Attract(bool),
    /// There is more to do than one turn may: let packets pass, and then say that time passes.
    Again,
    /// Leave, and begin anew with this file, expecting the others. The node is as it was until it is told to leave.
    GoOver(u64),
    /// All that had to be said before the process ends is said.
    Left,
    /// Something for the operator.
    Report(Report),
}

/// What an operator should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The other node's file differs in this part.
    Differs(NodeId, &'static str),
    /// The other node says what it may not say, or nothing that can be read.
    Strange(NodeId),
    /// The other node takes messages too slowly, and gets a snapshot anew.
    Slow(NodeId),
    /// This node no longer waits for the other one, and may give its ports away.
    Void(NodeId),
    /// Another process has this node's name. This one has to end.
    Superseded,
}

/// What a node has to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Translate by a binding of this node.
    Here,
    /// Translate by a copy, until the deadline of its owner.
    Copy(Binding),
    /// Give it to that node.
    Forward(NodeId),
    /// Open a binding.
    Open,
    /// Drop it.
    Drop(Reason),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Nobody has a binding.
    NoBinding,
    /// The owner is not reachable, and copies may not be used.
    Unreachable,
    /// Another node has forwarded it here by mistake; what corrects that is on its way.
    Stale,
    /// No node opens bindings.
    NotServing,
    /// It is no address of the pool.
    Foreign,
}
