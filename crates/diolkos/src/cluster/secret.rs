// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The secret that the nodes of a cluster have in common, and what is made of it.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Hexadecimal digits of a secret.
const DIGITS: usize = 64;

/// What the secret is good for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    /// Key of the hash by which a source has its slice: who knows it could choose addresses that share one.
    pub slices: [u64; 2],
    /// Number of the cluster, in all that a node writes to the engine. It is no secret.
    pub cluster: u64,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Secret, Failure> {
    let text = fs::read_to_string(path).map_err(|e| {
        Failure::usage(format!(
            "cluster.secret_file: {} cannot be read: {e}",
            path.display()
        ))
    })?;
    parse(text.trim()).ok_or_else(|| {
        Failure::usage(format!(
            "cluster.secret_file: {} has not {DIGITS} hexadecimal digits: write them by `openssl rand -hex 32`",
            path.display()
        ))
    })
}

fn parse(text: &str) -> Option<Secret> {
    if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
    Some(Secret {
        slices: [number(0)?, number(16)?],
        cluster: number(32)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_nothing_else() {
        let right = "000000000000000100000000000000020000000000000003fffffffffffffff4";
        let secret = parse(right).expect("it is one");
        assert_eq!((secret.slices, secret.cluster), ([1, 2], 3));
        for wrong in [
            &right[1..],
            "",
            &right.replace('f', "g"),
            &format!("+{}", &right[1..]),
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
