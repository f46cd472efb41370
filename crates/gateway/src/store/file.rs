// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state file. It is replaced as a whole or not at all, and read only if no other user can have read or written it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diolkos_sys::peer;

use super::backup;
use super::format::{self, Head, Malformed, Salvage, StateReader};
use super::owner::Owner;
use crate::error::{FileAction, GatewayError, NotTrusted};

/// Only the owner has access: the file contains the secret of the pool.
const MODE: u32 = 0o600;
const READABLE_BY_OTHERS: u32 = 0o044;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Size of a buffer in bytes: one system call for some thousand sessions.
const BUFFER: usize = 1 << 17;

/// The file in which the state is kept.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// The file that is there is unusable, but must not be overwritten: it is put aside when a new state replaces it.
    is_in_the_way: bool,
    /// Proves that no other running program writes the file; None before [`StateFile::claim`].
    owner: Option<Owner>,
}

/// The result of reading the file of an earlier run.
#[derive(Debug)]
pub enum StoredState {
    /// There is no file.
    Nothing,
    /// A state that was read to its end.
    Whole(Stored),
    /// A file that is damaged, or of another version.
    Part(Salvage),
}

/// A state that was read to its end.
#[derive(Debug)]
pub struct Stored {
    file: File,
    /// The head, which precedes all entries.
    pub head: Head,
}

impl StateFile {
    /// Creates the folder if only its last component is missing. Refuses a folder in which other users could replace
    /// the file.
    pub fn new(path: &Path) -> Result<StateFile, GatewayError> {
        let folder = folder_of(path);
        if folder != Path::new(".") {
            let made = DirBuilder::new().mode(0o700).create(folder);
            // A new folder is durable once its parent has been written.
            let made = made.and_then(|()| sync_folder_of(folder));
            if let Err(source) = made.or_else(|e| ignore(e, io::ErrorKind::AlreadyExists)) {
                let folder = folder.to_owned();
                return Err(GatewayError::Folder { folder, source });
            }
        }
        let file = StateFile {
            path: path.to_owned(),
            is_in_the_way: false,
            owner: None,
        };
        file.check_folder(folder)?;
        Ok(file)
    }

