// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A collector that is reached by a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Sink, PATIENCE};
use crate::record::Record;

/// The contents of a connection.
pub trait Frames: Send {
    /// The bytes at the start of a connection.
    fn begin(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The bytes for the first of `records`, and the number of records in them.
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize);
}

/// A connection to a collector.
pub struct Connection<F> {
    to: SocketAddr,
    frames: F,
    stream: Option<TcpStream>,
}

impl<F: Frames> Connection<F> {
    pub fn new(to: SocketAddr, frames: F) -> Connection<F> {
        Connection {
            to,
            frames,
            stream: None,
        }
    }
}

/// Fails if the other side has closed or reset the connection; data that it sends is ignored.
fn check_open(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut heard = [0; 512];
    let read = loop {
        match stream.read(&mut heard) {
            Ok(0) => break Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    read
}

impl<F: Frames> Sink for Connection<F> {
    fn open(&mut self) -> io::Result<()> {
        self.stream = None;
        let mut stream = TcpStream::connect_timeout(&self.to, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&self.frames.begin())?;
        self.stream = Some(stream);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // A write to a connection that the other side has closed succeeds once, but its data are lost.
        check_open(stream)?;
        let (bytes, taken) = self.frames.next(records);
        stream.write_all(&bytes)?;
        Ok(taken)
    }
}
