// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts requests of a node to transactions of etcd, and maintains the engine's name.
//!
//! # The engine's name
//!
//! etcd's cluster ID is a digest of the members' URLs and the cluster's token. A cluster that was wiped and created
//! again in the same way has the same ID. So the data has a name, too: 64 random bits under `…/engine`, written by the
//! first node that finds none, read in every transaction, and compared in every write. The engine's name is both
//! together.
//!
//! A cluster that was restored from a snapshot may have kept both. Its revision is then lower than one that a node has
//! seen, unless many writes have followed. A node that detects this gives the data another name, for all nodes.
//!
//! # Why reads write
//!
//! etcd before 3.4.42, 3.5.28 and 3.6.9 can answer a linearizable read with an old value if members are stopped (etcd
//! issue 20418). Reads here are transactions that also delete a key that never exists. etcd orders these in its log,
//! like writes, and they change nothing.

use diolkos_node::record::{Answer, Outcome, PeerRecord, Request};
use diolkos_node::NodeId;
use serde_json::Value;

use crate::connection::Connection;
use crate::wire::{delete, has_revision, has_value, put, range, range_below, transaction, Reply};

/// The version of the data format below the prefix.
const FORMAT: &str = "1";
const PATH: &str = "/v3/kv/txn";

/// The known state of the store, whichever member answers.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The name of the data when this node last read its own record, which its writes are meant for.
    meant: Option<String>,
    /// The last name of the engine that was seen, and its revision.
    seen: (u64, u64),
}

impl Store {
    /// Carries out a request. The error is a sentence; after an error, a write may have happened or not.
    pub(crate) async fn answer(
        &mut self,
        connection: &mut Connection,
        request: &Request,
    ) -> Result<Answer, String> {
        match request {
            Request::Read(node) => self.read(connection, *node).await,
            Request::ReadAll => self.read_all(connection).await,
            Request::Write(revision, bytes) => self.write(connection, *revision, bytes).await,
        }
    }

    async fn read(&mut self, connection: &mut Connection, node: NodeId) -> Result<Answer, String> {
        let settings = connection.settings.clone();
        let record = settings.record_key(node).ok_or("there is no such node")?;
        let (mut reply, answer, name) = self.look(connection, range(&record)).await?;
        let value = reply.found(1, &record).ok_or(STRANGE)?;
        if node == settings.me {
            self.meant = Some(name);
        }
        let value = value.map(|pair| (pair.mod_revision, pair.value));
        Ok(Answer {
            outcome: Outcome::Value(value),
            ..answer
        })
    }

    async fn read_all(&mut self, connection: &mut Connection) -> Result<Answer, String> {
        let settings = connection.settings.clone();
        let below = range_below(&settings.nodes_prefix());
        let (mut reply, answer, _) = self.look(connection, below).await?;
        let mut others = Vec::new();
        for pair in reply.all(1).ok_or(STRANGE)? {
            let Some(name) = settings.named(&String::from_utf8_lossy(&pair.key)) else {
                continue;
            };
            let at = settings.nodes.iter().position(|node| *node == name);
            let node = at.and_then(|at| u8::try_from(at).ok()).map(NodeId);
            if node != Some(settings.me) {
                let bytes = pair.value;
                others.push(PeerRecord { node, name, bytes });
            }
        }
        Ok(Answer {
            outcome: Outcome::All(others),
            ..answer
        })
    }

    /// Reads the engine's name and something else, which is second in the reply.
    async fn look(
        &mut self,
        connection: &mut Connection,
        what: Value,
    ) -> Result<(Reply, Answer, String), String> {
        let settings = connection.settings.clone();
        let (engine, nothing) = (settings.engine_key(), settings.nothing_key());
        let operations = [range(&engine), what, delete(&nothing)];
        let mut reply = ask(connection, &transaction(&[], &operations, &[])).await?;
        let Some(found) = reply.found(0, &engine).ok_or(STRANGE)? else {
            let is_missing = has_revision(&engine, 0);
            name_anew(connection, &engine, is_missing).await?;
            return Err("the engine had no name, and got one".into());
        };
        let name = data_name(&found.value)?;
        let answer = self.accept(connection, &reply, &name).await?;
        Ok((reply, answer, name))
    }

