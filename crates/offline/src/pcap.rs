// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capture files in the classic format (draft-ietf-opsawg-pcap): both byte orders, microseconds and nanoseconds.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use super::link::Link;

const HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The longest record, bytes; no tool writes longer ones (MAXIMUM_SNAPLEN of libpcap).
pub const LONGEST_RECORD: usize = 262_144;
/// The longest IPv6 packet, bytes, as the snapshot length of our captures.
const SNAP_LEN: u32 = 65_535 + 40;
const RAW_IP: u32 = 101;

/// The unit of the fraction of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

/// The reason why a capture cannot be read further.
#[derive(thiserror::Error, Debug)]
pub enum ReadError {
    /// The kernel returned an error.
    #[error("it cannot be read: {0}")]
    Io(#[source] io::Error),
    /// The file has another format.
    #[error("it is not a capture (pcap or pcapng) file")]
    NotPcap,
    /// Not raw IP and not Ethernet.
    #[error("its link type is {0}, and only raw IP (101) and Ethernet (1) are known")]
    LinkType(u32),
    /// The file ends too early.
    #[error("it ends within packet {0}")]
    CutOff(u64),
    /// An impossible length.
    #[error("packet {number} claims {len} bytes, more than {LONGEST_RECORD}")]
    TooLong {
        /// Number of the packet, from 1.
        number: u64,
        /// The claimed length, bytes.
        len: usize,
    },
    /// A fraction of a second that is larger than a second.
    #[error("packet {0} has a time stamp whose fraction is more than a second")]
    Time(u64),
    /// A time that the output cannot contain. Packets are counted from 1.
    #[error("packet {0} has a time stamp before 1970 or after February 2106")]
    Epoch(u64),
    /// A pcapng file ends too early. Blocks are counted from 1.
    #[error("it ends within block {0}")]
    BlockCutOff(u64),
    /// An impossible length.
    #[error("block {number} claims {len} bytes")]
    BlockLength {
        /// Number of the block, from 1.
        number: u64,
        /// The claimed length, bytes.
        len: u32,
    },
    /// Fields that contradict each other.
    #[error("block {0} is malformed")]
    Block(u64),
    /// Packets of a kind that no program has written since 2010.
    #[error("block {0} is an obsolete Packet Block: convert the file, for example with `editcap`")]
    ObsoleteBlock(u64),
    /// A packet of an unknown interface in a pcapng file.
    #[error("packet {number} belongs to interface {interface}, which the file does not describe")]
    NoInterface {
        /// Number of the packet, from 1.
        number: u64,
        /// Number of the interface, from 0, as in the format.
        interface: u32,
    },
    /// Too many interfaces in a pcapng file.
    #[error("it describes more than {0} interfaces")]
    Interfaces(usize),
}

/// One recorded frame.
#[derive(Clone, Default, Debug)]
pub struct Record {
    /// Its time.
    pub since_epoch: Duration,
    /// The link-layer header in front of the packet.
    pub link: Link,
    /// The frame, as far as it was recorded.
    pub bytes: Vec<u8>,
}

/// Reads a capture from its beginning to its end.
pub struct PcapReader<R> {
    from: R,
    little_endian: bool,
    precision: Precision,
    link: Link,
    number: u64,
}

impl<R: Read> PcapReader<R> {
    /// Reads the file's header.
    pub fn new(mut from: R) -> Result<PcapReader<R>, ReadError> {
        let mut header = [0; HEADER];
        let got = fill(&mut from, &mut header)?;
        if got < HEADER {
            return Err(ReadError::NotPcap);
        }
        let (little_endian, precision) = match (word(&header, 0, true), word(&header, 0, false)) {
            (MICROSECONDS, _) => (true, Precision::Micro),
            (NANOSECONDS, _) => (true, Precision::Nano),
            (_, MICROSECONDS) => (false, Precision::Micro),
            (_, NANOSECONDS) => (false, Precision::Nano),
            _ => return Err(ReadError::NotPcap),
        };
        // The upper half tells whether frames end with a check sequence, which the packet's own length excludes.
        let link_type = word(&header, 20, little_endian) & 0xffff;
        Ok(PcapReader {
            from,
            little_endian,
            precision,
            link: Link::from_type(link_type).ok_or(ReadError::LinkType(link_type))?,
            number: 0,
        })
    }

    /// The precision of the time stamps.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The link-layer header in front of each packet.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Reads the next record; returns false at the end.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        let mut header = [0; RECORD_HEADER];
        self.number += 1;
        match fill(&mut self.from, &mut header)? {
            0 => return Ok(false),
            RECORD_HEADER => {}
            _ => return Err(ReadError::CutOff(self.number)),
        }
        let field = |at| word(&header, at, self.little_endian);
        let nanoseconds = match self.precision {
            Precision::Micro => u64::from(field(4)) * 1000,
            Precision::Nano => u64::from(field(4)),
        };
        if nanoseconds >= 1_000_000_000 {
            return Err(ReadError::Time(self.number));
        }
        record.since_epoch = Duration::new(u64::from(field(0)), nanoseconds as u32);
        record.link = self.link;
        let len = field(8) as usize;
        if len > LONGEST_RECORD {
            return Err(ReadError::TooLong {
                number: self.number,
                len,
            });
        }
        record.bytes.resize(len, 0);
        if fill(&mut self.from, &mut record.bytes)? < len {
            return Err(ReadError::CutOff(self.number));
        }
        Ok(true)
    }
}

