// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and answers on the wire (RFC 6887 sections 7, 11.1 and 14.1).
//!
//! ```text
//! request   version, R = 0 and opcode, 2 reserved, lifetime (4), client's address (16)
//! answer    version, R = 1 and opcode, 1 reserved, result, lifetime (4), epoch (4), 12 reserved
//! MAP       nonce (12), protocol, 3 reserved, internal port (2), external port (2), external address (16)
//! option    code, reserved, length (2), data, up to a multiple of 4
//! ```

use std::net::Ipv6Addr;

/// UDP port of the server (section 19.1).
pub const PORT: u16 = 5351;
/// The longest message, bytes (section 7).
pub const LONGEST: usize = 1100;
/// The version of this protocol.
const VERSION: u8 = 2;
/// The bit of answers, in front of the opcode.
const ANSWER: u8 = 0x80;
/// Bytes of the common header.
const HEADER: usize = 24;
/// Bytes of a message of MAP without options.
const MAP_END: usize = HEADER + 36;
/// Bytes in front of the data of an option.
const OPTION_HEADER: usize = 4;
/// Opcodes (section 19.2).
const ANNOUNCE: u8 = 0;
const MAP: u8 = 1;
/// The option of MAP without data (section 13.2).
const PREFER_FAILURE: u8 = 2;
/// Codes from here on are optional to process (section 7.3).
const FIRST_OPTIONAL: u8 = 128;

/// Result codes (section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // The RFC has them.
pub enum Code {
    Success = 0,
    UnsuppVersion = 1,
    NotAuthorized = 2,
    MalformedRequest = 3,
    UnsuppOpcode = 4,
    UnsuppOption = 5,
    MalformedOption = 6,
    NoResources = 8,
    UnsuppProtocol = 9,
    UserExQuota = 10,
    CannotProvideExternal = 11,
    AddressMismatch = 12,
}

impl Code {
    /// Those that refuse a request.
    pub const ERRORS: [Code; 11] = [
        Code::UnsuppVersion,
        Code::NotAuthorized,
        Code::MalformedRequest,
        Code::UnsuppOpcode,
        Code::UnsuppOption,
        Code::MalformedOption,
        Code::NoResources,
        Code::UnsuppProtocol,
        Code::UserExQuota,
        Code::CannotProvideExternal,
        Code::AddressMismatch,
    ];

    /// The name in the RFC, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Success => "success",
            Code::UnsuppVersion => "unsupp_version",
            Code::NotAuthorized => "not_authorized",
            Code::MalformedRequest => "malformed_request",
            Code::UnsuppOpcode => "unsupp_opcode",
            Code::UnsuppOption => "unsupp_option",
            Code::MalformedOption => "malformed_option",
            Code::NoResources => "no_resources",
            Code::UnsuppProtocol => "unsupp_protocol",
            Code::UserExQuota => "user_ex_quota",
            Code::CannotProvideExternal => "cannot_provide_external",
            Code::AddressMismatch => "address_mismatch",
        }
    }

    /// For how many seconds a client should expect the same error: 30 s where others may leave room, otherwise 30 min
    /// (section 7.4).
    pub const fn lifetime(self) -> u32 {
        match self {
            Code::NoResources | Code::UserExQuota | Code::CannotProvideExternal => 30,
            _ => 30 * 60,
        }
    }
}

/// A request that is well formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Asks for the epoch only.
    Announce,
    /// Asks for a mapping, for its renewal or its end.
    Map(Map),
}

/// A request for a mapping (section 11.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Map {
    /// Seconds for which the client wants it; 0 ends it.
    pub lifetime: u32,
    /// The client's random number, which later requests repeat.
    pub nonce: [u8; 12],
    /// IANA's number; 0 is all.
    pub protocol: u8,
    /// Port of the client; 0 is all.
    pub internal: u16,
    /// External port that the client would like; 0 is any.
    pub port: u16,
    /// External address that it would like, as an IPv4-mapped one; zeros are any.
    pub address: Ipv6Addr,
    /// Without just these, it wants none (PREFER_FAILURE).
    pub is_strict: bool,
}

/// Why a datagram is no request to be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It gets no answer: it is an answer itself, or shorter than any answer would be.
    Silent,
    /// It is answered with this error.
    Refused(Code),
}

