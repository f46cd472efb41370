// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operator's access to the data in etcd: inspect and reset.

use std::sync::Arc;

use crate::client::runtime;
use crate::connection::Connection;
use crate::settings::Settings;
use crate::store::{ask, data_name};
use crate::wire::{delete_below, range_below, transaction};

/// The data of a cluster in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterData {
    /// The version of the member that was asked.
    pub version: String,
    /// The name of the data, or the reason why it has none, for example another format.
    pub name: Result<String, String>,
    /// Each key, except that of the engine's name, with the revision of its last write and its value.
    pub entries: Vec<(String, u64, Vec<u8>)>,
}

/// Reads all data of the cluster. Blocks for at most one deadline for each server. The error is a sentence.
pub fn inspect(settings: &Settings) -> Result<ClusterData, String> {
    let prefix = settings.prefix();
    // A delete of nothing orders the read among the writes.
    let nothing = format!("{prefix}nothing/");
    let body = transaction(&[], &[range_below(&prefix), delete_below(&nothing)], &[]);
    with_connection(settings, async |mut connection| {
        let mut reply = ask(&mut connection, &body).await?;
        let pairs = reply.all(0).ok_or("the engine's answer lacks keys")?;
        let (mut name, mut entries) = (Err("the engine has no name yet".into()), Vec::new());
        for pair in pairs {
            let key = String::from_utf8_lossy(&pair.key).into_owned();
            if key == settings.engine_key() {
                name = data_name(&pair.value);
            } else {
                entries.push((key, pair.mod_revision, pair.value));
            }
        }
        Ok(ClusterData {
            version: connection.version.clone(),
            name,
            entries,
        })
    })
}

/// Deletes all data of the cluster, of any format, and returns the number of deleted keys. Running nodes create it
/// again, under another name. Blocks like [`inspect`]. After an error it may have happened nevertheless.
pub fn reset(settings: &Settings) -> Result<u64, String> {
    let body = transaction(&[], &[delete_below(&settings.prefix())], &[]);
    with_connection(settings, async |mut connection| {
        let reply = ask(&mut connection, &body).await?;
        reply
            .deleted(0)
            .ok_or("the engine's answer cannot be read".into())
    })
}

/// Asks the first server that accepts a connection.
fn with_connection<T>(
    settings: &Settings,
    work: impl AsyncFn(Connection) -> Result<T, String>,
) -> Result<T, String> {
    let (servers, settings) = (settings.check(), Arc::new(settings.clone()));
    let servers = servers.map_err(|error| error.to_string())?;
    let runtime = runtime().map_err(|error| error.to_string())?;
    let done = runtime.block_on(async {
        let mut failures = Vec::new();
        for server in &servers {
            match Connection::open(server, &settings).await {
                Ok(connection) => return work(connection).await,
                Err(failure) => failures.push(failure),
            }
        }
        Err(failures.join("; "))
    });
    runtime.shutdown_background();
    done
}
