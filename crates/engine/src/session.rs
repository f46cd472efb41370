// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bucket and the stream of one connection: made if they are missing, and compared with what was known.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};

use crate::names::Names;
use crate::place::{created, Found, Place};
use crate::{Settings, Store};

/// Room in a stored message for what is not its payload.
const HEADERS: usize = 256;

/// The least that JetStream allows. Nothing here uses it: no message has an identifier.
const DUPLICATES: Duration = Duration::from_millis(100);

/// How often a store that seems to have gone backwards is looked at again, and after what time.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Opens or makes the store, and brings `place` up to date. Returns the last sequence that the store ever had. The error is
/// the part of a sentence after the server.
pub(crate) async fn open(
    jetstream: &Context,
    names: &Names,
    settings: &Settings,
    store: Store,
    place: &mut Place,
) -> Result<u64, String> {
    let mut info = get_or_create(jetstream, config(names, settings, store)).await?;
    for _ in 1..LOOKS {
        if place.compare(created(&info), info.state.last_sequence) != Found::Backwards {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        info = get_or_create(jetstream, config(names, settings, store)).await?;
    }
    let (made, last) = (created(&info), info.state.last_sequence);
    match place.compare(made, last) {
        Found::Same => place.accept(made),
        Found::Other | Found::Backwards => place.reset(made),
    }
    Ok(last)
}

fn config(names: &Names, settings: &Settings, store: Store) -> Config {
    let common = Config {
        name: names.stream(store).into(),
        retention: RetentionPolicy::Limits,
        num_replicas: settings.replicas,
        max_messages: -1,
        max_consumers: -1,
        max_message_size: i32::try_from(settings.max_message + HEADERS).unwrap_or(i32::MAX),
        duplicate_window: DUPLICATES,
        ..Config::default()
    };
    match store {
        // On disk: a revision that comes again after a restart would let a stale write pass. What else is here is as
        // `nats kv add` would make it.
        Store::Bucket => Config {
            subjects: vec![format!("{}>", names.bucket_prefix)],
            storage: StorageType::File,
            max_messages_per_subject: 1,
            max_bytes: -1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            ..common
        },
        Store::Bindings => Config {
            subjects: vec![format!("{}*", names.bindings_prefix)],
            storage: StorageType::Memory,
            max_messages_per_subject: -1,
            max_bytes: i64::try_from(settings.stream_bytes).unwrap_or(i64::MAX),
            max_age: settings.stream_age,
            discard: DiscardPolicy::Old,
            ..common
        },
    }
}

async fn get_or_create(jetstream: &Context, config: Config) -> Result<Info, String> {
    let name = config.name.clone();
    let subjects = config.subjects.clone();
    let info = match get(jetstream, &name).await? {
        Some(info) => info,
        None => match jetstream.create_stream(config).await {
            Ok(stream) => stream.cached_info().clone(),
            Err(error) => match error.kind() {
                // Another node was faster, with other settings.
                CreateStreamErrorKind::JetStream(cause)
                    if cause.error_code() == ErrorCode::STREAM_NAME_EXIST =>
                {
                    get(jetstream, &name)
                        .await?
                        .ok_or_else(|| format!("has no stream {name}, and makes none"))?
                }
                CreateStreamErrorKind::JetStream(cause) => {
                    return Err(format!("does not make the stream {name}: {cause}"));
                }
                kind => return Err(format!("does not make the stream {name}: {kind}")),
            },
        },
    };
    suits(&info, &name, &subjects)?;
    Ok(info)
}

/// `None`: there is no such stream.
async fn get(jetstream: &Context, name: &str) -> Result<Option<Info>, String> {
    match jetstream.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(cause)
                if cause.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            GetStreamErrorKind::JetStream(cause)
                if cause.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED =>
            {
                Err("has JetStream switched off".into())
            }
            GetStreamErrorKind::JetStream(cause) => {
                Err(format!("does not open the stream {name}: {cause}"))
            }
            _ => Err(format!("does not open the stream {name}: {error}")),
        },
    }
}

/// A stream of that name with other subjects would swallow what is written, and one with an age would lose entries.
fn suits(info: &Info, name: &str, subjects: &[String]) -> Result<(), String> {
    if info.config.subjects != subjects {
        return Err(format!(
            "has a stream {name} with other subjects; it was not made by diolkos"
        ));
    }
    if info.config.storage == StorageType::File && !info.config.max_age.is_zero() {
        return Err(format!(
            "has a bucket {name} whose entries expire; it was not made by diolkos"
        ));
    }
    Ok(())
}
