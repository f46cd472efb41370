// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names beside the state file, and the backup of a file that cannot be used but may be worth keeping.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The mode of the state file: a backup may contain the same secret.
const MODE: u32 = 0o600;
/// Maximum number of backups beside one another.
const MOST: u32 = 1000;

/// Returns the name of a file with another ending, in the same folder.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(ending);
    path.with_file_name(name)
}

/// Gives a file a second name that is not in use, and logs it. The file keeps its first name until another file
/// replaces it, so a run that is killed in between loses nothing.
pub fn keep(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => (there.dev(), there.ino()),
        // The file has been removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for number in 1..=MOST {
        let aside = match number {
            1 => beside(path, ".bad"),
            _ => beside(path, &format!(".bad-{number}")),
        };
        let kept = match fs::hard_link(path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let other = fs::symlink_metadata(&aside)?;
                // A killed run came as far as this.
                match (other.dev(), other.ino()) == there {
                    true => Ok(()),
                    false => Err(error),
                }
            }
            // Not every file system supports hard links.
            Err(_) => copy(path, &aside),
            Ok(()) => Ok(()),
        };
        match kept {
            Ok(()) => {
                tracing::warn!("{} is now {}", path.display(), aside.display());
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "{MOST} files that could not be used lie beside it, as {}: remove them",
        beside(path, ".bad").display()
    )))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(to)?;
    let copied = File::open(from).and_then(|mut from| io::copy(&mut from, &mut copy));
    let copied = copied.and_then(|_| copy.sync_all());
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied
}
