// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lock file that one process holds at a time. The kernel releases it with the process, however that ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg};
use rustix::fs::{flock, FlockOperation};

/// The most bytes that are read of a file.
const LONGEST: usize = 4096;

/// Covers the whole file, with process number 0, as open file description locks demand.
pub(crate) const WRITE_LOCK: libc::flock = libc::flock {
    l_type: libc::F_WRLCK as libc::c_short,
    l_whence: libc::SEEK_SET as libc::c_short,
    l_start: 0,
    l_len: 0,
    l_pid: 0,
};

/// A lock that this process holds. Dropping it releases the lock and removes its file.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock and writes the number of this process to its file; `None` if another process holds it. Each holder
    /// creates a file of its own, so a [`HeldLock`] lock refers to one holder, and never to the next one.
    pub fn take(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            let file = options()
                .read(true)
                .write(true)
                .create(true)
                .mode(0o600)
                .open(path)?;
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&WRITE_LOCK)) {
                Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
                taken => taken?,
            };
            // A holder that releases the lock removes its file first; that may be the file that was just opened.
            if !is_at(&file, path) {
                continue;
            }
            // A killed holder left this file. It is replaced, because a process that waits for the end of the killed one must
            // not wait for this one.
            if file.metadata()?.len() > 0 {
                fs::remove_file(path)?;
                continue;
            }
            (&file).write_all(std::process::id().to_string().as_bytes())?;
            let path = path.to_owned();
            return Ok(Some(Lock { path, file }));
        }
    }

    /// Leaves a message for processes that wait for the end of this one. See [`HeldLock::word`].
    pub fn leave_word(&self, word: &str) -> io::Result<()> {
        let line = word.split_whitespace().collect::<Vec<_>>().join(" ");
        (&self.file).write_all(format!("\n{line}").as_bytes())
    }

    /// The open file, for a program that this process becomes: the lock lasts as long as that has the file. Its file stays.
    pub fn hand_on(self) -> io::Result<File> {
        let file = self.file.try_clone()?;
        std::mem::forget(self);
        Ok(file)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A lock of the same kind whose file is open for reading only, so its file system can become read-only meanwhile. Fails on a
/// file system without such locks. Dropping it releases the lock and removes its file.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Takes the lock and writes the holder `whose` to its file, if there is room. Returns `Ok(Err(text))` with the text of the
    /// other holder if one has the lock.
    pub fn take(path: &Path, whose: &str) -> io::Result<Result<Claim, String>> {
        loop {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .mode(0o600)
                .open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut bytes = vec![0; LONGEST];
                    let n = file.read_at(&mut bytes, 0)?;
                    return Ok(Err(String::from_utf8_lossy(&bytes[..n]).into_owned()));
                }
                taken => taken?,
            }
            if is_at(&file, path) {
                let open = options().write(true).truncate(true).open(path);
                let _ = open.and_then(|mut file| file.write_all(whose.as_bytes()));
                let path = path.to_owned();
                return Ok(Ok(Claim { path, file }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A lock that a process held when this value was made. Reading it takes no lock, so it disturbs no other process.
#[derive(Debug)]
pub struct HeldLock {
    file: File,
}

impl HeldLock {
    /// `None` if no process has the lock.
    pub fn find(path: &Path) -> io::Result<Option<HeldLock>> {
        let file = match options().read(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let held = HeldLock { file };
        Ok(held.lasts()?.then_some(held))
    }

    /// Returns true if that same process still holds it. Another process that takes the lock later has another file.
    pub fn lasts(&self) -> io::Result<bool> {
        let mut lock = WRITE_LOCK;
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    /// The number of the process, as it wrote it to the file.
    pub fn pid(&self) -> io::Result<String> {
        let text = self.text()?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// The message for processes that wait for its end, if it left one.
    pub fn word(&self) -> io::Result<Option<String>> {
        let text = self.text()?;
        Ok(text.split_once('\n').map(|(_, word)| word.to_owned()))
    }

    fn text(&self) -> io::Result<String> {
        let mut bytes = vec![0; LONGEST];
        let n = self.file.read_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
    }
}

/// The options to open a lock file: a link cannot redirect the opener, and a pipe cannot block it.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

fn is_at(file: &File, path: &Path) -> bool {
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(there)) => inode(file) == inode(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("diolkos-lock-{}-{name}", std::process::id()))
    }

    fn holder(path: &Path) -> Option<String> {
        let held = HeldLock::find(path).expect("no file is no error")?;
        Some(held.pid().expect("a file"))
    }

    #[test]
    fn one_has_it_at_a_time() {
        let path = path("one");
        assert_eq!(holder(&path), None);
        let lock = Lock::take(&path).expect("a file").expect("free");
        assert!(Lock::take(&path).expect("a file").is_none());
        let own = std::process::id().to_string();
        assert_eq!(holder(&path), Some(own));
        drop(lock);
        assert!(!path.exists());
        assert!(Lock::take(&path).expect("a file").is_some());
    }

    #[test]
    fn a_file_that_is_left_is_free() {
        let path = path("left");
        fs::write(&path, "4194304 and more than a number").expect("a file");
        assert_eq!(holder(&path), None);
        let lock = Lock::take(&path).expect("a file").expect("free");
        let own = std::process::id().to_string();
        assert_eq!(holder(&path), Some(own));
        // A file that another process put there must not be removed.
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "").expect("a file");
        drop(lock);
        assert!(path.exists());
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn who_waits_for_one_holder_does_not_wait_for_the_next() {
        let path = path("next");
        for is_killed in [false, true] {
            let first = Lock::take(&path).expect("a file").expect("free");
            let held = HeldLock::find(&path).expect("a file").expect("it is held");
            assert!(held.lasts().expect("a file"));
            let away = path.with_extension("away");
            if is_killed {
                // The kernel releases the lock, but the file stays.
                fs::rename(&path, &away).expect("it is there");
                drop(first);
                fs::rename(&away, &path).expect("it is there");
            } else {
                drop(first);
            }
            let next = Lock::take(&path).expect("a file").expect("free");
            assert!(!held.lasts().expect("a file"), "killed: {is_killed}");
            assert!(holder(&path).is_some());
            drop(next);
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_that_was_handed_on_lasts_as_long_as_its_file() {
        let path = path("handed");
        let lock = Lock::take(&path).expect("a file").expect("free");
        let file = lock.hand_on().expect("it is open");
        let own = std::process::id().to_string();
        assert_eq!(holder(&path), Some(own));
        // The first descriptor is this process's until it becomes another program.
        drop(file);
        assert!(holder(&path).is_some());
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_last_word_is_read_after_the_end() {
        let path = path("word");
        let lock = Lock::take(&path).expect("a file").expect("free");
        let held = HeldLock::find(&path).expect("a file").expect("it is held");
        assert_eq!(held.word().expect("a file"), None);
        lock.leave_word("there is\nno room").expect("a file");
        drop(lock);
        let word = held.word().expect("its file is open");
        assert_eq!(word.as_deref(), Some("there is no room"));
        assert_eq!(held.pid().expect("a file"), std::process::id().to_string());
    }

    #[test]
    fn who_claims_second_hears_who_was_first() {
        let path = path("claim");
        fs::write(&path, "a killed one, with a longer name").expect("a file");
        let first = Claim::take(&path, "the first").expect("a file");
        let first = first.expect("nobody has it");
        let second = Claim::take(&path, "the second").expect("a file");
        assert_eq!(second.expect_err("it is taken"), "the first");
        drop(first);
        assert!(!path.exists());
        assert!(Claim::take(&path, "the second").expect("a file").is_ok());
    }

    #[test]
    fn a_link_leads_nowhere() {
        let (path, to) = (path("link"), path("to"));
        std::os::unix::fs::symlink(&to, &path).expect("a link");
        assert!(Lock::take(&path).is_err());
        assert!(Claim::take(&path, "nobody").is_err());
        assert!(!to.exists());
        fs::remove_file(&path).expect("it is there");
    }
}
