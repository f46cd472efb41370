// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits for an answer, and how it gets there.

use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::sync::OwnedSemaphorePermit;

use super::datagrams::{Datagrams, Return};
use super::unread::{Reader, Unread};
use crate::dns_over_tcp::framed;

/// An answer on its way to a connection. Its question counts as under way until the client has read it.
pub struct Reply {
    /// With its length in front.
    pub bytes: Vec<u8>,
    /// The place of the question on its connection.
    pub place: OwnedSemaphorePermit,
    /// What it takes of the memory for answers that nobody has read.
    pub unread: Unread,
}

/// How a question came, and its answer has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram, which has its limits and a source that may be forged.
    Udp,
    /// On a connection.
    Tcp,
}

/// Who waits for an answer.
pub enum Waiter {
    /// The sender of a datagram.
    Datagram(Rc<Datagrams>, Return),
    /// A connection, the place of the question on it, and who reads there.
    Connection(mpsc::Sender<Reply>, OwnedSemaphorePermit, Reader),
}

impl Waiter {
    /// How the answer has to go.
    pub fn transport(&self) -> Transport {
        match self {
            Waiter::Datagram(..) => Transport::Udp,
            Waiter::Connection(..) => Transport::Tcp,
        }
    }

    /// Sends the answer; false if it cannot be sent any more.
    pub fn answer(self, answer: &[u8]) -> bool {
        match self {
            Waiter::Datagram(datagrams, to) => datagrams.send(to, answer).is_ok(),
            Waiter::Connection(answers, place, reader) => {
                let bytes = framed(answer);
                let unread = reader.take(bytes.len());
                let reply = Reply {
                    bytes,
                    place,
                    unread,
                };
                // There is room for as many answers as there are places.
                answers.try_send(reply).is_ok()
            }
        }
    }
}
