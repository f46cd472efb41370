// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of the state: replaced as a whole or not at all, and read only if nobody else can have written it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diolkos_sys::peer;

use super::format::{self, Head, Malformed, Reader};
use crate::failure::Failure;

/// Owner's alone: the secret of the pool is in it.
const MODE: u32 = 0o600;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Of a buffer, bytes: a system call for some thousand sessions.
const BUFFER: usize = 1 << 17;

/// Where the state is kept.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

/// A state that was read to its end.
#[derive(Debug)]
pub struct Stored {
    file: File,
    /// What is known before any entry.
    pub head: Head,
}

impl StateFile {
    /// Makes the folder, if only that is missing.
    pub fn new(path: &Path) -> Result<StateFile, Failure> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            let made = DirBuilder::new().mode(0o700).create(folder);
            if let Err(error) = made.or_else(|e| ignore(e, io::ErrorKind::AlreadyExists)) {
                let folder = folder.display();
                return Err(Failure::usage(format!(
                    "the folder {folder} of the state file cannot be made: {error}"
                )));
            }
        }
        Ok(StateFile {
            path: path.to_owned(),
        })
    }

    /// Reads what an earlier run has written; None if there is nothing. A file that is not ours is refused. One that is
    /// damaged, or of another version, is put aside, which is said: a router that begins without sessions is better than
    /// none.
    pub fn read(&self) -> Result<Option<Stored>, Failure> {
        let Some(file) = self.open()? else {
            return Ok(None);
        };
        match format::verify(BufReader::with_capacity(BUFFER, &file)) {
            Ok(head) => Ok(Some(Stored { file, head })),
            // Made by somebody else, for us.
            Err(Malformed::Foreign) if file.metadata().is_ok_and(|m| m.len() == 0) => Ok(None),
            Err(Malformed::Foreign) => Err(self.refused(&Malformed::Foreign.to_string())),
            Err(Malformed::Unreadable(error)) => Err(self.failed("read", &error)),
            Err(error) => {
                let aside = self.beside(".bad");
                let put = match fs::rename(&self.path, &aside) {
                    Ok(()) => format!("it is {} now", aside.display()),
                    Err(error) => format!("it cannot be put aside ({error})"),
                };
                tracing::warn!(
                    "the state file {} is of no use, {put}; what it had is lost: {error}",
                    self.path.display()
                );
                Ok(None)
            }
        }
    }

    /// Puts another state in the place of the one that is there. Whoever looks sees the old or the new one, and after a
    /// power cut, too.
    pub fn replace(
        &self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let new = self.beside(".new");
        let done = self.try_replace(&new, write);
        if done.is_err() {
            let _ = fs::remove_file(&new);
        }
        done.map_err(|error| self.failed("written", &error))
    }

    fn try_replace(
        &self,
        new: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> io::Result<()> {
        // What a killed run left, or a trap; a link is removed, not followed.
        fs::remove_file(new).or_else(|e| ignore(e, io::ErrorKind::NotFound))?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(new)?;
        let mut out = BufWriter::with_capacity(BUFFER, &file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.sync_all()?;
        fs::rename(new, &self.path)?;
        let folder = self.path.parent().filter(|f| !f.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// The file, if it is one and ours.
    fn open(&self) -> Result<Option<File>, Failure> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read", &error)),
        };
        if found.is_symlink() {
            return Err(self.refused("it is a symbolic link: name the file itself"));
        }
        if !found.is_file() {
            return Err(self.refused("it is not a regular file"));
        }
        let file = File::open(&self.path).map_err(|e| self.failed("read", &e))?;
        let opened = file.metadata().map_err(|e| self.failed("read", &e))?;
        if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
            return Err(self.refused("it was replaced while it was opened"));
        }
        let owner = opened.uid();
        if owner != 0 && owner != peer::own_uid() {
            return Err(self.refused(&format!(
                "it belongs to user {owner}, who is neither root nor you"
            )));
        }
        if opened.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(self.refused("others may write it: chmod 600"));
        }
        Ok(Some(file))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = OsString::from(self.path.file_name().unwrap_or_default());
        name.push(ending);
        self.path.with_file_name(name)
    }

    fn refused(&self, why: &str) -> Failure {
        let path = self.path.display();
        Failure::usage(format!("the state file {path} is not used: {why}"))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Failure {
        let path = self.path.display();
        Failure::run_time(format!("the state file {path} cannot be {what}: {error}"))
    }
}

