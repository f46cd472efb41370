// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bell that wakes every thread that waits for a file descriptor.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

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
        Ok(Bell(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Wakes all who wait now or later.
    pub fn ring(&self) {
        // A full counter (EAGAIN) is a rung bell too.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Blocks until `fd` can be read or the bell rings; the bell goes first. `most`: not longer than this, in whole
    /// milliseconds.
    pub fn wait_readable(&self, fd: BorrowedFd<'_>, most: Option<Duration>) -> io::Result<Wake> {
        let most = most.map(|most| {
            let ms = most.as_millis().clamp(1, 1 << 30) as i64;
            Timespec {
                tv_sec: ms / 1000,
                tv_nsec: ms % 1000 * 1_000_000,
            }
        });
        let mut fds = [
            PollFd::new(&self.0, PollFlags::IN),
            PollFd::from_borrowed_fd(fd, PollFlags::IN),
        ];
        loop {
            match poll(&mut fds, most.as_ref()) {
                Ok(0) => return Ok(Wake::Nothing),
                Ok(_) if fds[0].revents().is_empty() => return Ok(Wake::Readable),
                Ok(_) => return Ok(Wake::Bell),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
