// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that a cluster has in the engine, and which of the caller's names can be part of them.

use crate::Store;

/// The longest key or subject tail in bytes. The servers' default limit of a line is 4096.
const LONGEST: usize = 128;

/// Names of one cluster. JetStream keeps a bucket as a stream, too.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Of the stream that keeps the bucket. By NATS' convention for buckets, so that `nats kv` shows it.
    pub(crate) bucket_stream: String,
    /// What precedes a key in its subject.
    pub(crate) bucket_prefix: String,
    /// Of the stream of bindings.
    pub(crate) bindings_stream: String,
    /// What precedes the tail of a message's subject.
    pub(crate) bindings_prefix: String,
}

impl Names {
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            bucket_stream: format!("KV_DIOLKOS_{cluster}"),
            bucket_prefix: format!("$KV.DIOLKOS_{cluster}."),
            bindings_stream: format!("DIOLKOS_{cluster}_BINDINGS"),
            bindings_prefix: format!("diolkos.{cluster}.bindings."),
        }
    }

    pub(crate) fn stream(&self, store: Store) -> &str {
        match store {
            Store::Bucket => &self.bucket_stream,
            Store::Bindings => &self.bindings_stream,
        }
    }

    pub(crate) fn prefix(&self, store: Store) -> &str {
        match store {
            Store::Bucket => &self.bucket_prefix,
            Store::Bindings => &self.bindings_prefix,
        }
    }
}

/// Whether this can be a cluster's name: `[a-z0-9-]{1,32}`.
pub(crate) fn is_cluster(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether this can be a key of a bucket: parts of `[A-Za-z0-9_=/-]`, separated by dots.
pub(crate) fn is_key(key: &str) -> bool {
    key.len() <= LONGEST && key.split('.').all(is_part)
}

/// Whether this can be the last part of a subject.
pub(crate) fn is_tail(tail: &str) -> bool {
    tail.len() <= LONGEST && is_part(tail)
}

fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_=/-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_reach_beyond_its_part_of_the_subjects() {
        for good in ["node.a", "slice.12", "A_b-c=/"] {
            assert!(is_key(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a.*",
            ">",
            "a\r\nPUB x 0",
            "é",
        ] {
            assert!(!is_key(bad), "{bad}");
        }
        assert!(is_tail("17") && !is_tail("1.7") && !is_tail("*") && !is_tail(""));
        assert!(is_key(&"k".repeat(128)) && !is_key(&"k".repeat(129)));
        assert!(is_cluster("a-1") && is_cluster(&"a".repeat(32)));
        for bad in ["", "A", "a.b", "a_b", "a*", &"a".repeat(33)] {
            assert!(!is_cluster(bad), "{bad}");
        }
    }
}
