// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the seeds of every target, one file each, below the folder that is its argument.

use diolkos_fuzz::TARGETS;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("usage: seeds FOLDER"))?;
    for target in TARGETS {
        let folder = folder.join(target.name);
        // Seeds of vectors that are gone would stay.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for (name, seed) in (target.seeds)() {
            fs::write(folder.join(name), seed)?;
        }
    }
    Ok(())
}
