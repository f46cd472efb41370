// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system journal, with one entry in each datagram.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::{Sink, PATIENCE};
use crate::record::Record;
use crate::text;

/// The socket of the journal (systemd's native protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The journal.
pub struct Journal {
    path: PathBuf,
    instance: String,
    socket: Option<UnixDatagram>,
}

impl Journal {
    /// At the socket of the system journal, unless `path` names another one.
    pub fn new(path: Option<&Path>, instance: String) -> Journal {
        Journal {
            path: path.unwrap_or(Path::new(JOURNAL)).to_owned(),
            instance,
            socket: None,
        }
    }
}

impl Sink for Journal {
    fn open(&mut self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        self.socket = Some(socket);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let Some(record) = records.first() else {
            return Ok(0);
        };
        let mut entry = String::new();
        text::journal(record, &self.instance, &mut entry);
        socket.send(entry.as_bytes())?;
        Ok(1)
    }
}
