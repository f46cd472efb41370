// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of the state: replaced as a whole or not at all, and read only if nobody else can have read or written it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diolkos_sys::peer;

use super::aside;
use super::format::{self, Head, Malformed, Reader, Salvage};
use crate::failure::Failure;

/// Owner's alone: the secret of the pool is in it.
const MODE: u32 = 0o600;
const READABLE_BY_OTHERS: u32 = 0o044;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Of a buffer, bytes: a system call for some thousand sessions.
const BUFFER: usize = 1 << 17;

/// Where the state is kept.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// What is there is of no use, and nobody's to overwrite: it is put aside when there is something for its place.
    is_in_the_way: bool,
}

/// What an earlier run has left in the file.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A state, which was read to its end.
    Whole(Stored),
    /// Something damaged, or of another version.
    Part(Salvage),
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
            // A new folder lasts once the one above it is written.
            let made = made.and_then(|()| sync_folder_of(folder));
            if let Err(error) = made.or_else(|e| ignore(e, io::ErrorKind::AlreadyExists)) {
                let folder = folder.display();
                return Err(Failure::usage(format!(
                    "the folder {folder} of the state file cannot be made: {error}"
                )));
            }
        }
        Ok(StateFile {
            path: path.to_owned(),
            is_in_the_way: false,
        })
    }

    /// Reads what an earlier run has written. A file that is not ours is refused. Of one that is damaged, or of another
    /// version, only a part can be kept, which is said: a router that begins without sessions is better than none.
    pub fn read(&mut self) -> Result<Found, Failure> {
        let Some(file) = self.open()? else {
            return Ok(Found::Nothing);
        };
        match format::verify(BufReader::with_capacity(BUFFER, &file)) {
            Ok(head) => Ok(Found::Whole(Stored { file, head })),
            // Made by somebody else, for us.
            Err(Malformed::Foreign) if file.metadata().is_ok_and(|m| m.len() == 0) => {
                Ok(Found::Nothing)
            }
            Err(Malformed::Foreign) => Err(self.refused(&Malformed::Foreign.to_string())),
            Err(Malformed::Unreadable(error)) => Err(self.failed("read", &error)),
            Err(error) => {
                (&file).rewind().map_err(|e| self.failed("read", &e))?;
                let kept = format::salvage(BufReader::with_capacity(BUFFER, &file));
                self.is_in_the_way = true;
                tracing::warn!(
                    "the state file {} cannot be used: {error}; its sessions are lost, {kept}",
                    self.path.display()
                );
                Ok(Found::Part(kept))
            }
        }
    }

    /// Puts another state in the place of the one that is there. Whoever looks sees the old or the new one, and after a
    /// power cut, too.
    pub fn replace(
        &mut self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let new = aside::beside(&self.path, ".new");
        let done = self.try_replace(&new, write);
        if done.is_err() {
            let _ = fs::remove_file(&new);
        }
        done.map_err(|error| self.failed("written", &error))
    }

    fn try_replace(
        &mut self,
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
        if self.is_in_the_way {
            aside::keep(&self.path)?;
        }
        fs::rename(new, &self.path)?;
        self.is_in_the_way = false;
        sync_folder_of(&self.path)
    }

    /// Says in the state that is there that it is older than what the kernel has. This takes no room on the disk.
    pub fn mark_outdated(&self) -> Result<(), Failure> {
        let marked = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.write_all_at(&[format::OUTDATED], format::SEAL_AT)?;
            file.sync_all()
        };
        marked().map_err(|error| self.failed("marked as outdated", &error))
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
        if opened.mode() & READABLE_BY_OTHERS != 0 {
            return Err(self.refused(
                "others may read it, and the secret by which addresses are chosen is in it: chmod 600",
            ));
        }
        Ok(Some(file))
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
    pub fn reader(&mut self) -> Result<Reader<BufReader<&File>>, Malformed> {
        self.file.rewind().map_err(Malformed::Unreadable)?;
        let input = BufReader::with_capacity(BUFFER, &self.file);
        Reader::new(input).map(|(reader, _)| reader)
    }
}

impl Found {
    /// The pool's secret, if there is one.
    pub fn secret(&self) -> Option<[u64; 2]> {
        match self {
            Found::Nothing => None,
            Found::Whole(stored) => Some(stored.head.secret),
            Found::Part(kept) => kept.secret,
        }
    }
}

