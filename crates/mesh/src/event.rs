// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events, and the near end of a connection.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use diolkos_node::message::MAX_BYTES;
use diolkos_node::NodeId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::OwnedSemaphorePermit;

use crate::refusal::Refused;

/// Maximum number of bytes that wait to be sent to a node.
pub const ROOM: usize = 1 << 20;

/// An event. Pass each to [`crate::Mesh::note`], in order.
#[derive(Debug)]
pub enum Event {
    /// A connection is up, and counts from now on.
    Connected(Link),
    /// A message has arrived.
    Message {
        /// The sender.
        peer: NodeId,
        /// The connection.
        connection: u64,
        /// The message.
        bytes: Received,
    },
    /// Some of the waiting bytes have been sent.
    Room {
        /// The recipient.
        peer: NodeId,
        /// The connection.
        connection: u64,
    },
    /// A connection has ended.
    Lost {
        /// The other node.
        peer: NodeId,
        /// The connection.
        connection: u64,
    },
    /// A connection was refused: something for a log, at a bounded rate.
    Refused(Refused),
}

/// A message. Until it is dropped, it counts towards the messages that its sender may have waiting
/// here.
#[derive(Debug)]
pub struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _credit: OwnedSemaphorePermit,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The near end of a connection, which is closed when this is dropped.
#[derive(Debug)]
pub struct Link {
    pub(crate) peer: NodeId,
    pub(crate) connection: u64,
    pub(crate) queue: UnboundedSender<Vec<u8>>,
    /// Number of bytes in the queue. Only this end adds to it, so the room is never smaller than it
    /// seems here.
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) _place: OwnedSemaphorePermit,
}

impl Link {
    pub(crate) fn room(&self) -> usize {
        ROOM.saturating_sub(self.queued.load(Ordering::Acquire))
    }

    /// Queues a message. Returns false if it does not fit.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        let length = bytes.len();
        if !(1..=MAX_BYTES).contains(&length) || length > self.room() {
            return false;
        }
        self.queued.fetch_add(length, Ordering::AcqRel);
        // If the connection has ended, its event follows.
        let _ = self.queue.send(bytes);
        true
    }
}