/// Reads a request that came from this address (sections 8.2 and 11.3).
pub fn read(bytes: &[u8], from: Ipv6Addr) -> Result<Request, Unfit> {
    let refuse = |code| Err(Unfit::Refused(code));
    if bytes.len() < HEADER || bytes[1] & ANSWER != 0 {
        return Err(Unfit::Silent);
    }
    if bytes[0] != VERSION {
        return refuse(Code::UnsuppVersion);
    }
    if bytes.len() > LONGEST || !bytes.len().is_multiple_of(4) {
        return refuse(Code::MalformedRequest);
    }
    if address(bytes, 8) != from {
        return refuse(Code::AddressMismatch);
    }
    match bytes[1] {
        ANNOUNCE => match has_strict(&bytes[HEADER..], false) {
            Ok(_) => Ok(Request::Announce),
            Err(code) => refuse(code),
        },
        MAP if bytes.len() < MAP_END => refuse(Code::MalformedRequest),
        MAP => map(bytes).map_or_else(refuse, |map| Ok(Request::Map(map))),
        _ => refuse(Code::UnsuppOpcode),
    }
}

fn map(bytes: &[u8]) -> Result<Map, Code> {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&bytes[HEADER..HEADER + 12]);
    let map = Map {
        lifetime: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        nonce,
        protocol: bytes[36],
        internal: u16::from_be_bytes([bytes[40], bytes[41]]),
        port: u16::from_be_bytes([bytes[42], bytes[43]]),
        address: address(bytes, 44),
        is_strict: has_strict(&bytes[MAP_END..], true)?,
    };
    // Nothing to insist on: any address may be written as :: or as ::ffff:0.0.0.0 (section 5).
    let is_any = map.address.is_unspecified()
        || map
            .address
            .to_ipv4_mapped()
            .is_some_and(|v4| v4.is_unspecified());
    match map.is_strict && map.port == 0 && is_any {
        true => Err(Code::MalformedOption),
        false => Ok(map),
    }
}

/// Reads all options; returns true if PREFER_FAILURE is among them, which only MAP may have.
fn has_strict(mut options: &[u8], is_map: bool) -> Result<bool, Code> {
    let mut is_strict = false;
    while let [code, _, high, low, rest @ ..] = options {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(behind) = rest.get(len.next_multiple_of(4)..) else {
            return Err(Code::MalformedOption);
        };
        match *code {
            PREFER_FAILURE if is_map && (len != 0 || is_strict) => {
                return Err(Code::MalformedOption)
            }
            PREFER_FAILURE if is_map => is_strict = true,
            // Among them THIRD_PARTY and FILTER.
            mandatory if mandatory < FIRST_OPTIONAL => return Err(Code::UnsuppOption),
            _ => {}
        }
        options = behind;
    }
    Ok(is_strict)
}

fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}

/// The answer to a request that is refused: its own bytes behind another header (section 8.2). Never longer than the request.
/// `lifetime`: seconds for which the client should expect the same.
pub fn refusal(request: &[u8], code: Code, lifetime: u32, epoch: u32) -> Vec<u8> {
    let len = request.len().min(LONGEST) & !3;
    let mut answer = request[..len].to_vec();
    write_header(&mut answer, code, lifetime, epoch);
    answer
}

/// The answer to ANNOUNCE (section 14.1).
pub fn announcement(request: &[u8], epoch: u32) -> Vec<u8> {
    let mut answer = request[..HEADER].to_vec();
    write_header(&mut answer, Code::Success, 0, epoch);
    answer
}

/// The answer to a MAP that was granted: its own fields with the external port and address, and the option that counted
/// (section 11.4).
pub fn mapping(
    request: &[u8],
    map: &Map,
    external: (u16, Ipv6Addr),
    lifetime: u32,
    epoch: u32,
) -> Vec<u8> {
    let mut answer = request[..MAP_END].to_vec();
    answer[42..44].copy_from_slice(&external.0.to_be_bytes());
    answer[44..MAP_END].copy_from_slice(&external.1.octets());
    if map.is_strict {
        answer.extend([PREFER_FAILURE, 0, 0, 0]);
    }
    write_header(&mut answer, Code::Success, lifetime, epoch);
    answer
}

fn write_header(answer: &mut [u8], code: Code, lifetime: u32, epoch: u32) {
    answer[0] = VERSION;
    answer[1] |= ANSWER;
    answer[2] = 0;
    answer[3] = code as u8;
    answer[4..8].copy_from_slice(&lifetime.to_be_bytes());
    answer[8..12].copy_from_slice(&epoch.to_be_bytes());
    answer[12..HEADER].fill(0);
}

const _: () = assert!(OPTION_HEADER == 4 && MAP_END == 60);
