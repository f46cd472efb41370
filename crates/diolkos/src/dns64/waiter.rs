// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits for an answer, and how it gets there.

use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::sync::OwnedSemaphorePermit;

use super::datagrams::{Datagrams, Return};
use crate::dns_over_tcp::framed;

/// An answer on its way to a connection. Its question counts as under way until the client has read it.
pub struct Reply {
    /// With its length in front.
    pub bytes: Vec<u8>,
    /// The place of the question on its connection.
    pub place: OwnedSemaphorePermit,
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
    /// A connection, and the place of the question on it.
    Connection(mpsc::Sender<Reply>, OwnedSemaphorePermit),
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
            Waiter::Connection(answers, place) => {
                let bytes = framed(answer);
                // There is room for as many answers as there are places.
                answers.try_send(Reply { bytes, place }).is_ok()
            }
        }
    }
}
