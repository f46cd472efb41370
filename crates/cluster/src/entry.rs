// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine keeps: one entry for each node, and one for each slice that has an owner. A writer may be a stranger,
//! another cluster or another version, so entries are read with care, and what cannot be read is no entry.

use crate::reader::Reader;
use crate::slice::SliceId;

/// A node's place in the cluster's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// That of a node.
    Node(NodeId),
    /// That of a slice.
    Slice(SliceId),
}

/// What a node says of itself, or another one of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// A random number, another one each time a process joins. Slices belong to a life, not to a node.
    pub life: u64,
    /// Number of this renewal in its life.
    pub renewal: u64,
    /// Whether this life goes on.
    pub is_alive: bool,
}

/// Who owns a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceEntry {
    /// The node.
    pub owner: NodeId,
    /// In which of its lives.
    pub life: u64,
    /// Up to which message of the stream of bindings the owner has to have read before it opens bindings in the slice;
    /// 0: up to the end that the stream has once this entry is known.
    pub through: u64,
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Of a node.
    Node(NodeEntry),
    /// Of a slice.
    Slice(SliceEntry),
}

/// First byte of an entry. Another format has another one.
const FORMAT: u8 = 2;

impl Key {
    /// The name in the engine's bucket: letters, digits and dots.
    pub fn name(self) -> String {
        match self {
            Key::Node(NodeId(number)) => format!("node.{number}"),
            Key::Slice(number) => format!("slice.{number}"),
        }
    }

    /// The key of that name; `None` if it is no name that [`Key::name`] gives.
    pub fn parse(name: &str) -> Option<Key> {
        let (kind, number) = name.split_once('.')?;
        let key = match kind {
            "node" => Key::Node(NodeId(number.parse().ok()?)),
            "slice" => Key::Slice(number.parse().ok()?),
            _ => return None,
        };
        // No second spelling, such as one with a sign or zeros in front.
        (key.name() == name).then_some(key)
    }
}

impl Value {
    /// As the engine keeps it. `cluster` sets clusters apart that use one bucket by mistake.
    pub fn encode(&self, cluster: u64) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend(cluster.to_be_bytes());
        match self {
            Value::Node(entry) => {
                bytes.extend(entry.life.to_be_bytes());
                bytes.extend(entry.renewal.to_be_bytes());
                bytes.push(entry.is_alive.into());
            }
            Value::Slice(entry) => {
                bytes.extend(entry.owner.0.to_be_bytes());
                bytes.extend(entry.life.to_be_bytes());
                bytes.extend(entry.through.to_be_bytes());
            }
        }
        bytes
    }

    /// Which cluster has written an entry, whatever it says; `None`: it is of another format.
    pub fn cluster_of(bytes: &[u8]) -> Option<u64> {
        let mut rest = Reader(bytes);
        (rest.take()? == [FORMAT]).then(|| rest.take().map(u64::from_be_bytes))?
    }

    /// The value of an entry with this key; `None` if it is of another cluster, of another format, or malformed.
    pub fn decode(key: Key, cluster: u64, bytes: &[u8]) -> Option<Value> {
        let mut rest = Reader(bytes);
        if rest.take()? != [FORMAT] || u64::from_be_bytes(rest.take()?) != cluster {
            return None;
        }
        let value = match key {
            Key::Node(_) => Value::Node(NodeEntry {
                life: u64::from_be_bytes(rest.take()?),
                renewal: u64::from_be_bytes(rest.take()?),
                is_alive: match rest.take()? {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                },
            }),
            Key::Slice(_) => Value::Slice(SliceEntry {
                owner: NodeId(u16::from_be_bytes(rest.take()?)),
                life: u64::from_be_bytes(rest.take()?),
                through: u64::from_be_bytes(rest.take()?),
            }),
        };
        rest.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Key = Key::Node(NodeId(3));
    const SLICE: Key = Key::Slice(70_000);

    #[test]
    fn names_have_one_spelling() {
        for key in [NODE, SLICE] {
            assert_eq!(Key::parse(&key.name()), Some(key));
        }
        for other in [
            "node.03",
            "node.+3",
            "node.65536",
            "node.",
            "slice.x",
            "lease.1",
            "node3",
            "",
        ] {
            assert_eq!(Key::parse(other), None, "{other}");
        }
    }

    #[test]
    fn bytes_by_hand() {
        let node = Value::Node(NodeEntry {
            life: 2,
            renewal: 0x0102,
            is_alive: true,
        });
        let expected = [
            2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 1,
        ];
        assert_eq!(node.encode(9), expected);
        assert_eq!(Value::decode(NODE, 9, &expected), Some(node));
        let slice = Value::Slice(SliceEntry {
            owner: NodeId(0x0304),
            life: 5,
            through: 0x0607,
        });
        let expected = [
            2, 0, 0, 0, 0, 0, 0, 0, 9, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 6, 7,
        ];
        assert_eq!(slice.encode(9), expected);
        assert_eq!(Value::decode(SLICE, 9, &expected), Some(slice));
    }

    #[test]
    fn strangers_are_no_entries() {
        let right = Value::Node(NodeEntry {
            life: 2,
            renewal: 7,
            is_alive: false,
        })
        .encode(9);
        let with = |at: usize, byte| {
            let mut bytes = right.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(Value::decode(NODE, 8, &right), None, "another cluster");
        assert_eq!(Value::decode(NODE, 9, &with(0, 1)), None, "another format");
        assert_eq!(
            Value::decode(NODE, 9, &with(25, 2)),
            None,
            "neither alive nor dead"
        );
        for len in 0..right.len() {
            assert_eq!(
                Value::decode(NODE, 9, &right[..len]),
                None,
                "cut off at {len}"
            );
        }
        let longer = [right.as_slice(), &[0]].concat();
        assert_eq!(Value::decode(NODE, 9, &longer), None, "something behind it");
        assert_eq!(Value::decode(SLICE, 9, &right), None, "of another kind");
    }
}
