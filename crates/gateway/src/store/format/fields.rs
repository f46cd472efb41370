// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts bytes to numbers, addresses and bindings, and back. Numbers are little-endian; addresses and ports are as
//! on the wire.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};

use super::malformed::Malformed;

/// Size of a binding in bytes, in every version.
pub const BINDING: usize = 25;

/// The unread rest of a section.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let split = self.0.split_first_chunk();
        let (bytes, rest) = split.ok_or(Malformed::Corrupted("a section ends too early"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn v6(&mut self) -> Result<Endpoint6, Malformed> {
        Ok(Endpoint6 {
            addr: Ipv6Addr::from(self.array::<16>()?),
            port: u16::from_be_bytes(self.array()?),
        })
    }

    pub fn v4(&mut self) -> Result<Endpoint4, Malformed> {
        Ok(Endpoint4 {
            addr: Ipv4Addr::from(self.array::<4>()?),
            port: u16::from_be_bytes(self.array()?),
        })
    }

    pub fn binding(&mut self) -> Result<Binding, Malformed> {
        let [protocol] = self.array()?;
        let protocol = Protocol::ALL.get(usize::from(protocol));
        let protocol = *protocol.ok_or(Malformed::Corrupted("an unknown protocol"))?;
        let (v6, v4) = (self.v6()?, self.v4()?);
        Ok(Binding { protocol, v4, v6 })
    }

    /// Fails unless everything has been read.
    pub fn end(&self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed::Corrupted("a section is longer than what it has")),
        }
    }
}

pub fn of_binding(binding: &Binding) -> [u8; BINDING] {
    let mut bytes = [0; BINDING];
    bytes[0] = binding.protocol as u8;
    bytes[1..19].copy_from_slice(&of_v6(binding.v6));
    bytes[19..].copy_from_slice(&of_v4(binding.v4));
    bytes
}

pub fn of_v6(v6: Endpoint6) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&v6.addr.octets());
    bytes[16..].copy_from_slice(&v6.port.to_be_bytes());
    bytes
}

pub fn of_v4(v4: Endpoint4) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&v4.addr.octets());
    bytes[4..].copy_from_slice(&v4.port.to_be_bytes());
    bytes
}
