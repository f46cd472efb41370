// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of this crate: the state file, and the thread that receives what the fast path opens.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::sync::Arc;

use diolkos_service::error::ServiceError;
use diolkos_service::failure::{Classified, Exit};

/// Why the state of a NAT64 cannot be kept, or followed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum GatewayError {
    /// The folder of the state file does not exist and cannot be created.
    #[error("the folder {folder} of the state file cannot be created: {source}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The state file is not one that this program may trust.
    #[error("the state file {path} is not used: {source}", path = path.display())]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: NotTrusted,
    },
    /// The state file cannot be read or written.
    #[error("the state file {path} cannot be {action}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        action: FileAction,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another program uses the state file.
    #[error(
        "the state file {path} belongs to another running diolkos ({owner}): stop that one, or give each translator a \
         state file of its own (nat64.state)",
        path = path.display()
    )]
    Owned {
        /// The file.
        path: PathBuf,
        /// The other program, in words.
        owner: String,
    },
    /// A write that was requested has failed. Others may have requested the same one.
    #[error(transparent)]
    Write(Arc<GatewayError>),
    /// A write that was requested takes too long; it may still succeed.
    #[error("the state file {path} was not written within {patience_s} s", path = path.display())]
    Slow {
        /// The file.
        path: PathBuf,
        /// The time limit.
        patience_s: u64,
    },
    /// Nothing writes the state any more.
    #[error("the thread that writes the state file has ended")]
    SaverEnded,
    /// The state was not written for the last time.
    #[error("the thread that writes the state file has failed: {} is not up to date", .0.display())]
    SaverFailed(PathBuf),
    /// The sessions that programs open would not be known.
    #[error("can no longer receive what the fast path opens: {0}")]
    Openings(#[source] io::Error),
    /// Nodes cannot ask for bindings.
    #[error("{}", unheard(*address, source))]
    Pcp {
        /// The address of `nat64.pcp.listen`.
        address: Ipv6Addr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// What keeps a PCP server from listening, and what to do.
fn unheard(address: Ipv6Addr, source: &io::Error) -> String {
    let todo = match source.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "give this host the address, or name another one in nat64.pcp.listen"
        }
        io::ErrorKind::AddrInUse => {
            "another program has the port; `ss -lnup 'sport = :5351'` names it"
        }
        _ => "see nat64.pcp.listen",
    };
    format!("cannot listen for PCP at [{address}]:5351: {source}: {todo}")
}

/// An operation on a state file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAction {
    /// Read the state.
    Read,
    /// Replace it by another one.
    Write,
    /// Mark it as older than what the kernel has.
    MarkOutdated,
}

impl fmt::Display for FileAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileAction::Read => "read",
            FileAction::Write => "written",
            FileAction::MarkOutdated => "marked as outdated",
        })
    }
}

/// Why a state file is not used: others could have written it, or could replace it, or it is something else.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotTrusted {
    /// It has other content.
    #[error("it is no state file of diolkos")]
    Foreign,
    /// It is a symbolic link.
    #[error("it is a symbolic link: name the file itself")]
    Link,
    /// It is a folder, a device or the like.
    #[error("it is not a regular file")]
    NotRegular,
    /// Another file took its place meanwhile.
    #[error("it was replaced while it was opened")]
    Replaced,
    /// It belongs to this other user.
    #[error("it belongs to user {0}, who is neither root nor you")]
    Owner(u32),
    /// Others can write to it.
    #[error("other users can write to it: chmod 600")]
    Writable,
    /// Others can read it.
    #[error(
        "other users can read it, and it contains the secret that selects addresses: chmod 600"
    )]
    Readable,
    /// Its folder belongs to another user.
    #[error(
        "its folder {folder} belongs to user {owner}, who is neither root nor you and could replace the file: \
         chown the folder, or name another one",
        folder = folder.display()
    )]
    FolderOwner {
        /// The folder.
        folder: PathBuf,
        /// The number of that user.
        owner: u32,
    },
    /// Others can write to its folder.
    #[error(
        "other users can write to its folder {folder}, and so replace the file: chmod go-w {folder}",
        folder = .0.display()
    )]
    FolderWritable(PathBuf),
}

