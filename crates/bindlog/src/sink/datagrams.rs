// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A collector that is reached by datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use super::{Sink, PATIENCE};
use crate::record::Record;

/// The contents of datagrams.
pub trait Messages: Send {
    /// A message that the collector needs first, when one is due.
    fn first(&mut self, _is_open: bool) -> Option<Vec<u8>> {
        None
    }

    /// A message of the first of `records`, and the number of records in it. An empty message is not sent.
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize);
}

/// Datagrams to a collector.
pub struct Datagrams<M> {
    to: SocketAddr,
    messages: M,
    socket: Option<UdpSocket>,
    /// Records of entries in the last datagram, and in those that an ICMP error has reported as undelivered.
    last: u64,
    bounced: u64,
}

impl<M: Messages> Datagrams<M> {
    pub fn new(to: SocketAddr, messages: M) -> Datagrams<M> {
        Datagrams {
            to,
            messages,
            socket: None,
            last: 0,
            bounced: 0,
        }
    }
}

impl<M: Messages> Sink for Datagrams<M> {
    fn open(&mut self) -> io::Result<()> {
        let any: SocketAddr = match self.to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(self.to)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        if let Some(message) = self.messages.first(false) {
            socket.send(&message)?;
        }
        self.socket = Some(socket);
        self.last = 0;
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(message) = self.messages.first(true) {
            socket.send(&message)?;
        }
        let (message, taken) = self.messages.next(records);
        if message.is_empty() {
            return Ok(taken);
        }
        if let Err(error) = socket.send(&message) {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                // The error is about the datagram before this one.
                self.bounced += std::mem::take(&mut self.last);
            }
            return Err(error);
        }
        let entries = records[..taken].iter().filter(|r| r.is_of_entry());
        self.last = entries.count() as u64;
        Ok(taken)
    }

    fn take_bounced(&mut self) -> u64 {
        std::mem::take(&mut self.bounced)
    }
}