    /// Makes this program the only user of the file, until this is dropped. `device` is for the error message of a
    /// second program. Call it before the file is read.
    pub fn claim(&mut self, device: &str) -> Result<(), GatewayError> {
        self.owner = Some(Owner::claim(&self.path, device)?);
        Ok(())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file has been removed.
    pub fn is_gone(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Reads the file of an earlier run. A file of another owner is refused. Of a file that is damaged, or of another
    /// version, only a part can be kept, and the log says so: a router that begins without sessions is better than
    /// none.
    pub fn read(&mut self) -> Result<StoredState, GatewayError> {
        let Some(file) = self.open()? else {
            return Ok(StoredState::Nothing);
        };
        match format::verify(BufReader::with_capacity(BUFFER, &file)) {
            Ok(head) => Ok(StoredState::Whole(Stored { file, head })),
            // Nothing tells whether the file ever had content, and a user who has lost it has to know.
            Err(Malformed::Foreign) if file.metadata().is_ok_and(|m| m.len() == 0) => {
                Ok(self.damaged("it is empty", Salvage::default()))
            }
            // A power cut can leave such a file, whose blocks were never written.
            Err(Malformed::Foreign) if is_blank(&file) => {
                Ok(self.damaged("it contains only zeros", Salvage::default()))
            }
            Err(Malformed::Foreign) => Err(self.refused(NotTrusted::Foreign)),
            Err(Malformed::Unreadable(error)) => Err(self.failed(FileAction::Read, error)),
            Err(error) => {
                (&file)
                    .rewind()
                    .map_err(|e| self.failed(FileAction::Read, e))?;
                let kept = format::salvage(BufReader::with_capacity(BUFFER, &file));
                Ok(self.damaged(&error.to_string(), kept))
            }
        }
    }

    fn damaged(&mut self, why: &str, kept: Salvage) -> StoredState {
        self.is_in_the_way = true;
        tracing::warn!(
            "the state file {} cannot be used: {why}; its sessions are lost, {kept}",
            self.path.display()
        );
        StoredState::Part(kept)
    }

    /// Replaces the state by another one. A reader sees the old state or the new one, also after a power cut.
    pub fn replace(
        &mut self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), GatewayError> {
        let new = backup::beside(&self.path, ".new");
        let done = self.try_replace(&new, write);
        done.map_err(|error| self.failed(FileAction::Write, error))
    }

    fn try_replace(
        &mut self,
        new: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> io::Result<()> {
        // A killed run or an attacker may have left it; a link is removed, not followed.
        fs::remove_file(new).or_else(|e| ignore(e, io::ErrorKind::NotFound))?;
        let new = New::create(new)?;
        let mut out = BufWriter::with_capacity(BUFFER, &new.file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        new.file.sync_all()?;
        if self.is_in_the_way {
            backup::keep(&self.path)?;
        }
        fs::rename(new.path, &self.path)?;
        self.is_in_the_way = false;
        sync_folder_of(&self.path)
    }

    /// Marks the state in the file as older than what the kernel has. This takes no room on the disk.
    pub fn mark_outdated(&self) -> Result<(), GatewayError> {
        if self.is_in_the_way {
            // It is not a state, and none of its sessions will be restored.
            return Ok(());
        }
        let marked = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.write_all_at(&[format::OUTDATED], format::SEAL_AT)?;
            file.sync_all()
        };
        marked().map_err(|error| self.failed(FileAction::MarkOutdated, error))
    }

    /// Opens the file, if it exists and is ours.
    fn open(&self) -> Result<Option<File>, GatewayError> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(FileAction::Read, error)),
        };
        if found.is_symlink() {
            return Err(self.refused(NotTrusted::Link));
        }
        if !found.is_file() {
            return Err(self.refused(NotTrusted::NotRegular));
        }
        let file = File::open(&self.path).map_err(|e| self.failed(FileAction::Read, e))?;
        let opened = file
            .metadata()
            .map_err(|e| self.failed(FileAction::Read, e))?;
        if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
            return Err(self.refused(NotTrusted::Replaced));
        }
        let owner = opened.uid();
        if owner != 0 && owner != peer::own_uid() {
            return Err(self.refused(NotTrusted::Owner(owner)));
        }
        if opened.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(self.refused(NotTrusted::Writable));
        }
        if opened.mode() & READABLE_BY_OTHERS != 0 {
            return Err(self.refused(NotTrusted::Readable));
        }
        Ok(Some(file))
    }

    /// Refuses a folder to which other users can write, because they could replace the file. The folders above it are
    /// not checked: in a container, their owners may have no user ID there.
    fn check_folder(&self, folder: &Path) -> Result<(), GatewayError> {
        let found = match fs::metadata(folder) {
            Ok(found) if found.is_dir() => found,
            // Reading the file will fail, and report the reason.
            _ => return Ok(()),
        };
        let owner = found.uid();
        if owner != 0 && owner != peer::own_uid() {
            return Err(self.refused(NotTrusted::FolderOwner {
                folder: folder.to_owned(),
                owner,
            }));
        }
        // In a sticky folder only owners remove their files, so others may add some.
        if found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0 {
            return Err(self.refused(NotTrusted::FolderWritable(folder.to_owned())));
        }
        Ok(())
    }

    fn refused(&self, source: NotTrusted) -> GatewayError {
        GatewayError::NotTrusted {
            path: self.path.clone(),
            source,
        }
    }

    fn failed(&self, action: FileAction, source: io::Error) -> GatewayError {
        GatewayError::File {
            path: self.path.clone(),
            action,
            source,
        }
    }
}

/// A file that is to replace the state. If it is dropped before that, by an error or a panic, it is removed.
struct New<'a> {
    path: &'a Path,
    file: File,
}

impl New<'_> {
    fn create(path: &Path) -> io::Result<New<'_>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(MODE).open(path)?;
        Ok(New { path, file })
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        let inode = |found: io::Result<fs::Metadata>| found.map(|f| (f.dev(), f.ino())).ok();
        let own = inode(self.file.metadata());
        if own.is_some() && inode(fs::symlink_metadata(self.path)) == own {
            let _ = fs::remove_file(self.path);
        }
    }
}

impl Stored {
    /// Returns its entries, which are known to be whole.
    pub fn reader(&mut self) -> Result<StateReader<BufReader<&File>>, Malformed> {
        self.file.rewind().map_err(Malformed::Unreadable)?;
        let input = BufReader::with_capacity(BUFFER, &self.file);
        StateReader::new(input).map(|(reader, _)| reader)
    }
}

impl StoredState {
    /// Returns the pool's secret, if there is one.
    pub fn secret(&self) -> Option<[u64; 2]> {
        match self {
            StoredState::Nothing => None,
            StoredState::Whole(stored) => Some(stored.head.secret),
            StoredState::Part(kept) => kept.secret,
        }
    }
}

/// Returns true if a file begins with zeros, and with nothing else for the length of a buffer.
fn is_blank(file: &File) -> bool {
    let mut bytes = vec![0xff; BUFFER];
    let read = file.read_at(&mut bytes, 0);
    read.is_ok_and(|n| bytes[..n].iter().all(|byte| *byte == 0))
}

/// Makes changes in the folder of a path durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn ignore(error: io::Error, kind: io::ErrorKind) -> io::Result<()> {
    match error.kind() == kind {
        true => Ok(()),
        false => Err(error),
    }
}

#[cfg(test)]
mod tests;
