// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access rights. Root and the program's own user may do everything; the members of one group, if the operator names one, may
//! read; other users may do nothing. The mode of a socket keeps other users out as well, but the check of the caller decides.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use diolkos_sys::peer::{self, Peer};
use nix::unistd::Group;
use rustix::fs::{setxattr, XattrFlags};

use crate::error::ControlError;

/// The identity of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pid: u32,
    uid: u32,
    is_reader: bool,
}

/// The group whose members may read; `None`: no group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers(Option<u32>);

impl Readers {
    /// The group with this name or number; no group for an empty text.
    pub fn named(group: &str) -> Result<Readers, ControlError> {
        if group.is_empty() {
            return Ok(Readers(None));
        }
        if let Ok(gid) = group.parse() {
            return Ok(Readers(Some(gid)));
        }
        match Group::from_name(group) {
            Ok(Some(found)) => Ok(Readers(Some(found.gid.as_raw()))),
            Ok(None) => Err(ControlError::NoGroup(group.to_owned())),
            Err(error) => Err(ControlError::Groups {
                group: group.to_owned(),
                source: error.into(),
            }),
        }
    }

    /// Returns true if a group may read.
    pub fn are_some(self) -> bool {
        self.0.is_some()
    }

    /// Lets the group and root connect to a socket of this user, and no other user: a translator that serves the figures of a
    /// DNS64 may run as root without the capability to connect to every socket.
    ///
    /// It sets an access control list, since the owner needs no capability for that; the owner of a file can give it only to
    /// groups of their own.
    pub fn admit(self, socket: &Path) -> io::Result<()> {
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        let root = (peer::own_uid() != 0).then_some(0);
        if (root, self.0) == (None, None) {
            return Ok(());
        }
        let acl = acl(root, self.0);
        let set = setxattr(socket, "system.posix_acl_access", &acl, XattrFlags::empty());
        match self.0 {
            Some(_) => set.map_err(io::Error::from),
            // A user namespace may have no root. Elsewhere, root needs the list only if a unit takes its capabilities away.
            None => Ok(()),
        }
    }

    /// The identity of the other end of a connection, as the kernel reports it.
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

/// The access control list with read and write access for the owner, this user and this group, in the kernel's format
/// (linux/posix_acl_xattr.h), little-endian.
fn acl(user: Option<u32>, group: Option<u32>) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    let owner = [(0x01_u16, 6_u16, NOBODY)].into_iter();
    let user = user.map(|uid| (0x02, 6, uid));
    let of_file = (0x04, 0, NOBODY); // the file's group
    let group = group.map(|gid| (0x08, 6, gid));
    let rest = [(0x10, 6, NOBODY), (0x20, 0, NOBODY)]; // the most that these may, and others
    let entries = owner.chain(user).chain([of_file]).chain(group).chain(rest);
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

impl Caller {
    /// The identity of a server, for which no group counts.
    pub fn of(socket: impl AsFd) -> io::Result<Caller> {
        Readers::default().caller(socket)
    }

    /// Its process number; 0 if it has none in our PID namespace.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Its effective user.
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// Returns true for root and the user of this program.
    pub fn is_trusted(self) -> bool {
        self.uid == 0 || self.uid == peer::own_uid()
    }

    /// Returns true if it may read data that is not private.
    pub fn may_read(self) -> bool {
        self.is_trusted() || self.is_reader
    }

    /// A user, for tests.
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
        // Root needs a list entry only for a socket of another user.
        let by_list = if peer::own_uid() == 0 { 0 } else { 0o060 };
        assert_eq!(mode(), 0o600 | by_list);
        Readers(Some(4711)).admit(&path).expect("it is ours");
        // With a list, the group bits of the mode are the upper bound for all groups.
        assert_eq!(mode(), 0o660);
        Readers(None).admit(&path).expect("it is ours");
        // The kernel demands this order: owner, user, the file's group, group, mask, others.
        let tags = |acl: Vec<u8>| acl[4..].chunks(8).map(|entry| entry[0]).collect::<Vec<_>>();
        assert_eq!(
            tags(acl(Some(0), Some(7))),
            [0x01, 0x02, 0x04, 0x08, 0x10, 0x20]
        );
        assert_eq!(tags(acl(Some(0), None)), [0x01, 0x02, 0x04, 0x10, 0x20]);
        fs::remove_file(&path).expect("it is there");
    }
}
