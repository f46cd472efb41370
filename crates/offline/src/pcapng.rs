// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capture files in the format pcapng (draft-ietf-opsawg-pcapng). Each block is bounded before it is read.
//!
//! `pcap-parser` parses the fields of a block. Blocks that contain neither packets nor the information to interpret them are
//! skipped unread, so their size does not matter.

use std::io::{self, Read};
use std::time::Duration;

use pcap_parser::pcapng::{parse_block_be, parse_block_le, Block, OptionCode};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::PcapNGOption;

use super::link::Link;
use super::pcap::{fill, word, ReadError, Record, LONGEST_RECORD};

/// The type of the first block of a file; it is the same in both byte orders (section 4.1).
pub const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// The byte-order magic in the header of a section, for a reader of the same byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Length of the frame of a block: type, length, and the length again at the end.
const FRAME: usize = 12;
/// The longest block that is read: the longest record, with comments.
const LONGEST_BLOCK: usize = LONGEST_RECORD + (1 << 16);
/// The most interfaces; a capture has no need for more.
const MOST_INTERFACES: usize = 1 << 16;

/// Reads a capture from its beginning to its end.
pub struct PcapngReader<R> {
    from: R,
    little_endian: bool,
    interfaces: Vec<Interface>,
    block: Vec<u8>,
    /// Number of blocks so far.
    blocks: u64,
    /// Number of packets so far.
    packets: u64,
    /// The time of the previous packet, for a packet without a time stamp.
    last: Duration,
}

/// The properties of one interface.
struct Interface {
    link_type: u32,
    snap_len: usize,
    /// The resolution as in the file: a power of ten, or of two (section 4.2).
    resolution: u8,
    /// Offset of its time stamps, seconds.
    offset: i64,
}

impl<R: Read> PcapngReader<R> {
    /// A reader for a file that begins with [`SECTION`].
    pub fn new(from: R) -> PcapngReader<R> {
        PcapngReader {
            from,
            little_endian: true,
            interfaces: Vec::new(),
            block: Vec::new(),
            blocks: 0,
            packets: 0,
            last: Duration::ZERO,
        }
    }

    /// Reads the next packet; returns false at the end.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        while let Some(kind) = self.read_block()? {
            match kind {
                SECTION => self.interfaces.clear(),
                OBSOLETE_PACKET => return Err(ReadError::ObsoleteBlock(self.blocks)),
                _ => {}
            }
            if matches!(kind, INTERFACE | SIMPLE_PACKET | ENHANCED_PACKET) && self.take(record)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next block and returns its type; the contents are in `block` if the type is needed. `None` at the end.
    fn read_block(&mut self) -> Result<Option<u32>, ReadError> {
        self.blocks += 1;
        let mut header = [0; FRAME];
        match fill(&mut self.from, &mut header)? {
            0 => return Ok(None),
            FRAME => {}
            _ => return Err(ReadError::BlockCutOff(self.blocks)),
        }
        if word(&header, 0, true) == SECTION {
            self.little_endian = match (word(&header, 8, true), word(&header, 8, false)) {
                (BYTE_ORDER, _) => true,
                (_, BYTE_ORDER) => false,
                _ => return Err(ReadError::Block(self.blocks)),
            };
        }
        let kind = word(&header, 0, self.little_endian);
        let claimed = word(&header, 4, self.little_endian);
        let len = claimed as usize;
        let is_read = matches!(kind, INTERFACE | SIMPLE_PACKET | ENHANCED_PACKET);
        if len < FRAME || !len.is_multiple_of(4) || (is_read && len > LONGEST_BLOCK) {
            return Err(ReadError::BlockLength {
                number: self.blocks,
                len: claimed,
            });
        }
        let rest = len - FRAME;
        let got = if is_read {
            self.block.resize(len, 0);
            self.block[..FRAME].copy_from_slice(&header);
            fill(&mut self.from, &mut self.block[FRAME..])?
        } else {
            let mut rest = self.from.by_ref().take(rest as u64);
            io::copy(&mut rest, &mut io::sink()).map_err(ReadError::Io)? as usize
        };
        match got == rest {
            true => Ok(Some(kind)),
            false => Err(ReadError::BlockCutOff(self.blocks)),
        }
    }

