// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients that wait for answers, and the path of the answer to each.

use std::net::IpAddr;
use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::sync::OwnedSemaphorePermit;

use super::datagrams::{Datagrams, Return};
use super::unread::{ClientConnection, Unread};
use crate::dns_over_tcp::framed;

/// An answer on its way to a connection. Its question counts as under way until the client has read the answer.
pub struct Reply {
    /// The answer with its length in front.
    pub bytes: Vec<u8>,
    /// The place of the question on its connection.
    pub place: OwnedSemaphorePermit,
    /// Its part of the memory for unread answers.
    pub unread: Unread,
}

/// The transport of a question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram, whose size is limited and whose source may be forged.
    Udp,
    /// On a connection.
    Tcp,
}

/// A client that waits for an answer.
pub enum Waiter {
    /// The sender of a datagram.
    Datagram(Rc<Datagrams>, Return),
    /// A connection, the place of the question on it, and its account of unread answers.
    Connection(mpsc::Sender<Reply>, OwnedSemaphorePermit, ClientConnection),
}

impl Waiter {
    /// The transport of the answer.
    pub fn transport(&self) -> Transport {
        match self {
            Waiter::Datagram(..) => Transport::Udp,
            Waiter::Connection(..) => Transport::Tcp,
        }
    }

    /// The client.
    pub fn client(&self) -> IpAddr {
        let client = match self {
            Waiter::Datagram(_, to) => to.client(),
            Waiter::Connection(_, _, reader) => reader.client(),
        };
        client.to_canonical()
    }

    /// Sends the answer; returns false if that is no longer possible.
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
