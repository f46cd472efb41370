// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which kernel this is.

use std::fs;

const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Its release as `uname -r` says it; "?" without /proc.
pub fn release() -> String {
    fs::read_to_string(RELEASE).map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

/// Whether it is this version of Linux or a later one; true where that cannot be told.
pub fn is_at_least(major: u32, minor: u32) -> bool {
    numbers(&release()).is_none_or(|version| version >= (major, minor))
}

/// The first two numbers of a release.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_have_two_numbers() {
        for (release, version) in [
            ("6.1.0-56-amd64", Some((6, 1))),
            ("6.12.117+deb12-amd64", Some((6, 12))),
            ("5.15-rc3", Some((5, 15))),
            ("7.0", Some((7, 0))),
            ("?", None),
            ("linux.next", None),
        ] {
            assert_eq!(numbers(release), version, "{release}");
        }
    }
}
