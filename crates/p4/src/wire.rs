// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the control socket: requests to bytes, bytes to replies (`p4/PROTOCOL.md`, "Messages"). No input or output.

use std::fmt;

/// `version` of every record.
pub const VERSION: u32 = 0x6470_3401;
/// Bytes of a record of a request.
pub const RECORD: usize = 256;
/// Bytes of a record of a reply.
pub const REPLY: usize = 64;
/// The most records of a datagram.
pub const RECORDS: usize = 64;
/// Bytes of names, keys, masks, arguments and payloads.
pub const FIELD: usize = 48;
/// The most numbers that one `READ` returns.
pub const MOST_READ: u32 = 1024;
/// The most entries that one `USED` returns.
pub const MOST_USED: u32 = 65536;
/// The longest reply, bytes.
pub const LONGEST: usize = REPLY + 8 * MOST_READ as usize;

const _: () = assert!(LONGEST >= REPLY + MOST_USED as usize / 8 && LONGEST >= RECORDS * REPLY);

/// The operation that a record requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Identifies the switch: `boot`, number of pairs, size of `used`.
    Hello = 1,
    /// Adds or replaces an entry.
    Insert = 2,
    /// Removes an entry.
    Delete = 3,
    /// Sets the action of a miss.
    Default = 4,
    /// Removes all entries.
    Flush = 5,
    /// Reads numbers of an array.
    Read = 6,
    /// Reads which numbers of an array are not 0, and clears them.
    Used = 7,
    /// Counters of a port.
    Port = 8,
    /// Number of entries of a table.
    Count = 9,
}

/// The fate of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is done.
    Done = 0,
    /// The record is malformed.
    Malformed = 1,
    /// There is no such entry.
    Absent = 2,
    /// There is no such table, action or array.
    Name = 3,
    /// The action does not belong to the table.
    Action = 4,
    /// The table is full.
    Full = 5,
    /// A number is out of range.
    Range = 6,
    /// The switch has no memory.
    Memory = 7,
    /// The pipeline refuses.
    Refused = 8,
    /// Another record of the datagram has failed.
    NotTried = 9,
}

impl Status {
    fn of(code: u16) -> Option<Status> {
        use Status as S;
        let all = [
            S::Done,
            S::Malformed,
            S::Absent,
            S::Name,
            S::Action,
            S::Full,
            S::Range,
            S::Memory,
            S::Refused,
            S::NotTried,
        ];
        all.get(usize::from(code)).copied()
    }

    /// The words of `p4/PROTOCOL.md`.
    pub fn describe(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Malformed => "malformed record",
            Status::Absent => "no such entry",
            Status::Name => "no such table, action or array",
            Status::Action => "the action is not for this table",
            Status::Full => "the table is full",
            Status::Range => "out of range",
            Status::Memory => "out of memory",
            Status::Refused => "refused by the pipeline",
            Status::NotTried => "not tried",
        }
    }
}

/// Key, mask or arguments: numbers in network order, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    bytes: [u8; FIELD],
    len: u8,
}

impl Field {
    /// No bytes.
    pub const EMPTY: Field = Field {
        bytes: [0; FIELD],
        len: 0,
    };

    /// Appends bytes. Panics beyond 48 bytes, which no table of the program has.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Field {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        self
    }

    /// The bytes that were appended.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One record of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// The priority of a ternary entry; the lowest number wins.
    pub priority: u32,
    /// Name of the table or array.
    pub table: &'static str,
    /// Name of the action.
    pub action: &'static str,
    /// The key.
    pub key: Field,
    /// The mask of a ternary key.
    pub mask: Field,
    /// Arguments of the action.
    pub data: Field,
}

impl Request {
    /// A request without key and action.
    pub fn of(op: Op, table: &'static str) -> Request {
        Request {
            op,
            priority: 0,
            table,
            action: "",
            key: Field::EMPTY,
            mask: Field::EMPTY,
            data: Field::EMPTY,
        }
    }

    /// A request for a part of an array.
    pub fn part(op: Op, array: &'static str, first: u32, count: u32) -> Request {
        Request {
            key: Field::EMPTY
                .with(&first.to_be_bytes())
                .with(&count.to_be_bytes()),
            ..Request::of(op, array)
        }
    }

