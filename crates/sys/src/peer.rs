// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::socket_option::{get, Readable};

/// The most groups of a process: `NGROUPS_MAX` of linux/limits.h.
const MOST_GROUPS: usize = 65536;

/// A process, as the kernel identifies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Process number; 0 if it has none in our PID namespace.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// The process that called listen(2) or connect(2) at the other end, as it was at that time (unix(7), SO_PEERCRED).
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    // The function of rustix treats a process without a number here as no process.
    let mut found = [0; size_of::<libc::ucred>()];
    get(socket, Readable::PeerCredentials, &mut found)?;
    let [pid, uid, gid] = [0, 4, 8].map(|at| {
        let number = found[at..].first_chunk().copied().unwrap_or_default();
        u32::from_ne_bytes(number)
    });
    Ok(Peer { pid, uid, gid })
}

/// The supplementary groups of that process, as they were at that time (SO_PEERGROUPS).
pub fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    const LEN: usize = size_of::<libc::gid_t>();
    let mut bytes = vec![0; 32 * LEN];
    let len = loop {
        match get(&socket, Readable::PeerGroups, &mut bytes) {
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE)
                    && bytes.len() < MOST_GROUPS * LEN =>
            {
                bytes.resize(bytes.len() * 2, 0);
            }
            len => break len?,
        }
    };
    let groups = bytes[..len].chunks_exact(LEN);
    Ok(groups
        .filter_map(|gid| gid.first_chunk().copied())
        .map(u32::from_ne_bytes)
        .collect())
}

/// Returns true if the other side has closed the connection, or will send nothing more.
pub fn has_gone(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    let at_once = Timespec::default();
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&at_once)) == Ok(1) && fds[0].revents().intersects(gone)
}

/// The effective user of this process.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    #[test]
    fn this_process_is_its_own_peer() {
        let (one, _other) = UnixStream::pair().expect("a pair of sockets");
        let peer = super::of(&one).expect("a Unix socket has a peer");
        assert_eq!((peer.pid, peer.uid), (std::process::id(), super::own_uid()));
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
    }

    #[test]
    fn its_groups_are_those_of_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair of sockets");
        let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let own = line.expect("there is a line").split_whitespace();
        let mut own: Vec<u32> = own.map(|gid| gid.parse().expect("a number")).collect();
        let mut found = super::groups(&one).expect("a Unix socket has a peer");
        own.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, own);
    }

    #[test]
    fn who_has_closed_the_connection_is_gone() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        assert!(!super::has_gone(&one));
        drop(other);
        assert!(super::has_gone(&one));
    }

    #[test]
    fn a_socket_of_another_kind_has_none() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // Without a peer, the kernel returns an error or the highest user number.
        let uid = super::of(&udp).map(|peer| peer.uid);
        assert!(uid.is_err() || uid.is_ok_and(|uid| uid == u32::MAX));
    }
}