    async fn write(
        &mut self,
        connection: &mut Connection,
        revision: u64,
        bytes: &[u8],
    ) -> Result<Answer, String> {
        let settings = connection.settings.clone();
        let engine = settings.engine_key();
        let record = settings.record_key(settings.me).ok_or(STRANGE)?;
        let meant = self.meant.clone().ok_or("nothing was read before")?;
        let compare = [
            has_value(&engine, &data_value(&meant)),
            has_revision(&record, revision),
        ];
        let (then, otherwise) = ([put(&record, bytes)], [range(&engine)]);
        let mut reply = ask(connection, &transaction(&compare, &then, &otherwise)).await?;
        if reply.succeeded {
            let outcome = Outcome::Written(reply.header.revision);
            let answer = self.accept(connection, &reply, &meant).await?;
            return Ok(Answer { outcome, ..answer });
        }
        let found = reply.found(0, &engine).ok_or(STRANGE)?;
        let name = data_name(&found.ok_or("the engine has lost its name")?.value)?;
        self.accept(connection, &reply, &name).await
    }

    /// Returns an answer without an outcome yet, if the engine has not gone back.
    async fn accept(
        &mut self,
        connection: &mut Connection,
        reply: &Reply,
        name: &str,
    ) -> Result<Answer, String> {
        let random = u64::from_str_radix(name, 16).map_err(|_| STRANGE)?;
        let engine = (random ^ reply.header.cluster_id).max(1);
        let revision = reply.header.revision;
        if self.seen.0 == engine && revision < self.seen.1 {
            // Answers under this name are no longer valid, even if it cannot be changed now.
            self.seen.1 = u64::MAX;
            let key = connection.settings.engine_key();
            let is_same = has_value(&key, &data_value(name));
            let named = name_anew(connection, &key, is_same).await;
            let named = named.map_or_else(|e| e, |()| "it got another name".into());
            return Err(format!(
                "the engine went back to revision {revision}: {named}"
            ));
        }
        self.seen = (engine, revision);
        Ok(Answer {
            engine,
            revision,
            outcome: Outcome::Refused,
        })
    }
}

const STRANGE: &str = "the engine's answer cannot be read";

/// Sends a transaction.
pub(crate) async fn ask(connection: &mut Connection, body: &Value) -> Result<Reply, String> {
    let answer = connection.ask(PATH, body.clone()).await?;
    Reply::parse(&answer).ok_or(STRANGE.into())
}

/// Gives the data another random name, if the comparison still holds: another node may have been faster.
async fn name_anew(connection: &mut Connection, key: &str, still: Value) -> Result<(), String> {
    let random = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
    let named = put(key, &data_value(&format!("{random:016x}")));
    ask(connection, &transaction(&[still], &[named], &[])).await?;
    Ok(())
}

fn data_value(name: &str) -> Vec<u8> {
    format!("diolkos {FORMAT} {name}").into_bytes()
}

/// Parses the name of the data: 16 hexadecimal digits.
pub(crate) fn data_name(value: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let mut words = text.split(' ');
    let (program, format, name) = (words.next(), words.next(), words.next());
    match (program, format, name) {
        (Some("diolkos"), Some(FORMAT), Some(name)) if is_name(name) && words.next().is_none() => {
            Ok(name.into())
        }
        (Some("diolkos"), Some(format), _) if format != FORMAT && is_number(format) => Err(
            format!("the engine's data is of format {format}, this program has {FORMAT}"),
        ),
        _ => Err("the engine's key of its name was not written by diolkos".into()),
    }
}

fn is_name(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_number(text: &str) -> bool {
    (1..=4).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::data_name;

    #[test]
    fn data_of_another_format_is_named() {
        assert_eq!(
            data_name(b"diolkos 1 00000000000000ff").unwrap(),
            "00000000000000ff"
        );
        let error = data_name(b"diolkos 2 whatever it has").unwrap_err();
        assert_eq!(
            error,
            "the engine's data is of format 2, this program has 1"
        );
        for strange in [
            "",
            "diolkos",
            "diolkos 1",
            "diolkos 1 FF",
            "kubernetes 1 00000000000000ff",
            "diolkos 1 00000000000000ff x",
        ] {
            assert!(
                data_name(strange.as_bytes())
                    .unwrap_err()
                    .contains("not written"),
                "{strange}"
            );
        }
        assert!(data_name(&[0xff]).is_err());
    }
}
