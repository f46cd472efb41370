// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions of etcd as JSON (`/v3/kv/txn`): requests, and answers as far as they are used.
//!
//! Keys and values are in base64, numbers of 64 bits are strings. Zero and false are omitted. An unknown field belongs
//! to a later version, as in all of protobuf.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{json, Value};

/// An answer.
#[derive(Deserialize)]
pub(crate) struct Reply {
    pub(crate) header: Header,
    /// True if the comparisons held.
    #[serde(default)]
    pub(crate) succeeded: bool,
    /// One for each operation.
    #[serde(default)]
    responses: Vec<Response>,
}

#[derive(Deserialize)]
pub(crate) struct Header {
    #[serde(deserialize_with = "number")]
    pub(crate) cluster_id: u64,
    /// The revision of the store, after the transaction.
    #[serde(deserialize_with = "number")]
    pub(crate) revision: u64,
}

#[derive(Deserialize)]
struct Response {
    response_range: Option<Range>,
    response_delete_range: Option<Deleted>,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Pair>,
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct Deleted {
    #[serde(default, deserialize_with = "number")]
    deleted: u64,
}

/// A key with its value.
#[derive(Deserialize)]
pub(crate) struct Pair {
    #[serde(deserialize_with = "bytes")]
    pub(crate) key: Vec<u8>,
    /// The revision of the last write.
    #[serde(deserialize_with = "number")]
    pub(crate) mod_revision: u64,
    #[serde(default, deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
}

impl Reply {
    /// Parses an answer; None if it is not an answer to a transaction.
    pub(crate) fn parse(body: &[u8]) -> Option<Reply> {
        let reply: Reply = serde_json::from_slice(body).ok()?;
        let header = &reply.header;
        let newest = |range: &Range| range.kvs.iter().map(|pair| pair.mod_revision).max();
        let ranges = reply
            .responses
            .iter()
            .filter_map(|r| r.response_range.as_ref());
        let newest = ranges.filter_map(newest).max().unwrap_or(1);
        let is_whole = header.cluster_id != 0 && (1..=header.revision).contains(&newest);
        is_whole.then_some(reply)
    }

    /// Returns what operation number `at` has found under exactly this key. None if it was not a [`range`] of it.
    pub(crate) fn found(&mut self, at: usize, key: &str) -> Option<Option<Pair>> {
        let mut pairs = self.all(at)?;
        match (pairs.pop(), pairs.is_empty()) {
            (None, _) => Some(None),
            (Some(pair), true) if pair.key == key.as_bytes() => Some(Some(pair)),
            _ => None,
        }
    }

    /// Returns everything that the operation has found. None if it was not a range, or if the answer is incomplete.
    pub(crate) fn all(&mut self, at: usize) -> Option<Vec<Pair>> {
        let range = self.responses.get_mut(at)?.response_range.as_mut()?;
        (!range.more).then(|| std::mem::take(&mut range.kvs))
    }

    /// Returns how many keys the operation has deleted.
    pub(crate) fn deleted(&self, at: usize) -> Option<u64> {
        let deleted = self.responses.get(at)?.response_delete_range.as_ref()?;
        Some(deleted.deleted)
    }
}

/// Builds a transaction: `then` if the comparisons hold, and `otherwise` if not.
pub(crate) fn transaction(compare: &[Value], then: &[Value], otherwise: &[Value]) -> Value {
    json!({"compare": compare, "success": then, "failure": otherwise})
}

/// Compares: the key was last written with this revision; 0: it does not exist.
pub(crate) fn has_revision(key: &str, revision: u64) -> Value {
    json!({"key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()})
}

/// Compares: the key exists and has this value.
pub(crate) fn has_value(key: &str, value: &[u8]) -> Value {
    json!({"key": text(key), "target": "VALUE", "result": "EQUAL", "value": STANDARD.encode(value)})
}

/// Reads a key.
pub(crate) fn range(key: &str) -> Value {
    json!({"request_range": {"key": text(key)}})
}

/// Reads all keys with this prefix.
pub(crate) fn range_below(prefix: &str) -> Value {
    json!({"request_range": {"key": text(prefix), "range_end": after(prefix)}})
}

/// Writes a key.
pub(crate) fn put(key: &str, value: &[u8]) -> Value {
    json!({"request_put": {"key": text(key), "value": STANDARD.encode(value)}})
}

/// Deletes a key, if it exists.
pub(crate) fn delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": text(key)}})
}

/// Deletes all keys with this prefix.
pub(crate) fn delete_below(prefix: &str) -> Value {
    json!({"request_delete_range": {"key": text(prefix), "range_end": after(prefix)}})
}

fn text(key: &str) -> String {
    STANDARD.encode(key)
}

/// Returns the first key after those with this prefix: prefixes end with "/".
fn after(prefix: &str) -> String {
    text(&format!("{}0", prefix.trim_end_matches('/')))
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    let is_digits = text.bytes().all(|c| c.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_digits);
    number.ok_or_else(|| D::Error::custom("not a number"))
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    STANDARD.decode(&*text).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::Reply;

    // The forms are those of etcd's documentation of its JSON gateway.
    const READ: &str = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"1","revision":"7","raft_term":"2"},
        "responses":[{"response_range":{"header":{"revision":"7"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"5",
        "version":"1","value":"Yg=="}],"count":"1"}},{"response_delete_range":{"header":{"revision":"7"}}}]}"#;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let mut reply = Reply::parse(READ.as_bytes()).unwrap();
        assert_eq!(reply.header.cluster_id, 14841639068965178418);
        assert!(!reply.succeeded && reply.deleted(1) == Some(0));
        let pair = reply.found(0, "a").unwrap().unwrap();
        assert_eq!((pair.mod_revision, &*pair.value), (5, &b"b"[..]));
        assert!(Reply::parse(READ.as_bytes())
            .unwrap()
            .found(0, "b")
            .is_none());
        assert!(Reply::parse(READ.as_bytes())
            .unwrap()
            .found(1, "a")
            .is_none());
        for (from, to) in [
            (r#""revision":"7","raft"#, r#""revision":7,"raft"#),
            (r#""revision":"7","raft"#, r#""revision":"4","raft"#),
            (r#""revision":"7","raft"#, r#""revision":"-7","raft"#),
            (r#""revision":"7","raft"#, r#""revision":"+7","raft"#),
            ("14841639068965178418", "0"),
            ("14841639068965178418", "24841639068965178418"),
            (r#""cluster_id""#, r#""cluster""#),
            (r#""mod_revision":"5","#, ""),
            ("Yg==", "Yg="),
            ("]}", "]"),
        ] {
            let strange = READ.replace(from, to);
            assert_ne!(strange, READ, "{from}");
            assert!(Reply::parse(strange.as_bytes()).is_none(), "{from} {to}");
        }
    }
}
