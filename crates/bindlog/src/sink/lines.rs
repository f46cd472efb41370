// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of lines. Log rotation moves it away.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diolkos_sys::file::{append_alone, append_to_regular};

use super::{Sink, AT_ONCE};
use crate::record::Record;
use crate::text;

/// A file of lines.
pub struct Lines {
    path: PathBuf,
    instance: String,
    file: Option<File>,
    /// The file ends with an incomplete line.
    is_torn: bool,
}

impl Lines {
    pub fn new(path: PathBuf, instance: String) -> Lines {
        Lines {
            path,
            instance,
            file: None,
            is_torn: false,
        }
    }

    /// Returns true if the path has another file now, or none: then lines go to the file at the path.
    fn has_moved(&self, file: &File) -> bool {
        match (file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(open), Ok(there)) => (open.dev(), open.ino()) != (there.dev(), there.ino()),
            _ => true,
        }
    }
}

impl Sink for Lines {
    fn open(&mut self) -> io::Result<()> {
        // The path may still have the same file, whose lock excludes a second holder.
        self.file = None;
        self.file = Some(alone(&self.path)?);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        if self.file.as_ref().is_none_or(|file| self.has_moved(file)) {
            self.open()?;
            self.is_torn = false;
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut taken = records.len().min(AT_ONCE);
        loop {
            let mut lines = String::new();
            if self.is_torn {
                lines.push('\n');
            }
            for record in &records[..taken] {
                text::json(record, &self.instance, &mut lines);
            }
            let before = file.metadata()?.len();
            let Err(error) = file.write_all(lines.as_bytes()) else {
                self.is_torn = false;
                return Ok(taken);
            };
            // The records are written again later, so the part that was written before the disk was full must not stay in the
            // file.
            self.is_torn |= file.set_len(before).is_err();
            // There may be room for fewer of them.
            match error.kind() {
                io::ErrorKind::StorageFull if taken > 1 && !self.is_torn => taken /= 2,
                _ => return Err(error),
            }
        }
    }
}

/// Fails if no lines can be written to the file. `is_first`: this process does not write to it yet, and no other process may.
pub fn check(path: &Path, is_first: bool) -> io::Result<()> {
    match is_first {
        true => alone(path).map(drop),
        false => append_to_regular(path).map(drop),
    }
}

fn alone(path: &Path) -> io::Result<File> {
    append_alone(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::WouldBlock,
            format!(
                "another running diolkos writes to it (`fuser -v {}` names it): give each a file of its own \
                 (log.bindings.path)",
                path.display()
            ),
        ),
        _ => error,
    })
}