impl Stored {
    /// Its entries, which are known to be whole.
    pub fn entries(&mut self) -> Result<Reader<BufReader<&File>>, Malformed> {
        self.file.rewind().map_err(Malformed::Unreadable)?;
        let input = BufReader::with_capacity(BUFFER, &self.file);
        Reader::new(input).map(|(reader, _)| reader)
    }
}

fn ignore(error: io::Error, kind: io::ErrorKind) -> io::Result<()> {
    match error.kind() == kind {
        true => Ok(()),
        false => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;
    use std::os::unix::fs::{symlink, PermissionsExt};

    /// A folder of its own, gone in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("diolkos-{}-{name}", std::process::id()));
            fs::create_dir(&path).expect("a new folder");
            Folder(path)
        }

        fn state(&self) -> StateFile {
            StateFile::new(&self.0.join("nat64.state")).expect("a folder that is there")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write_empty(state: &StateFile) {
        let head = Head {
            moment: super::super::Moment::now(),
            clean: false,
            secret: [1, 2, 3, 4],
            pref64: vec![],
        };
        state
            .replace(|out| format::Writer::new(out, &head)?.finish())
            .expect("it can be written");
    }

    #[test]
    fn it_is_replaced_and_its_owners_alone() {
        let folder = Folder::new("replaced");
        let state = folder.state();
        assert!(state.read().expect("nothing is no failure").is_none());
        for _ in 0..2 {
            write_empty(&state);
            let stored = state.read().expect("it is right").expect("it is there");
            assert_eq!(stored.head.secret, [1, 2, 3, 4]);
            let mode = fs::metadata(&state.path).expect("it is there").mode();
            assert_eq!(mode & 0o777, MODE);
        }
        let failed = state.replace(|_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failed.expect_err("it failed").kind, Kind::RunTime);
        assert!(
            state.read().expect("it is right").is_some(),
            "the old one is there"
        );
        let left = fs::read_dir(&folder.0).expect("a folder").count();
        assert_eq!(left, 1, "nothing beside it");
    }

    #[test]
    fn a_trap_is_not_followed() {
        let folder = Folder::new("trap");
        let (state, victim) = (folder.state(), folder.0.join("victim"));
        fs::write(&victim, "precious").expect("a new file");
        symlink(&victim, folder.0.join("nat64.state.new")).expect("a new link");
        write_empty(&state);
        fs::remove_file(&state.path).expect("it is there");
        symlink(&victim, &state.path).expect("a new link");
        let refused = state.read().expect_err("it is a link");
        assert_eq!(refused.kind, Kind::Usage);
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert_eq!(
            fs::read_to_string(&victim).expect("it is there"),
            "precious"
        );
    }

    #[test]
    fn what_is_not_ours_is_refused_and_what_is_damaged_is_put_aside() {
        let folder = Folder::new("faults");
        let state = folder.state();
        fs::write(&state.path, "root:x:0:0:").expect("a new file");
        fs::set_permissions(&state.path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        assert_eq!(state.read().expect_err("it is foreign").kind, Kind::Usage);
        write_empty(&state);
        fs::set_permissions(&state.path, fs::Permissions::from_mode(0o620)).expect("it is ours");
        assert_eq!(state.read().expect_err("others write it").kind, Kind::Usage);
        write_empty(&state);
        let whole = fs::read(&state.path).expect("it is there");
        fs::write(&state.path, &whole[..whole.len() - 1]).expect("it is ours");
        assert!(state.read().expect("no failure").is_none());
        let aside = fs::read(folder.0.join("nat64.state.bad")).expect("it is aside");
        assert_eq!(aside.len(), whole.len() - 1);
        fs::create_dir(&state.path).expect("a new folder");
        assert_eq!(state.read().expect_err("a folder").kind, Kind::Usage);
    }
}
