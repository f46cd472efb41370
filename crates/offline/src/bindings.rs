// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the bindings that a running NAT64 had, from the output of `diolkos show bindings --json`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use serde::Deserialize;

use super::engine::Engine;
use crate::error::OfflineError;

/// The longest file, bytes: far more than an answer with all bindings.
const LONGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct Shown {
    entries: Vec<Row>,
}

/// A row. The other fields do not matter here.
#[derive(Deserialize)]
struct Row {
    protocol: Protocol,
    v4: Endpoint4,
    v6: Endpoint6,
}

/// Creates every binding of the file. The configuration may contain some of them.
pub fn make(engine: &mut Engine, path: &Path) -> Result<(), OfflineError> {
    for row in read(path)? {
        let Row { protocol, v4, v6 } = row;
        let binding = Binding { protocol, v4, v6 };
        engine.bind(binding).map_err(|why| OfflineError::Binding {
            path: path.to_owned(),
            binding: format!("{protocol} {v4} of {v6}"),
            why: why.to_string(),
        })?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Row>, OfflineError> {
    let unreadable = |source| OfflineError::BindingsUnreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(OfflineError::BindingsTooLong {
            path: path.to_owned(),
            most_mib: LONGEST >> 20,
        });
    }
    let shown: Result<Shown, _> = serde_json::from_slice(&text);
    let shown = shown.map_err(|source| OfflineError::BindingsForeign {
        path: path.to_owned(),
        source,
    })?;
    Ok(shown.entries)
}