impl Classified for GatewayError {
    fn exit(&self) -> Exit {
        use GatewayError as E;
        match self {
            E::Folder { .. } | E::NotTrusted { .. } => Exit::Usage,
            E::Write(error) => error.exit(),
            E::Service(error) => error.exit(),
            E::File { .. }
            | E::Owned { .. }
            | E::Slow { .. }
            | E::SaverEnded
            | E::SaverFailed(_)
            | E::Pcp { .. }
            | E::Openings(_) => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use GatewayError as E;
        let full = || io::ErrorKind::StorageFull.into();
        let path = || PathBuf::from("/s/f");
        let file = |action| E::File {
            path: path(),
            action,
            source: full(),
        };
        let cases = [
            (E::Folder { folder: "/s".into(), source: full() }, true, Exit::Usage,
             "the folder /s of the state file cannot be created: no storage space"),
            (E::NotTrusted { path: path(), source: NotTrusted::Link }, true, Exit::Usage,
             "the state file /s/f is not used: it is a symbolic link: name the file itself"),
            (file(FileAction::Read), true, Exit::RunTime, "the state file /s/f cannot be read: no storage space"),
            (file(FileAction::Write), true, Exit::RunTime, "the state file /s/f cannot be written: no storage space"),
            (file(FileAction::MarkOutdated), true, Exit::RunTime,
             "the state file /s/f cannot be marked as outdated: no storage space"),
            (E::Owned { path: path(), owner: "process 1, device nat1".to_owned() }, false, Exit::RunTime,
             "the state file /s/f belongs to another running diolkos (process 1, device nat1): stop that one, or give each \
              translator a state file of its own (nat64.state)"),
            (E::Write(Arc::new(file(FileAction::Write))), true, Exit::RunTime,
             "the state file /s/f cannot be written: no storage space"),
            (E::Slow { path: path(), patience_s: 30 }, false, Exit::RunTime,
             "the state file /s/f was not written within 30 s"),
            (E::SaverEnded, false, Exit::RunTime, "the thread that writes the state file has ended"),
            (E::SaverFailed(path()), false, Exit::RunTime,
             "the thread that writes the state file has failed: /s/f is not up to date"),
            (E::Openings(full()), true, Exit::RunTime, "can no longer receive what the fast path opens: no storage space"),
            (E::Pcp { address: Ipv6Addr::LOCALHOST, source: io::ErrorKind::AddrNotAvailable.into() }, true, Exit::RunTime,
             "cannot listen for PCP at [::1]:5351: address not available: give this host the address, or name another one in \
              nat64.pcp.listen"),
            (E::Pcp { address: Ipv6Addr::LOCALHOST, source: io::ErrorKind::AddrInUse.into() }, true, Exit::RunTime,
             "cannot listen for PCP at [::1]:5351: address in use: another program has the port; `ss -lnup 'sport = :5351'` \
              names it"),
            (ServiceError::Signals(full()).into(), true, Exit::RunTime, "cannot install a signal handler: no storage space"),
        ];
        for (error, has_source, exit, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!(error.exit(), exit, "{error}");
            assert!(!error.is_transient(), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_trusted_says_what_to_do() {
        let folder = || PathBuf::from("/s");
        let cases = [
            (NotTrusted::Foreign, "it is no state file of diolkos"),
            (NotTrusted::NotRegular, "it is not a regular file"),
            (NotTrusted::Replaced, "it was replaced while it was opened"),
            (NotTrusted::Owner(7), "it belongs to user 7, who is neither root nor you"),
            (NotTrusted::Writable, "other users can write to it: chmod 600"),
            (NotTrusted::Readable, "other users can read it, and it contains the secret that selects addresses: chmod 600"),
            (NotTrusted::FolderOwner { folder: folder(), owner: 7 }, "its folder /s belongs to user 7, who is neither root \
              nor you and could replace the file: chown the folder, or name another one"),
            (NotTrusted::FolderWritable(folder()), "other users can write to its folder /s, and so replace the file: chmod \
              go-w /s"),
        ];
        for (reason, sentence) in cases {
            assert_eq!(reason.to_string(), sentence);
        }
    }
}
