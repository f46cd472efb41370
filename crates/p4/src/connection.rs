// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection to the control socket: one datagram of requests, one datagram of replies, with a limit for both.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::wire::{replies, Garbage, Reply, Request, LONGEST, RECORD, RECORDS};

/// Time limit for one exchange. The switch answers within a millisecond, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Debug)]
pub enum Broken {
    /// The switch has closed it.
    Closed,
    /// The switch has not answered in time.
    Silent,
    /// The kernel reports an error.
    Io(io::Error),
    /// The switch has sent an invalid reply.
    Garbage(Garbage),
}

impl Broken {
    /// Returns true if no switch serves the socket, or if it has just ended. Errors of this crate itself have the kind `Other`.
    pub fn is_absence(&self) -> bool {
        match self {
            Broken::Closed => true,
            Broken::Io(error) => error.kind() != io::ErrorKind::Other,
            Broken::Silent | Broken::Garbage(_) => false,
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Broken::Silent,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Broken::Closed,
            _ => Broken::Io(error),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Closed => f.write_str("it closed the connection"),
            Broken::Silent => write!(f, "it has not answered within {} s", PATIENCE.as_secs()),
            Broken::Io(error) => error.fmt(f),
            Broken::Garbage(garbage) => garbage.fmt(f),
        }
    }
}

impl Broken {
    /// Returns true if no process serves the socket: the tables of the last one are gone with it.
    pub fn is_absent(&self) -> bool {
        matches!(self, Broken::Io(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused))
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// The cookie of the next request.
    cookie: u32,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub fn open(path: &Path) -> Result<Connection, Broken> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        // The first also limits the wait for a switch that accepts no connection.
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(Connection {
            socket,
            cookie: 1,
            sent: Vec::with_capacity(RECORDS * RECORD),
            // A longer datagram is cut to one byte too many.
            received: vec![0; LONGEST + 1],
        })
    }

    /// Sends requests, at most [`RECORDS`], and waits for their replies.
    pub fn exchange(&mut self, requests: &[Request]) -> Result<(Vec<Reply>, &[u8]), Broken> {
        self.sent.clear();
        let first = self.cookie;
        for request in requests {
            request.write(self.cookie, &mut self.sent);
            self.cookie = self.cookie.wrapping_add(1);
        }
        let sent = self.socket.write(&self.sent)?;
        debug_assert_eq!(sent, self.sent.len(), "a datagram is sent as a whole");
        let length = loop {
            match self.socket.read(&mut self.received) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if length == 0 {
            return Err(Broken::Closed);
        }
        replies(&self.received[..length], requests, first).map_err(Broken::Garbage)
    }

    /// Sends a single request, and waits for its reply.
    pub fn ask(&mut self, request: Request) -> Result<(Reply, &[u8]), Broken> {
        let (replies, extra) = self.exchange(&[request])?;
        let reply = replies.first().copied();
        let reply = reply.ok_or(Broken::Garbage(Garbage::Length(0)))?;
        Ok((reply, extra))
    }
}