    /// Returns true if the block is a packet, and puts it into the record.
    fn take(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        let malformed = ReadError::Block(self.blocks);
        let parsed = match self.little_endian {
            true => parse_block_le(&self.block),
            false => parse_block_be(&self.block),
        };
        let Ok(([], block)) = parsed else {
            return Err(malformed);
        };
        let (id, stamp, frame) = match &block {
            Block::InterfaceDescription(told) => {
                if self.interfaces.len() == MOST_INTERFACES {
                    return Err(ReadError::Interfaces(MOST_INTERFACES));
                }
                self.interfaces.push(Interface {
                    link_type: told.linktype.0 as u32,
                    snap_len: told.snaplen as usize,
                    resolution: told.if_tsresol,
                    offset: offset_in(&told.options, self.little_endian),
                });
                return Ok(false);
            }
            Block::EnhancedPacket(packet) => {
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                (packet.if_id, Some(ticks), packet.packet_data())
            }
            Block::SimplePacket(packet) => (0, None, packet.packet_data()),
            _ => return Err(malformed),
        };
        self.packets += 1;
        let number = self.packets;
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(ReadError::NoInterface {
                number,
                interface: id,
            });
        };
        let link = Link::from_type(interface.link_type);
        record.link = link.ok_or(ReadError::LinkType(interface.link_type))?;
        if let Some(ticks) = stamp {
            self.last = interface.time(ticks).ok_or(ReadError::Epoch(number))?;
        }
        record.since_epoch = self.last;
        // A simple packet block does not say how much of the packet was recorded.
        let recorded = match (stamp, interface.snap_len) {
            (Some(_), _) | (None, 0) => frame.len(),
            (None, snap_len) => frame.len().min(snap_len),
        };
        record.bytes.clear();
        record.bytes.extend_from_slice(&frame[..recorded]);
        if record.bytes.len() > LONGEST_RECORD {
            let len = record.bytes.len();
            return Err(ReadError::TooLong { number, len });
        }
        Ok(true)
    }
}

/// The offset option of an interface (section 4.2), seconds. `pcap-parser` reads the number as little-endian in every file.
fn offset_in(options: &[PcapNGOption<'_>], little_endian: bool) -> i64 {
    let mut values = options.iter().filter(|o| o.code == OptionCode::IfTsoffset);
    let value = values.next().and_then(|option| option.value.get(..8));
    let bytes = value.and_then(|value| value.try_into().ok());
    match (bytes, little_endian) {
        (Some(bytes), true) => i64::from_le_bytes(bytes),
        (Some(bytes), false) => i64::from_be_bytes(bytes),
        (None, _) => 0,
    }
}

impl Interface {
    /// The time since 1970, rounded down to nanoseconds. `None` if the seconds do not fit into 32 bits.
    fn time(&self, ticks: u64) -> Option<Duration> {
        const BILLION: u128 = 1_000_000_000;
        let exponent = u32::from(self.resolution & 0x7f);
        let ticks = u128::from(ticks);
        let unit = match self.resolution & 0x80 {
            // The greatest power that fits. It exceeds any count of ticks, as larger powers would.
            0 => 10u128.pow(exponent.min(38)),
            _ => 1u128 << exponent,
        };
        let (seconds, rest) = (ticks / unit, ticks % unit);
        let nanoseconds = (rest * BILLION / unit) as u32;
        let seconds = i128::try_from(seconds).ok()? + i128::from(self.offset);
        let seconds = u32::try_from(seconds).ok()?;
        Some(Duration::new(seconds.into(), nanoseconds))
    }
}

#[cfg(test)]
mod tests;
