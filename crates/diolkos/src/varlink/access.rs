// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who may do what. Root and the program's own user may do everything; the members of one group, if the operator names one,
//! may read; nobody else may do anything. The mode of a socket lets nobody else in either, but it is not what decides.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use diolkos_sys::peer::{self, Peer};
use nix::unistd::Group;
use rustix::fs::{setxattr, XattrFlags};

use diolkos_service::failure::Failure;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pid: u32,
    uid: u32,
    is_reader: bool,
}

/// Whose members may read; `None`: nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers(Option<u32>);

impl Readers {
    /// The group with this name, or this number; of an empty text, nobody.
    pub fn named(group: &str) -> Result<Readers, Failure> {
        if group.is_empty() {
            return Ok(Readers(None));
        }
        if let Ok(gid) = group.parse() {
            return Ok(Readers(Some(gid)));
        }
        match Group::from_name(group) {
            Ok(Some(found)) => Ok(Readers(Some(found.gid.as_raw()))),
            Ok(None) => Err(Failure::usage(format!(
                "control.group: there is no group `{group}`: create it (groupadd --system {group}), or name another one"
            ))),
            Err(error) => Err(Failure::run_time(format!(
                "control.group: the group `{group}` cannot be looked up: {error}"
            ))),
        }
    }

    /// Whether there may be any.
    pub fn are_some(self) -> bool {
        self.0.is_some()
    }

    /// Lets them connect to a socket of this user, and nobody else.
    ///
    /// An access control list does it, since its owner may set one without a capability; the owner of a file may give it to
    /// no group but his own.
    pub fn admit(self, socket: &Path) -> io::Result<()> {
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        let Some(gid) = self.0 else { return Ok(()) };
        setxattr(
            socket,
            "system.posix_acl_access",
            &acl(gid),
            XattrFlags::empty(),
        )
        .map_err(io::Error::from)
    }

    /// Who is at the other end of a connection, as the kernel vouches for him.
    pub fn caller(self, socket: impl AsFd) -> io::Result<Caller> {
        let Peer { pid, uid, gid } = peer::of(&socket)?;
        let is_reader = match self.0 {
            None => false,
            Some(readers) => gid == readers || peer::groups(&socket)?.contains(&readers),
        };
        Ok(Caller {
            pid,
            uid,
            is_reader,
        })
    }
}

/// Read and write for the owner and this group: the kernel's own form (linux/posix_acl_xattr.h), little-endian.
fn acl(gid: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NOBODY), // the owner
        (0x04, 0, NOBODY), // the file's group
        (0x08, 6, gid),
        (0x10, 6, NOBODY), // the most that groups may
        (0x20, 0, NOBODY), // others
    ];
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

impl Caller {
    /// Of a server: nobody reads there.
    pub fn of(socket: impl AsFd) -> io::Result<Caller> {
        Readers::default().caller(socket)
    }

    /// Of the process; 0 if it has no number in our namespace of processes.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Effective user.
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// Root, or the user of this program.
    pub fn is_trusted(self) -> bool {
        self.uid == 0 || self.uid == peer::own_uid()
    }

    /// May read what is not private.
    pub fn may_read(self) -> bool {
        self.is_trusted() || self.is_reader
    }

    #[cfg(test)]
    pub fn user(uid: u32) -> Caller {
        Caller {
            pid: 1,
            uid,
            is_reader: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_group_has_a_name_or_a_number() {
        assert_eq!(Readers::named("").ok(), Some(Readers(None)));
        assert_eq!(Readers::named("root").ok(), Some(Readers(Some(0))));
        assert_eq!(Readers::named("4711").ok(), Some(Readers(Some(4711))));
        let message = Readers::named("no-such-group").expect_err("there is none");
        assert!(message.to_string().contains("`no-such-group`"), "{message}");
    }

    #[test]
    fn members_read_and_nobody_else() {
        let (one, _other) = UnixStream::pair().expect("a pair of sockets");
        let own = rustix::process::getegid().as_raw();
        for (readers, is_reader) in [(Some(own), true), (Some(own + 7), false), (None, false)] {
            let caller = Readers(readers).caller(&one).expect("it has a peer");
            assert_eq!(caller.is_reader, is_reader, "{readers:?}");
            assert!(caller.is_trusted() && caller.may_read());
        }
        let mut stranger = Caller::user(peer::own_uid() + 1);
        assert!(!stranger.is_trusted() && stranger.may_read());
        stranger.is_reader = false;
        assert!(!stranger.may_read());
    }

    #[test]
    fn a_socket_is_closed_unless_it_has_readers() {
        let path = std::env::temp_dir().join(format!("diolkos-access-{}", std::process::id()));
        let _listener = UnixListener::bind(&path).expect("it is free");
        let mode = || {
            let found = fs::metadata(&path).expect("it is there");
            found.permissions().mode() & 0o777
        };
        Readers(None).admit(&path).expect("it is ours");
        assert_eq!(mode(), 0o600);
        Readers(Some(4711)).admit(&path).expect("it is ours");
        // With a list, the bits of the group are the most that any group may.
        assert_eq!(mode(), 0o660);
        Readers(None).admit(&path).expect("it is ours");
        fs::remove_file(&path).expect("it is there");
    }
}
