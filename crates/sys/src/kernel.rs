// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The version and build of the running kernel.

use std::fs;

const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// The build: Debian names its stable kernel version here, not in the release.
const BUILD: &str = "/proc/sys/kernel/version";

/// A bug fix in the kernel: its first version, and the stable kernels that are known to have it.
#[derive(Clone, Copy, Debug)]
pub struct Correction {
    /// The first version that has the fix.
    pub since: (u32, u32),
    /// The first stable releases of earlier versions that have it.
    pub stable: &'static [(u32, u32, u32)],
}

impl Correction {
    /// Returns true if this kernel is known to have the fix. A distribution may have backported it, which cannot be detected.
    pub fn is_here(&self) -> bool {
        let build = fs::read_to_string(BUILD).unwrap_or_default();
        let release = release();
        self.is_in(debian(&build).unwrap_or(&release))
    }

    fn is_in(&self, release: &str) -> bool {
        let Some((major, minor)) = numbers(release) else {
            return false;
        };
        let rest = release.splitn(3, '.').nth(2).unwrap_or_default();
        let patch = rest.split(|c: char| !c.is_ascii_digit()).next();
        let patch: u32 = patch.and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut stable = self.stable.iter();
        (major, minor) >= self.since
            || stable.any(|of| (of.0, of.1) == (major, minor) && patch >= of.2)
    }
}

/// The greatest possible number of CPUs; 1 if it is not known.
pub fn possible_cpus() -> u32 {
    let cpus = libbpf_rs::num_possible_cpus().ok();
    cpus.and_then(|cpus| cpus.try_into().ok()).unwrap_or(1)
}

/// The version of the Debian package, if this is a Debian build.
fn debian(build: &str) -> Option<&str> {
    let (_, rest) = build.split_once("Debian ")?;
    rest.split_whitespace().next()
}

/// The release as in `uname -r`; "?" without /proc.
pub fn release() -> String {
    fs::read_to_string(RELEASE).map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

/// Returns true if the kernel has this version or a later one; false for an unknown version.
pub fn is_since(version: (u32, u32)) -> bool {
    numbers(&release()).is_some_and(|this| this >= version)
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

    #[test]
    fn a_correction_is_known_by_version_and_stable_kernel() {
        let correction = Correction {
            since: (6, 19),
            stable: &[(6, 1, 167), (6, 12, 69)],
        };
        for (release, is_in) in [
            ("6.19.0-rc1", true),
            ("7.0.3", true),
            ("6.12.69", true),
            ("6.12.117-1~deb12u1", true),
            ("6.12.68-cloud", false),
            ("6.1.192-2", true),
            ("6.1.0-56-amd64", false),
            ("6.6.130", false),
            ("6.18.44-fc-v595", false),
            ("?", false),
        ] {
            assert_eq!(correction.is_in(release), is_in, "{release}");
        }
    }

    #[test]
    fn debian_says_which_stable_kernel_it_is() {
        let build = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)\n";
        assert_eq!(debian(build), Some("6.1.192-2"));
        assert_eq!(debian("#1 SMP PREEMPT_DYNAMIC @0"), None);
    }
}
