// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where seeds come from: the packets of `vectors/`, each with its configuration.

use crate::vectors::File;
use diolkos_xlat::Config;
use std::fs;
use std::path::{Path, PathBuf};

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The longest packet that is a seed, bytes. What longer ones show is found by their length alone, and every byte of a
/// seed is one to try changes on.
const LONGEST: usize = 2048;

/// Every packet of the vectors: its name, the configuration, the packet.
pub fn packets() -> Vec<(String, Config, Vec<u8>)> {
    let folder = root().join("vectors");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry of vectors/").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let mut packets = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("a file of vectors/");
        let file: File = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        packets.extend(
            file.vectors
                .into_iter()
                .map(|v| (v.name, v.config.config(), v.input.hex)),
        );
    }
    packets.retain(|(_, _, packet)| (1..=LONGEST).contains(&packet.len()));
    packets
}
