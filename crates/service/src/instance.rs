// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ensures that one process at a time serves a device in a network namespace, and manages the folder for its files.
//!
//! The folder contains `/run/diolkos/NAMESPACE/DEVICE.lock`, beside it the control socket (`.sock`) and the note of changed
//! settings (`.forwarding`), and `ADDRESS.reserved`. Network namespaces share `/run`, so the namespace's number is part of the
//! path. The kernel releases a lock when its process ends; other files of a killed process are replaced or removed by the next
//! start.
//!
//! Only the user who runs the program can change these folders. Where a group may read, other users can pass through the
//! folders, but cannot list them. A user who cannot write to `/run/diolkos` has the same folders in `$XDG_RUNTIME_DIR`. That
//! variable may come from another user's session, so the contents of a folder that other users own or can change are not
//! trusted.

mod find;
mod runtime_directories;

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use diolkos_sys::lock::{HeldLock, Lock};
use diolkos_sys::{namespace, peer};

use crate::error::ServiceError;

pub use find::{find, is_running, others, FoundInstance, Running};

/// The file name extension of reservations.
const RESERVED: &str = "reserved";
const RUN: &str = "/run/diolkos";
/// Attempts to take a lock, and the pause between them: a process that removes leftovers of others holds their locks for a
/// moment.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// The claim of this process to be the only one for a device. Dropping it ends the claim and removes its files.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    name: String,
    lock: Option<Lock>,
}

impl Instance {
    /// Claims a device (or the name of a DNS64). The error names the process that has claimed it already.
    pub fn claim(name: &str) -> Result<Instance, ServiceError> {
        check(name)?;
        for _ in 0..TRIES {
            let folder = folder()?;
            let path = folder.join(format!("{name}.lock"));
            match Lock::take(&path) {
                Ok(Some(lock)) => {
                    remove_dead(&folder);
                    return Ok(Instance {
                        folder,
                        name: name.to_owned(),
                        lock: Some(lock),
                    });
                }
                Ok(None) => thread::sleep(PAUSE),
                // The last process that used the folder has just removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ServiceError::folder(&path, error)),
            }
        }
        let holder = folder()?.join(format!("{name}.lock"));
        let pid =
            HeldLock::find(&holder).and_then(|held| held.map_or(Ok(String::new()), |h| h.pid()));
        Err(ServiceError::Taken {
            name: name.to_owned(),
            pid: pid.unwrap_or_default(),
        })
    }

    /// The path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.name))
    }

    /// Lets other users pass through the folders to a socket that admits them. They can list nothing and open nothing else.
    pub fn let_others_through(&self) -> Result<(), ServiceError> {
        let through = |folder: &Path| -> io::Result<()> {
            let found = fs::symlink_metadata(folder)?;
            // The folder above may belong to another user, who then decides on it.
            if found.uid() == peer::own_uid() {
                fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o700 | 0o011))?;
            }
            Ok(())
        };
        for folder in self.folder.parent().into_iter().chain([&*self.folder]) {
            through(folder).map_err(|e| ServiceError::folder(folder, e))?;
        }
        Ok(())
    }

    /// Leaves a message for processes that wait for the end of this one.
    pub fn leave_word(&self, word: &str) {
        if let Some(Err(error)) = self.lock.as_ref().map(|lock| lock.leave_word(word)) {
            tracing::debug!("cannot record the result for `diolkos stop`: {error}");
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
        drop(self.lock.take());
        // Other processes may use the folder; only an empty folder can be removed.
        let _ = fs::remove_dir(&self.folder);
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

/// Reserves a name in this network namespace, for example an address, among the processes of this user. `None`: another process
/// has reserved it.
pub fn reserve(what: &str) -> Result<Option<Lock>, ServiceError> {
    check(what)?;
    for _ in 0..TRIES {
        let path = folder()?.join(format!("{what}.{RESERVED}"));
        match Lock::take(&path) {
            // The last process that used the folder has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            taken => return taken.map_err(|error| ServiceError::folder(&path, error)),
        }
    }
    Ok(None)
}

/// The folder for this user's instances in this network namespace. It is created if necessary.
pub fn folder() -> Result<PathBuf, ServiceError> {
    let namespace = namespace::cookie().map_err(ServiceError::NamespaceNumber)?;
    let mut refused = None;
    for place in places() {
        let folder = place.join(namespace.to_string());
        match make_both(&place, &folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                refused.get_or_insert((place, error));
            }
            Err(error) => return Err(ServiceError::folder(&place, error)),
        }
    }
    Err(match refused {
        Some((place, error)) => ServiceError::folder(&place, error),
        None => ServiceError::folder(Path::new(RUN), io::ErrorKind::NotFound.into()),
    })
}

/// The objection to the folder above, if there is one: its owner could replace this program's folder.
fn above(place: &Path) -> io::Result<Option<String>> {
    let Some(above) = place.parent().filter(|_| place != Path::new(RUN)) else {
        return Ok(None);
    };
    let link = fs::symlink_metadata(above)?;
    let found = match link.is_symlink() && [0, peer::own_uid()].contains(&link.uid()) {
        true => fs::metadata(above)?,
        false => link,
    };
    let why = match found.uid() {
        uid if uid != 0 && uid != peer::own_uid() => format!("belongs to user {uid}"),
        // In a sticky folder only owners can remove their files, so others may add some.
        _ if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 => {
            "can be changed by other users".to_owned()
        }
        _ => return Ok(None),
    };
    Ok(Some(format!("{} {why}", above.display())))
}

fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|folder| folder.is_absolute());
    let own = own.map(|folder| folder.join("diolkos"));
    [PathBuf::from(RUN)].into_iter().chain(own).collect()
}

