// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens files, among them some that deliver data only when there is news.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg};

use crate::lock::WRITE_LOCK;

/// Opens a file so that a read never waits. A file of /proc may have no data for years (kmsg); such a read fails with
/// `WouldBlock`. Files on a disk are read as usual.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Opens a file to append to it, and creates it if necessary (mode 0640). A user who can write to its folder cannot redirect
/// it: the function refuses a symbolic link, a file with a second name (a hard link), and everything that is not a regular
/// file, without waiting for a reader.
pub fn append_to_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match found.nlink() {
        _ if !found.is_file() => refuse("it is no regular file".to_owned()),
        // 0 names: the file has been removed since.
        0 | 1 => Ok(file),
        names => refuse(format!(
            "it has {names} names (hard links), and may be somebody else's file: remove it"
        )),
    }
}

/// As [`append_to_regular`], with a lock: only one caller of this function has the file at a time. Fails with `WouldBlock` if
/// another one has it. On a file system without locks, the file is opened without one.
pub fn append_alone(path: &Path) -> io::Result<File> {
    let file = append_to_regular(path)?;
    match lock(&file) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(file),
    }
}

fn lock(file: &File) -> io::Result<()> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&WRITE_LOCK)) {
        Err(Errno::EAGAIN | Errno::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
        done => Ok(done.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_appends_and_to_no_file_of_two_names() {
        let path = std::env::temp_dir().join(format!("diolkos-append-{}", std::process::id()));
        let first = append_alone(&path).expect("a new file");
        let second = append_alone(&path).expect_err("the first has it");
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        append_to_regular(&path).expect("who does not ask is not refused");
        drop(first);
        append_alone(&path).expect("it is free");
        let other = path.with_extension("other");
        std::fs::hard_link(&path, &other).expect("a second name");
        let refused = append_alone(&path).expect_err("it has two names");
        assert!(refused.to_string().contains("hard links"), "{refused}");
        std::fs::remove_file(&other).expect("it is there");
        append_alone(&path).expect("it has one name");
        std::fs::remove_file(&path).expect("it is there");
    }
}
