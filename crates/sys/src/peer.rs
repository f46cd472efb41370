// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// A process, as the kernel vouches for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Process; 0 if it has no number in our namespace of processes.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Who called listen(2) or connect(2) at the other end, at that time (unix(7), SO_PEERCRED).
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of_val(&found) as libc::socklen_t;
    // Not by rustix, which takes no process for one that has no number here.
    // SAFETY: the kernel writes at most `len` bytes to `found`; both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut len,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer {
        pid: found.pid as u32,
        uid: found.uid,
        gid: found.gid,
    })
}

/// The supplementary groups of the same process, at the same time (SO_PEERGROUPS).
pub fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut len = (groups.len() * size_of::<libc::gid_t>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `groups`; both outlive the call.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut len,
            )
        };
        let count = len as usize / size_of::<libc::gid_t>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // Then `len` says how many bytes there are; a process has 65536 groups at most.
        match error.raw_os_error() {
            Some(libc::ERANGE) if count > groups.len() => groups.resize(count, 0),
            _ => return Err(error),
        }
    }
}

/// Whether the other side of a connection has closed it, or will send nothing more.
pub fn has_gone(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    let at_once = Timespec::default();
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&at_once)) == Ok(1) && fds[0].revents().intersects(gone)
}

/// The user who runs this process, as others see it.
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
        // The kernel knows nobody and says so with the user that stands for nobody.
        let uid = super::of(&udp).map(|peer| peer.uid);
        assert!(uid.is_err() || uid.is_ok_and(|uid| uid == u32::MAX));
    }
}
