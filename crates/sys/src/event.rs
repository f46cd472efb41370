// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bell that wakes all threads that wait for a file descriptor.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Once rung, it stays rung (an eventfd that is never read).
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// The reason why [`Bell::wait_readable`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// The descriptor can be read, or has an error that reading will report.
    Readable,
    /// The bell was rung.
    Bell,
    /// Neither: the time is over.
    Nothing,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Wakes all threads that wait now or later.
    pub fn ring(&self) {
        // A full counter (EAGAIN) is a rung bell as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Blocks until `fd` can be read or the bell rings; the bell has precedence. `most` is the longest wait, rounded to whole
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