    /// Appends the record.
    pub fn write(&self, cookie: u32, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend(VERSION.to_be_bytes());
        out.extend(cookie.to_be_bytes());
        out.extend((self.op as u16).to_be_bytes());
        out.extend([0; 2]);
        out.extend(self.priority.to_be_bytes());
        for name in [self.table, self.action] {
            let mut bytes = [0; FIELD];
            // A name ends with a zero byte; the names are constants of this crate.
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            out.extend(bytes);
        }
        for field in [self.key, self.mask, self.data] {
            out.extend(field.bytes);
        }
        debug_assert_eq!(out.len(), at + RECORD);
    }

    /// Bytes that follow the record of a reply, if the request succeeds.
    pub fn extra(&self) -> usize {
        let count = || {
            let count = self.key.bytes().get(4..8);
            count.map_or(0, |count| {
                u32::from_be_bytes([count[0], count[1], count[2], count[3]])
            })
        };
        match self.op {
            Op::Read => 8 * count() as usize,
            Op::Used => count() as usize / 8,
            _ => 0,
        }
    }
}

/// One record of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The fate of the request.
    pub status: Status,
    /// Numbers, in network order.
    pub payload: [u8; FIELD],
}

impl Reply {
    /// The number of 64 bits at a position of the payload.
    pub fn u64_at(&self, at: usize) -> u64 {
        let bytes = self.payload[at..].first_chunk().copied();
        bytes.map_or(0, u64::from_be_bytes)
    }

    /// The number of 32 bits at a position of the payload.
    pub fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.payload[at..].first_chunk().copied();
        bytes.map_or(0, u32::from_be_bytes)
    }
}

/// Why a datagram is no reply to the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Garbage {
    /// Its length is wrong: this many bytes.
    Length(usize),
    /// Its version is not the one of this client.
    Version(u32),
    /// It answers another request.
    Cookie,
    /// The status has no meaning.
    Status(u16),
    /// Bytes that must be zero are not.
    Padding,
    /// The switch does not remove an entry, or does not empty its tables.
    Kept(Status),
}

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Garbage::Length(bytes) => write!(f, "a reply of {bytes} bytes answers no request"),
            Garbage::Version(version) => write!(
                f,
                "the version of its protocol is {version:#x}, and not {VERSION:#x}"
            ),
            Garbage::Cookie => write!(f, "a reply answers a request that was not made"),
            Garbage::Status(code) => write!(f, "a reply has the unknown status {code}"),
            Garbage::Padding => write!(f, "a reply has bytes where there must be zeros"),
            Garbage::Kept(status) => {
                write!(f, "it does not remove an entry: {}", status.describe())
            }
        }
    }
}

/// Reads the reply to these requests, which had the cookies from `first` on: a record for each, and what follows them.
pub fn replies<'a>(
    datagram: &'a [u8],
    requests: &[Request],
    first: u32,
) -> Result<(Vec<Reply>, &'a [u8]), Garbage> {
    let length = Garbage::Length(datagram.len());
    let (records, rest) = datagram
        .split_at_checked(requests.len() * REPLY)
        .ok_or(length)?;
    let mut read = Vec::with_capacity(requests.len());
    for (at, (record, request)) in records.chunks_exact(REPLY).zip(requests).enumerate() {
        read.push(reply(record, request, first.wrapping_add(at as u32))?);
    }
    let extra = match (requests, &read[..]) {
        ([request], [reply]) if reply.status == Status::Done => request.extra(),
        _ => 0,
    };
    match rest.len() == extra {
        true => Ok((read, rest)),
        false => Err(length),
    }
}

fn reply(record: &[u8], request: &Request, cookie: u32) -> Result<Reply, Garbage> {
    let length = Garbage::Length(record.len());
    let head: &[u8; 16] = record.first_chunk().ok_or(length)?;
    let payload: &[u8; FIELD] = record[16..].first_chunk().ok_or(length)?;
    let u32_at =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    if u32_at(0) != VERSION {
        return Err(Garbage::Version(u32_at(0)));
    }
    if (u32_at(4), u16_at(8)) != (cookie, request.op as u16) {
        return Err(Garbage::Cookie);
    }
    if u32_at(12) != 0 {
        return Err(Garbage::Padding);
    }
    Ok(Reply {
        status: Status::of(u16_at(10)).ok_or(Garbage::Status(u16_at(10)))?,
        payload: *payload,
    })
}
