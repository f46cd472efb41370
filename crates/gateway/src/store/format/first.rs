// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Version 1 of the format: entries without sections, and one checksum at the end. Its bindings and the pool's secret are
//! kept.
//!
//! | part | bytes |
//! |---|---|
//! | head | `diolkos\n`, version (4), kind (4), start of the machine (16), two times (8 each), clean (1), the pool's secret (16), other secrets (16), number of prefixes (2), each 17 |
//! | binding | 1, the binding (25) |
//! | session | 2, 36 more |
//! | end | 0, number of bindings (4), of sessions (4), SipHash-1-3 with key 0 of everything before (8) |

use std::hash::Hasher;
use std::io::{self, Read};

use siphasher::sip::SipHasher13;

use super::fields::{Fields, BINDING};
use super::head::{Salvage, NAT64, SESSION};
use super::malformed::Malformed;
use super::section::{array, WITHOUT_SECTIONS};

/// Reads what follows the kind. Without sections, all of it is right or nothing can be kept.
pub fn salvage(input: impl Read, kind: u32) -> Result<Salvage, Malformed> {
    if kind != NAT64 {
        return Err(Malformed::Corrupted("it is not that of a NAT64"));
    }
    let mut input = Summed {
        input,
        sum: SipHasher13::new(),
    };
    let head = [
        b"diolkos\n".as_slice(),
        &WITHOUT_SECTIONS.to_le_bytes(),
        &kind.to_le_bytes(),
    ];
    head.iter().for_each(|part| input.sum.write(part));
    array::<33>(&mut input)?;
    let secret = [array(&mut input)?, array(&mut input)?].map(u64::from_le_bytes);
    array::<16>(&mut input)?;
    for _ in 0..u16::from_le_bytes(array(&mut input)?) {
        array::<17>(&mut input)?;
    }
    let mut bindings = Vec::new();
    loop {
        match array(&mut input)? {
            [1] => bindings.push(Fields(&array::<BINDING>(&mut input)?).binding()?),
            [2] => {
                array::<SESSION>(&mut input)?;
            }
            [0] => break,
            _ => return Err(Malformed::Corrupted("an unknown kind of entry")),
        }
    }
    array::<8>(&mut input)?;
    let sum = input.sum.finish();
    match u64::from_le_bytes(array(&mut input)?) == sum {
        true => Ok(Salvage {
            secret: Some(secret),
            bindings,
            is_complete: true,
        }),
        false => Err(Malformed::Corrupted("its checksum is wrong")),
    }
}

struct Summed<R> {
    input: R,
    sum: SipHasher13,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        self.sum.write(&to[..read]);
        Ok(read)
    }
}
