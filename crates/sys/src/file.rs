// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening files of which some answer only when there is news.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file so that a read never waits. Files of /proc may have nothing to say for years (kmsg); such a read fails
/// with `WouldBlock`. A file on a disk is read as always.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Opens a file to append to it, and makes it if it is not there (0640). Whoever may write to its folder cannot lead us
/// elsewhere: a symbolic link is refused, and so is all that is no regular file, without waiting for a reader of it.
pub fn append_to_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        )),
    }
}
