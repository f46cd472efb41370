// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which network namespace this is, and what its interfaces are called.

use std::io;
use std::os::unix::net::UnixDatagram;

use rustix::net::netdevice::{index_to_name, name_to_index};

use crate::kernel;
use crate::socket_option::{get, Readable};

/// A number that no other network namespace has or will have until the machine starts again (Linux 5.14 and later).
/// The inode of a namespace is no such number: it is given to another one later on.
pub fn cookie() -> io::Result<u64> {
    // Sockets of every family know it, and this one needs no address.
    let socket = UnixDatagram::unbound()?;
    let mut cookie = [0; 8];
    get(&socket, Readable::NamespaceCookie, &mut cookie).map_err(explained)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// A kernel that does not know the option says "Protocol not available", and an emulator of system calls that does not know its
/// length makes the kernel say "Invalid argument". Neither tells a user anything.
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

/// The index of an interface, if there is one of that name.
pub fn interface_index(name: &str) -> Option<u32> {
    name_to_index(UnixDatagram::unbound().ok()?, name).ok()
}

/// What an interface is called now, if it is still there.
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