/// Four bytes of a header.
pub fn word(bytes: &[u8], at: usize, little_endian: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match little_endian {
        true => u32::from_le_bytes(word),
        false => u32::from_be_bytes(word),
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
pub fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize, ReadError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(ReadError::Io(error)),
        }
    }
    Ok(filled)
}

/// Writes a capture of raw IP, in little-endian order.
pub struct PcapWriter<W> {
    to: W,
    precision: Precision,
    now: Duration,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file's header.
    pub fn new(mut to: W, precision: Precision) -> io::Result<PcapWriter<W>> {
        let magic = match precision {
            Precision::Micro => MICROSECONDS,
            Precision::Nano => NANOSECONDS,
        };
        to.write_all(&magic.to_le_bytes())?;
        to.write_all(&2u16.to_le_bytes())?;
        to.write_all(&4u16.to_le_bytes())?;
        for word in [0, 0, SNAP_LEN, RAW_IP] {
            to.write_all(&word.to_le_bytes())?;
        }
        Ok(PcapWriter {
            to,
            precision,
            now: Duration::ZERO,
        })
    }

    /// Sets the time since 1970 of the following packets.
    pub fn stamp(&mut self, now: Duration) {
        self.now = now;
    }

    /// Writes one packet.
    pub fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let fraction = match self.precision {
            Precision::Micro => self.now.subsec_micros(),
            Precision::Nano => self.now.subsec_nanos(),
        };
        let len = packet.len() as u32;
        for word in [self.now.as_secs() as u32, fraction, len, len] {
            self.to.write_all(&word.to_le_bytes())?;
        }
        self.to.write_all(packet)
    }

    /// Flushes the buffer.
    pub fn finish(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(precision: Precision, packets: &[(Duration, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = PcapWriter::new(&mut bytes, precision).expect("memory takes all");
        for (since_epoch, packet) in packets {
            writer.stamp(*since_epoch);
            writer.write(packet).expect("memory takes all");
        }
        writer.finish().expect("memory takes all");
        bytes
    }

    /// The capture as a machine of the other byte order writes it.
    fn swapped(capture: &[u8], lens: &[usize]) -> Vec<u8> {
        let mut bytes = capture.to_vec();
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        bytes[8..HEADER].chunks_mut(4).for_each(<[u8]>::reverse);
        let mut at = HEADER;
        for len in lens {
            let header = &mut bytes[at..at + RECORD_HEADER];
            header.chunks_mut(4).for_each(<[u8]>::reverse);
            at += RECORD_HEADER + len;
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<(Duration, Vec<u8>)>, ReadError> {
        let mut reader = PcapReader::new(bytes)?;
        let mut record = Record::default();
        let mut all = Vec::new();
        while reader.next(&mut record)? {
            all.push((record.since_epoch, record.bytes.clone()));
        }
        Ok(all)
    }

    #[test]
    fn what_is_written_reads_back_in_both_byte_orders() {
        let packets: [(Duration, &[u8]); 2] = [
            (Duration::new(7, 123_456_000), b"abc"),
            (Duration::new(8, 1000), b""),
        ];
        let expected: Vec<_> = packets.iter().map(|(t, p)| (*t, p.to_vec())).collect();
        for precision in [Precision::Micro, Precision::Nano] {
            let bytes = capture(precision, &packets);
            assert_eq!(read(&bytes).expect("it is right"), expected);
            assert_eq!(
                read(&swapped(&bytes, &[3, 0])).expect("it is right"),
                expected
            );
        }
    }

    #[test]
    fn every_cut_is_seen() {
        let bytes = capture(Precision::Micro, &[(Duration::ZERO, b"abc")]);
        for len in 0..bytes.len() {
            let cut = read(&bytes[..len]);
            match len {
                HEADER => assert_eq!(cut.expect("no packet is no mistake"), []),
                0..HEADER => assert!(matches!(cut, Err(ReadError::NotPcap)), "{len}"),
                _ => assert!(matches!(cut, Err(ReadError::CutOff(1))), "{len}"),
            }
        }
    }

    #[test]
    fn lies_are_named() {
        let mut bytes = capture(Precision::Micro, &[(Duration::ZERO, b"abc")]);
        bytes[HEADER + 8..HEADER + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            read(&bytes),
            Err(ReadError::TooLong { number: 1, .. })
        ));
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&1_000_000u32.to_le_bytes());
        assert!(matches!(read(&bytes), Err(ReadError::Time(1))));
        bytes[20] = 113;
        assert!(matches!(read(&bytes), Err(ReadError::LinkType(113))));
    }
}
