// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bell that wakes every thread that waits for a file descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Rung once, it stays rung (an eventfd that nobody reads).
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// What ended a [`Bell::wait_readable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// The descriptor can be read, or has an error that reading will report.
    Readable,
    /// The bell was rung.
    Bell,
    /// Neither, for as long as was to be waited.
    Nothing,
}

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: no pointers are passed; a descriptor that is returned is ours alone.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes all who wait now or later.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is valid for its length. A full counter (EAGAIN) is a rung bell too.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Blocks until `fd` can be read or the bell rings; the bell goes first. `most`: not longer than this, in whole
    /// milliseconds.
    pub fn wait_readable(&self, fd: BorrowedFd<'_>, most: Option<Duration>) -> io::Result<Wake> {
        let most = most.map_or(-1, |most| most.as_millis().clamp(1, 1 << 30) as libc::c_int);
        let mut fds = [self.0.as_raw_fd(), fd.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        loop {
            // SAFETY: `fds` is a valid array of its length, borrowed for the call.
            let found = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, most) };
            if found >= 0 {
                return Ok(match (found, fds[0].revents) {
                    (0, _) => Wake::Nothing,
                    (_, 0) => Wake::Readable,
                    (_, _) => Wake::Bell,
                });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}
