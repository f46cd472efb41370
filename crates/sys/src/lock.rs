// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lock that one process has at a time, by a file. The kernel releases it with the process, however that ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock that this process has. Dropped, it is released and its file is gone.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock and writes the number of this process to its file; `None` if another process has it.
    pub fn take(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            let file = options()
                .read(true)
                .write(true)
                .create(true)
                .mode(0o600)
                .open(path)?;
            if !set(&file, libc::F_OFD_SETLK, &mut write_lock())? {
                return Ok(None);
            }
            // Whoever releases a lock removes its file first, which may be the one that was just opened.
            if !is_at(&file, path) {
                continue;
            }
            file.set_len(0)?;
            (&file).write_all(std::process::id().to_string().as_bytes())?;
            let path = path.to_owned();
            return Ok(Some(Lock { path, file }));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a process has the lock: then what it wrote to the file, which is its number. This takes no lock itself, and
/// so is in nobody's way.
pub fn holder(path: &Path) -> io::Result<Option<String>> {
    let file = match options().read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut lock = write_lock();
    set(&file, libc::F_OFD_GETLK, &mut lock)?;
    if libc::c_int::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(20).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Neither a link nor a pipe can lead or hold up whoever opens it.
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

fn write_lock() -> libc::flock {
    // SAFETY: all zeros is a valid flock: of the whole file, as locks of open files demand.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock
}

/// False if another process has the lock.
fn set(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<bool> {
    // SAFETY: the descriptor is open, and `lock` outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, lock as *mut libc::flock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("diolkos-lock-{}-{name}", std::process::id()))
    }

    #[test]
    fn one_has_it_at_a_time() {
        let path = path("one");
        assert_eq!(holder(&path).expect("no file is no error"), None);
        let lock = Lock::take(&path).expect("a file").expect("free");
        assert!(Lock::take(&path).expect("a file").is_none());
        let own = std::process::id().to_string();
        assert_eq!(holder(&path).expect("a file"), Some(own));
        drop(lock);
        assert!(!path.exists());
        assert!(Lock::take(&path).expect("a file").is_some());
    }

    #[test]
    fn a_file_that_is_left_is_free() {
        let path = path("left");
        fs::write(&path, "4194304 and more than a number").expect("a file");
        assert_eq!(holder(&path).expect("a file"), None);
        let lock = Lock::take(&path).expect("a file").expect("free");
        let own = std::process::id().to_string();
        assert_eq!(holder(&path).expect("a file"), Some(own));
        // A file that somebody else has put there is not this one's to remove.
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "").expect("a file");
        drop(lock);
        assert!(path.exists());
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_link_leads_nowhere() {
        let (path, to) = (path("link"), path("to"));
        std::os::unix::fs::symlink(&to, &path).expect("a link");
        assert!(Lock::take(&path).is_err());
        assert!(!to.exists());
        fs::remove_file(&path).expect("it is there");
    }
}