/// What was done in the folder of a path lasts.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
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
    use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
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

    fn head() -> Head {
        Head {
            moment: super::super::Moment::now(),
            clean: true,
            secret: [1, 2],
            pref64: vec![],
        }
    }

    fn write_empty(state: &mut StateFile) {
        state
            .replace(|out| format::Writer::new(out, &head())?.finish())
            .expect("it can be written");
    }

    fn stored(state: &mut StateFile) -> Stored {
        match state.read().expect("it is right") {
            Found::Whole(stored) => stored,
            other => panic!("{other:?}"),
        }
    }

    /// The names in the folder, in order.
    fn names(folder: &Folder) -> Vec<String> {
        let entries = fs::read_dir(&folder.0).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|e| name(e).into_string().expect("ASCII"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_replaced_and_its_owners_alone() {
        let folder = Folder::new("replaced");
        let mut state = folder.state();
        assert!(matches!(state.read(), Ok(Found::Nothing)));
        for _ in 0..2 {
            write_empty(&mut state);
            assert_eq!(stored(&mut state).head.secret, [1, 2]);
            let mode = fs::metadata(&state.path).expect("it is there").mode();
            assert_eq!(mode & 0o777, MODE);
        }
        let failed = state.replace(|_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failed.expect_err("it failed").kind, Kind::RunTime);
        stored(&mut state);
        assert_eq!(names(&folder), ["nat64.state"], "nothing beside it");
    }

    #[test]
    fn it_can_be_marked_in_place() {
        let folder = Folder::new("marked");
        let mut state = folder.state();
        write_empty(&mut state);
        assert!(stored(&mut state).head.clean);
        let before = fs::metadata(&state.path).expect("it is there");
        state.mark_outdated().expect("it can be written");
        let after = fs::metadata(&state.path).expect("it is there");
        assert_eq!((before.ino(), before.len()), (after.ino(), after.len()));
        assert!(!stored(&mut state).head.clean);
    }

    #[test]
    fn a_trap_is_not_followed() {
        let folder = Folder::new("trap");
        let (mut state, victim) = (folder.state(), folder.0.join("victim"));
        fs::write(&victim, "precious").expect("a new file");
        symlink(&victim, folder.0.join("nat64.state.new")).expect("a new link");
        write_empty(&mut state);
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
    fn what_is_not_ours_is_refused() {
        let folder = Folder::new("refused");
        let mut state = folder.state();
        let set = |mode| fs::set_permissions(&state.path, fs::Permissions::from_mode(mode));
        fs::write(&state.path, "root:x:0:0:").expect("a new file");
        set(0o600).expect("it is ours");
        let path = state.path.clone();
        assert_eq!(state.read().expect_err("it is foreign").kind, Kind::Usage);
        for mode in [0o620, 0o602, 0o640, 0o604] {
            write_empty(&mut state);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            let refused = state.read().expect_err("others use it");
            assert_eq!(refused.kind, Kind::Usage);
            assert!(refused.to_string().contains("chmod 600"), "{refused}");
        }
        fs::remove_file(&path).expect("it is there");
        fs::create_dir(&path).expect("a new folder");
        assert_eq!(state.read().expect_err("a folder").kind, Kind::Usage);
    }

    #[test]
    fn what_is_damaged_is_put_aside_under_a_new_name_each_time() {
        let folder = Folder::new("damaged");
        let mut state = folder.state();
        let binding = Binding {
            protocol: Protocol::Udp,
            v4: Endpoint4 {
                addr: [192, 0, 2, 1].into(),
                port: 80,
            },
            v6: Endpoint6 {
                addr: "2001:db8::5".parse().expect("an address"),
                port: 7,
            },
        };
        for (round, name) in ["nat64.state.bad", "nat64.state.bad-2", "nat64.state.bad-3"]
            .into_iter()
            .enumerate()
        {
            state
                .replace(|out| {
                    let mut writer = format::Writer::new(out, &head())?;
                    writer.binding(&binding)?;
                    writer.finish()
                })
                .expect("it can be written");
            let mut bytes = fs::read(&state.path).expect("it is there");
            bytes.truncate(bytes.len() - 1 - round);
            fs::write(&state.path, &bytes).expect("it is ours");
            let Found::Part(kept) = state.read().expect("it is ours") else {
                panic!("it is damaged");
            };
            assert_eq!((kept.bindings, kept.secret), (vec![binding], Some([1, 2])));
            // Nothing can take its place yet: it stays.
            assert!(state
                .replace(|_| Err(io::ErrorKind::StorageFull.into()))
                .is_err());
            assert_eq!(fs::read(&state.path).expect("it is there"), bytes);
            write_empty(&mut state);
            stored(&mut state);
            assert_eq!(fs::read(folder.0.join(name)).expect("it is aside"), bytes);
        }
        assert_eq!(names(&folder).len(), 4);
    }
}
