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