/// Creates both folders. The last process that uses a folder removes it, possibly between the two steps, so there are several
/// attempts.
fn make_both(place: &Path, folder: &Path) -> io::Result<()> {
    above(place)?.map_or(Ok(()), refuse)?;
    let mut made = Ok(());
    for _ in 0..TRIES {
        made = make(place).and_then(|()| make(folder));
        match &made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    made
}

/// Creates a folder that only this user can change. Fails if others can change it.
fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    objection(folder, &[peer::own_uid()])?.map_or(Ok(()), refuse)
}

/// The reason why users other than these owners could change the contents of a folder; `None` if they cannot.
fn objection(folder: &Path, owners: &[u32]) -> io::Result<Option<String>> {
    let found = fs::symlink_metadata(folder)?;
    let why = match found.uid() {
        _ if !found.is_dir() => "it is not a folder".to_owned(),
        uid if !owners.contains(&uid) => format!("it belongs to user {uid}"),
        _ if found.mode() & 0o022 != 0 => "other users can write to it".to_owned(),
        _ => return Ok(None),
    };
    Ok(Some(why))
}

fn refuse(why: String) -> io::Result<()> {
    Err(denied(why))
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Checks a name that becomes part of a path.
fn check(name: &str) -> Result<(), ServiceError> {
    let is_plain = |b: u8| b.is_ascii_graphic() && b != b'/';
    match !name.is_empty()
        && !name.starts_with('.')
        && name.len() <= 64
        && name.bytes().all(is_plain)
    {
        true => Ok(()),
        false => Err(ServiceError::Name(name.to_owned())),
    }
}

/// Removes what killed processes left in other network namespaces, which may be gone. Their notes stay: while the namespace
/// exists, the next start in it needs them.
fn remove_dead(own: &Path) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let Some(place) = own.parent() else { return };
    for folder in entries(place).map(|entry| entry.path()) {
        if folder == own {
            continue;
        }
        for lock in entries(&folder).map(|entry| entry.path()) {
            if lock
                .extension()
                .is_some_and(|end| end == "lock" || end == RESERVED)
            {
                if let Ok(Some(_lock)) = Lock::take(&lock) {
                    let _ = fs::remove_file(lock.with_extension("sock"));
                }
            }
        }
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["diolkos0", "dns64", "a.b-c_d"] {
            assert!(check(name).is_ok(), "{name:?}");
        }
        for name in ["", "..", "../x", "a/b", "a b", "a\0b", ".hidden"] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        let folder = std::env::temp_dir().join(format!("diolkos-folder-{}", std::process::id()));
        make(&folder).expect("it is made");
        make(&folder).expect("it is there");
        let mode = fs::metadata(&folder).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("it is ours");
        assert!(make(&folder).is_err());
        fs::remove_dir(&folder).expect("it is empty");
        std::os::unix::fs::symlink("/", &folder).expect("a link");
        assert!(make(&folder).is_err());
        fs::remove_file(&folder).expect("it is there");
    }
}
