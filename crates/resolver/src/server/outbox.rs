// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the answers to questions that were read together with one system call.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::net::addr::SocketAddrArg;
use rustix::net::{sendmmsg, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny};

/// The most answers that wait.
const ANSWERS: usize = 64;

/// Answers on their way to clients.
#[derive(Default)]
pub struct Outbox {
    /// Answers wait until [`Outbox::send`] is called.
    gathers: bool,
    bytes: Vec<u8>,
    to: Vec<(SocketAddrAny, Range<usize>)>,
}

impl Outbox {
    /// Makes answers wait for [`Outbox::send`].
    pub fn gather(&mut self) {
        self.gathers = true;
    }

    /// Takes an answer. Returns false if it must be sent directly: gathering is off, or there is no more room.
    pub fn take(&mut self, client: SocketAddr, answer: &[u8]) -> bool {
        let has_room = self.gathers && self.to.len() < ANSWERS;
        if has_room {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(answer);
            self.to.push((client.as_any(), begin..self.bytes.len()));
        }
        has_room
    }

    /// Sends all answers, and returns how many could not be sent. Their clients ask again.
    pub fn send(&mut self, socket: impl AsFd) -> usize {
        self.gathers = false;
        let parts = self.to.iter();
        let parts: Vec<[IoSlice; 1]> = parts
            .map(|(_, at)| [IoSlice::new(&self.bytes[at.clone()])])
            .collect();
        let mut beside: Vec<SendAncillaryBuffer> = Vec::new();
        beside.resize_with(parts.len(), SendAncillaryBuffer::default);
        let messages = self.to.iter().zip(&parts).zip(&mut beside);
        let mut messages: Vec<MMsgHdr> = messages
            .map(|(((client, _), part), beside)| MMsgHdr::new_with_addr(client, part, beside))
            .collect();
        let (mut sent, mut failed) = (0, 0);
        while sent + failed < messages.len() {
            match sendmmsg(&socket, &mut messages[sent + failed..], SendFlags::empty()) {
                Ok(number) => sent += number,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The first of them cannot be sent, but the next ones may be.
                Err(_) => failed += 1,
            }
        }
        drop(messages);
        self.to.clear();
        self.bytes.clear();
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn each_client_gets_its_own_and_a_bad_address_costs_nobody_else() {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (server, one, other) = (socket(), socket(), socket());
        let at = |socket: &UdpSocket| socket.local_addr().expect("an address");
        let mut outbox = Outbox::default();
        assert!(!outbox.take(at(&one), b"nobody gathers"));
        outbox.gather();
        assert!(outbox.take(at(&one), b"first"));
        // No datagram can be sent to port 0.
        assert!(outbox.take("127.0.0.1:0".parse().expect("an address"), b"lost"));
        assert!(outbox.take(at(&other), b"second"));
        assert!(outbox.take(at(&one), b"third"));
        assert_eq!(outbox.send(&server), 1);
        let heard = |socket: &UdpSocket| {
            let mut buffer = [0; 64];
            let (n, from) = socket.recv_from(&mut buffer).expect("it was sent");
            assert_eq!(from, at(&server));
            String::from_utf8_lossy(&buffer[..n]).into_owned()
        };
        assert_eq!(
            [heard(&one), heard(&other), heard(&one)],
            ["first", "second", "third"]
        );
        assert!(!outbox.take(at(&one), b"nobody gathers any more"));
        assert_eq!(outbox.send(&server), 0);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut outbox = Outbox::default();
        outbox.gather();
        let client = "127.0.0.1:9".parse().expect("an address");
        let taken = (0..2 * ANSWERS).filter(|_| outbox.take(client, b"answer"));
        assert_eq!(taken.count(), ANSWERS);
    }
}
