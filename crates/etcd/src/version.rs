// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The versions of etcd that can keep records.

use serde::Deserialize;

/// The answer to `GET /version`. Later versions add fields.
#[derive(Deserialize)]
struct Version {
    etcdserver: String,
}

/// Returns the version of a member, if records are safe with it. The error is the end of a sentence that begins with
/// the member.
pub(crate) fn judge(body: &[u8]) -> Result<String, String> {
    let version: Version =
        serde_json::from_slice(body).map_err(|_| "is no etcd: it does not tell its version")?;
    let version = version.etcdserver;
    let (major, minor, patch) = numbers(&version).ok_or("is no etcd: its version is unknown")?;
    // Members lost or changed data: 3.4.0 to 3.4.7 (etcd issue 11651), 3.5.0 to 3.5.2 (issue 13766); after a crash in
    // defragmentation, 3.5.0 to 3.5.5 (pull request 14733); with authentication and a new member, 3.4.20, 3.4.21 and 3.5.5 (14648).
    // A single member of 3.4 before 3.4.21 answers before it has written to disk (14423).
    let take = match (major, minor, patch) {
        (3, 4, 22..) | (3, 5, 6..) | (3, 6.., _) => return Ok(version),
        (3, 5, _) => "3.5.6",
        (3, ..) => "3.4.22",
        _ => "3.4 or 3.5",
    };
    Err(format!(
        "is etcd {version}, which can lose records; take {take} or newer"
    ))
}

/// Parses `3.4.23`, perhaps followed by `-rc.0` or `+git`.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let is_short = version.len() <= 32 && version.is_ascii();
    let core = version.split(['-', '+']).next().filter(|_| is_short)?;
    let mut parts = core.split('.').map(|part| part.parse().ok());
    let numbers = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn of(version: &str) -> Result<String, String> {
        judge(format!("{{\"etcdserver\":\"{version}\",\"etcdcluster\":\"3.4.0\"}}").as_bytes())
    }

    #[test]
    fn versions_that_lose_data_are_refused() {
        for good in ["3.4.22", "3.4.23", "3.5.6", "3.5.21", "3.6.0", "3.5.16+git"] {
            assert_eq!(of(good).unwrap(), good);
        }
        for bad in ["3.3.27", "3.4.0", "3.4.7", "3.4.21", "2.3.8"] {
            assert!(of(bad).unwrap_err().contains("3.4"), "{bad}");
        }
        for bad in ["3.5.0", "3.5.2", "3.5.5"] {
            let error = of(bad).unwrap_err();
            assert!(error.contains(bad) && error.contains("3.5.6"), "{error}");
        }
        for strange in ["", "3", "3.4", "3.4.x", "3.4.22.1", "4294967296.0.0"] {
            assert!(of(strange).unwrap_err().contains("no etcd"), "{strange}");
        }
        assert!(judge(b"<html>").unwrap_err().contains("no etcd"));
    }
}
