// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The current network namespace, and the names of its interfaces.

use std::io;
use std::os::unix::net::UnixDatagram;

use rustix::net::netdevice::{index_to_name, name_to_index};

use crate::kernel;
use crate::socket_option::{get, Readable};

/// The number of the network namespace, unique until the machine restarts (Linux 5.14 and later). The inode number of a
/// namespace would not do: the kernel reuses it.
pub fn cookie() -> io::Result<u64> {
    // Sockets of every family have this option, and this one needs no address.
    let socket = UnixDatagram::unbound()?;
    let mut cookie = [0; 8];
    get(&socket, Readable::NamespaceCookie, &mut cookie).map_err(explained)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// Explains the error. A kernel that does not know the option returns "Protocol not available"; a system call emulator that
/// does not know its length makes the kernel return "Invalid argument". Neither helps a user.
fn explained(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "Linux {} does not number network namespaces; Linux 5.14 does",
                kernel::release()
            ),
        ),
        Some(libc::EINVAL) => io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the socket option SO_NETNS_COOKIE: {error}; qemu-user does not know it"),
        ),
        _ => error,
    }
}

/// The index of the interface with that name, if there is one.
pub fn interface_index(name: &str) -> Option<u32> {
    name_to_index(UnixDatagram::unbound().ok()?, name).ok()
}

/// The current name of an interface, if it still exists.
pub fn interface_name(index: u32) -> Option<String> {
    index_to_name(UnixDatagram::unbound().ok()?, index).ok()
}

#[cfg(test)]
mod tests {
    use std::io;

    #[test]
    fn who_does_not_know_the_option_is_named() {
        let error = super::explained(io::Error::from_raw_os_error(libc::ENOPROTOOPT));
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().ends_with("Linux 5.14 does"), "{error}");
        let emulated = super::explained(io::Error::from_raw_os_error(libc::EINVAL)).to_string();
        assert!(emulated.contains("SO_NETNS_COOKIE"), "{emulated}");
        let other = super::explained(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(other.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn an_interface_has_a_name_and_an_index() {
        let index = super::interface_index("lo").expect("every namespace has it");
        assert_eq!(super::interface_name(index).as_deref(), Some("lo"));
        assert_eq!(super::interface_index("no such one"), None);
        assert_eq!(super::interface_name(u32::MAX), None);
    }

    #[test]
    fn it_stays_the_same() {
        let first = super::cookie().expect("Linux 5.14 or later");
        assert_ne!(first, 0);
        assert_eq!(super::cookie().expect("as before"), first);
    }
}
