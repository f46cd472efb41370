// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frame of every state file, in every version: a beginning, and sections, each with a name, a length and a
//! checksum of its own. So a whole section can be read whatever stands beside it.

use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;

use super::malformed::Malformed;

const MAGIC: &[u8; 8] = b"diolkos\n";
/// The longest body in bytes, in every version: a reader need not trust a length.
pub const LONGEST: usize = 1 << 16;

/// The name of a section.
pub type Name = [u8; 4];

/// The operator's bindings.
pub const OPERATOR: Name = *b"oper";
/// The pool's secret.
pub const POOL: Name = *b"pool";
/// The time of the state, and the prefixes.
pub const MOMENT: Name = *b"when";
/// Sessions.
pub const SESSIONS: Name = *b"sess";
/// The end; nothing follows.
pub const END: Name = *b"done";

/// The beginning of a file.
pub struct Beginning {
    pub version: u32,
    pub kind: u32,
}

/// A section as it was read.
pub struct Section {
    pub name: Name,
    pub body: Vec<u8>,
    /// True if its checksum is right.
    pub is_whole: bool,
}

/// Writes the beginning.
pub fn begin(out: &mut impl Write, version: u32, kind: u32) -> io::Result<()> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..].copy_from_slice(&kind.to_le_bytes());
    out.write_all(&bytes)?;
    out.write_all(&sum(&[&bytes]))
}

/// Reads the beginning.
pub fn beginning(input: &mut impl Read) -> Result<Beginning, Malformed> {
    match array::<8>(input) {
        Ok(magic) if magic == *MAGIC => {}
        Ok(_) | Err(Malformed::Truncated) => return Err(Malformed::Foreign),
        Err(error) => return Err(error),
    }
    let [version, kind] = [array(input)?, array(input)?];
    let (version_bytes, kind_bytes) = (version, kind);
    let (version, kind) = (u32::from_le_bytes(version), u32::from_le_bytes(kind));
    if array(input)? != sum(&[MAGIC, &version_bytes, &kind_bytes]) {
        return Err(Malformed::Corrupted("its beginning has a wrong checksum"));
    }
    Ok(Beginning { version, kind })
}

/// Writes a section.
pub fn put(out: &mut impl Write, name: Name, body: &[u8]) -> io::Result<()> {
    let len = (body.len() as u32).to_le_bytes();
    out.write_all(&name)?;
    out.write_all(&len)?;
    out.write_all(body)?;
    out.write_all(&sum(&[&name, &len, body]))
}

/// Reads a section.
pub fn take(input: &mut impl Read) -> Result<Section, Malformed> {
    let (name, len) = (array(input)?, array(input)?);
    let size = u32::from_le_bytes(len) as usize;
    if size > LONGEST {
        return Err(Malformed::Corrupted("a section is too long"));
    }
    let mut body = vec![0; size];
    fill(input, &mut body)?;
    let is_whole = array(input)? == sum(&[&name, &len, &body]);
    Ok(Section {
        name,
        body,
        is_whole,
    })
}

/// Reads the next bytes of a file.
pub fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], Malformed> {
    let mut bytes = [0; N];
    fill(input, &mut bytes)?;
    Ok(bytes)
}

fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), Malformed> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Malformed::Truncated,
        _ => Malformed::Unreadable(error),
    })
}

/// Returns SipHash-1-3 with key 0. It detects accidental damage; the file's owner and mode protect it against people.
fn sum(parts: &[&[u8]]) -> [u8; 8] {
    let mut sum = SipHasher13::new();
    for part in parts {
        sum.write(part);
    }
    sum.finish().to_le_bytes()
}
