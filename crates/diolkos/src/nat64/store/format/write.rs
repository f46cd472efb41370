// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries as bytes.

use std::hash::Hasher;
use std::io::{self, Write};

use diolkos_core::config::nat64::{Endpoint4, Endpoint6};
use siphasher::sip::SipHasher13;

use super::{Entry, Head, BINDING, END, MAGIC, NAT64, SESSION, VERSION};

/// Writes a state.
pub struct Writer<W: Write> {
    out: W,
    sum: SipHasher13,
    bindings: u32,
    sessions: u32,
}

impl<W: Write> Writer<W> {
    /// Begins with the head. `out` should have a buffer.
    pub fn new(out: W, head: &Head) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            sum: SipHasher13::new(),
            bindings: 0,
            sessions: 0,
        };
        writer.bytes(MAGIC)?;
        writer.bytes(&VERSION.to_le_bytes())?;
        writer.bytes(&NAT64.to_le_bytes())?;
        writer.bytes(&head.moment.boot.to_le_bytes())?;
        for time in [head.moment.since_boot, head.moment.wall] {
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            writer.bytes(&time.to_le_bytes())?;
        }
        writer.bytes(&[head.clean.into()])?;
        for word in head.secret {
            writer.bytes(&word.to_le_bytes())?;
        }
        writer.bytes(&(head.pref64.len() as u16).to_le_bytes())?;
        for prefix in &head.pref64 {
            writer.bytes(&prefix.network().octets())?;
            writer.bytes(&[prefix.prefix_len()])?;
        }
        Ok(writer)
    }

    /// Adds an entry.
    pub fn put(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Binding(binding) => {
                self.bindings += 1;
                let mut bytes = [0; 26];
                (bytes[0], bytes[1]) = (BINDING, binding.protocol as u8);
                bytes[2..20].copy_from_slice(&of_v6(binding.v6));
                bytes[20..].copy_from_slice(&of_v4(binding.v4));
                self.bytes(&bytes)
            }
            Entry::Session(view) => {
                self.sessions += 1;
                let remaining = u32::try_from(view.remaining.as_millis()).unwrap_or(u32::MAX);
                let mut bytes = [0; 37];
                (bytes[0], bytes[1], bytes[2]) = (SESSION, view.state as u8, view.prefix);
                bytes[3..21].copy_from_slice(&of_v6(view.binding.v6));
                bytes[21..27].copy_from_slice(&of_v4(view.binding.v4));
                bytes[27..33].copy_from_slice(&of_v4(view.peer));
                bytes[33..].copy_from_slice(&remaining.to_le_bytes());
                self.bytes(&bytes)
            }
        }
    }

    /// Adds the end. Without it, it is no state.
    pub fn finish(mut self) -> io::Result<()> {
        let (bindings, sessions) = (self.bindings, self.sessions);
        self.bytes(&[END])?;
        self.bytes(&bindings.to_le_bytes())?;
        self.bytes(&sessions.to_le_bytes())?;
        let sum = self.sum.finish();
        self.out.write_all(&sum.to_le_bytes())?;
        self.out.flush()
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.write(bytes);
        self.out.write_all(bytes)
    }
}

fn of_v6(v6: Endpoint6) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&v6.addr.octets());
    bytes[16..].copy_from_slice(&v6.port.to_be_bytes());
    bytes
}

fn of_v4(v4: Endpoint4) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&v4.addr.octets());
    bytes[4..].copy_from_slice(&v4.port.to_be_bytes());
    bytes
}
