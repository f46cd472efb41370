// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many files the process may have open: queues, maps, programs, links and sockets are files.

use std::io;

/// Raises the limit as far as this process may, and says where it is then.
pub fn open_files() -> io::Result<u64> {
    let mut limit = now()?;
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: the kernel reads one rlimit, which outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
        limit = raised;
    }
    Ok(limit.rlim_cur)
}

/// Says where it is, and leaves it there.
pub fn open_files_now() -> io::Result<u64> {
    Ok(now()?.rlim_cur)
}

fn now() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit, which outlives the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_where_it_is_said_to_be() {
        let limit = super::open_files().expect("there is a limit");
        let told = std::fs::read_to_string("/proc/self/limits").expect("proc is there");
        let line = told.lines().find(|line| line.starts_with("Max open files"));
        let columns: Vec<&str> = line.expect("it is told").split_whitespace().collect();
        assert_eq!(columns[3], limit.to_string());
        assert_eq!(super::open_files_now().expect("there is a limit"), limit);
    }
}
