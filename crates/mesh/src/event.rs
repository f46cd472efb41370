// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes out, and the near end of a connection.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use diolkos_node::message::MAX_BYTES;
use diolkos_node::NodeId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::OwnedSemaphorePermit;

use crate::refusal::Refused;

/// Bytes that wait to be sent to a node at most.
pub const ROOM: usize = 1 << 20;

/// What happens. Give each event to [`crate::Mesh::note`], in their order.
#[derive(Debug)]
pub enum Event {
    /// A connection is up, and counts from now on.
    Connected(Link),
    /// A message has come.
    Message {
        /// From whom.
        peer: NodeId,
        /// On which connection.
        connection: u64,
        /// The message.
        bytes: Received,
    },
    /// Some of what waited has been sent.
    Room {
        /// To whom.
        peer: NodeId,
        /// On which connection.
        connection: u64,
    },
    /// A connection has ended.
    Lost {
        /// With whom.
        peer: NodeId,
        /// Which one.
        connection: u64,
    },
    /// A connection was refused: something for a log, at a bounded rate.
    Refused(Refused),
}

/// A message. As long as it is there, it counts for what its sender may have waiting here.
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

/// The near end of a connection. It is closed when this is dropped.
#[derive(Debug)]
pub struct Link {
    pub(crate) peer: NodeId,
    pub(crate) connection: u64,
    pub(crate) queue: UnboundedSender<Vec<u8>>,
    /// Bytes in the queue. Only this end adds some, so what is seen here is never too little room.
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) _place: OwnedSemaphorePermit,
}

impl Link {
    pub(crate) fn room(&self) -> usize {
        ROOM.saturating_sub(self.queued.load(Ordering::Acquire))
    }

    /// False if the message does not fit.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        let length = bytes.len();
        if !(1..=MAX_BYTES).contains(&length) || length > self.room() {
            return false;
        }
        self.queued.fetch_add(length, Ordering::AcqRel);
        // One that has ended: its event is on the way.
        let _ = self.queue.send(bytes);
        true
    }
}
