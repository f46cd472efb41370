// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a capture file of either format, which the first four bytes identify.

use std::io::{Chain, Cursor, Read};

use super::pcap::{self, fill, Precision, ReadError, Record};
use super::pcapng;

/// The file, with the bytes that were read to identify its format.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads a capture from its beginning to its end.
pub enum Capture<R: Read> {
    /// The classic format.
    Pcap(pcap::PcapReader<Whole<R>>),
    /// The format pcapng.
    PcapNg(pcapng::PcapngReader<Whole<R>>),
}

impl<R: Read> Capture<R> {
    /// Reads the beginning of the file.
    pub fn new(mut from: R) -> Result<Capture<R>, ReadError> {
        let mut first = [0; 4];
        let got = fill(&mut from, &mut first)?;
        let whole = Cursor::new(first[..got].to_vec()).chain(from);
        match u32::from_be_bytes(first) {
            pcapng::SECTION => Ok(Capture::PcapNg(pcapng::PcapngReader::new(whole))),
            _ => pcap::PcapReader::new(whole).map(Capture::Pcap),
        }
    }

    /// The precision of the time stamps. Interfaces of a pcapng file may differ in it.
    pub fn precision(&self) -> Precision {
        match self {
            Capture::Pcap(reader) => reader.precision(),
            Capture::PcapNg(_) => Precision::Nano,
        }
    }

    /// Reads the next packet; false at the end.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        match self {
            Capture::Pcap(reader) => reader.next(record),
            Capture::PcapNg(reader) => reader.next(record),
        }
    }
}
