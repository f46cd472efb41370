// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on the open files of the process (queues, maps, programs, links and sockets are files) and on its memory.

use std::io;

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Raises the limit on open files as far as this process may, and returns it.
pub fn open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // A process that may not raise the limit goes on with the current one.
    let _ = setrlimit(Resource::Nofile, raised);
    open_files_now()
}

/// Limits the private memory of this process, bytes.
pub fn small(memory: u64) -> io::Result<()> {
    at_most(Resource::Data, memory)
}

/// Keeps this process from writing a core file.
pub fn no_core() -> io::Result<()> {
    at_most(Resource::Core, 0)
}

fn at_most(resource: Resource, most: u64) -> io::Result<()> {
    let before = getrlimit(resource);
    let most = before.maximum.map_or(most, |maximum| maximum.min(most));
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}

/// The limit on open files, unchanged.
pub fn open_files_now() -> io::Result<u64> {
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
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
