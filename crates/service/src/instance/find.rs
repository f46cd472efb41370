// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the program that runs for a device, and its control socket.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use diolkos_sys::lock::HeldLock;
use diolkos_sys::{namespace, peer};

use super::runtime_directories;
use super::{above, denied, objection, places, RUN};

/// The result of the search for a program.
#[derive(Debug)]
pub enum FoundInstance {
    /// It runs.
    At(Running),
    /// No program runs.
    Nowhere,
    /// Unknown: this user cannot read the folder.
    Closed,
    /// No program runs, except perhaps one in a folder that others own or can change. The text names the folder and says why it
    /// is ignored.
    Ignored(String),
}

/// A program that was running when this value was made.
#[derive(Debug)]
pub struct Running {
    /// Its control socket.
    pub socket: PathBuf,
    /// The user who may answer there besides root and this user: root has given the folder to that user.
    pub owner: Option<u32>,
    /// `None`: this user cannot read the lock, and only a connection shows whether the program runs.
    held: Option<HeldLock>,
}

impl Running {
    /// The program that holds this lock, if one does; its control socket is beside the lock. Fails if this user cannot read the
    /// lock.
    pub fn of(lock: &Path) -> io::Result<Option<Running>> {
        let held = HeldLock::find(lock)?;
        Ok(held.map(|held| Running {
            socket: lock.with_extension("sock"),
            owner: None,
            held: Some(held),
        }))
    }

    /// Returns true if that same process still runs, even if another one has been started since; also true if this user cannot
    /// know.
    pub fn lasts(&self) -> bool {
        // The lock of an open file can always be queried.
        let lasts = |held: &HeldLock| held.lasts().unwrap_or(false);
        self.held.as_ref().is_none_or(lasts)
    }

    /// Its process number; empty if it is not known.
    pub fn pid(&self) -> String {
        let held = self.held.as_ref();
        held.and_then(|held| held.pid().ok()).unwrap_or_default()
    }

    /// The message that it left after its end.
    pub fn word(&self) -> Option<String> {
        self.held
            .as_ref()
            .and_then(|held| held.word().ok().flatten())
    }
}

/// The program with this name that runs in this folder.
fn running(folder: &Path, name: &str, owner: Option<u32>) -> io::Result<Option<Running>> {
    let socket = folder.join(format!("{name}.sock"));
    let held = match HeldLock::find(&folder.join(format!("{name}.lock"))) {
        // A process that can open the lock could also take it, so readers have no access to it; they find a socket beside it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            if !fs::symlink_metadata(&socket)?.file_type().is_socket() {
                return Err(error);
            }
            None
        }
        found => match found? {
            None => return Ok(None),
            held => held,
        },
    };
    Ok(Some(Running {
        socket,
        owner,
        held,
    }))
}

/// Finds the instance of a device in this network namespace.
pub fn find(name: &str) -> FoundInstance {
    let Ok(namespace) = namespace::cookie() else {
        return FoundInstance::Nowhere;
    };
    let namespace = namespace.to_string();
    let found = find_in(&places(), &namespace, name);
    if matches!(found, FoundInstance::At(_)) {
        return found;
    }
    let given = runtime_directories::all();
    let mut given = given.iter().filter_map(|given| {
        let folder = given.place.join(&namespace);
        let owners = [0, given.owner];
        let objects = |folder: &Path| !matches!(objection(folder, &owners), Ok(None));
        if objects(&given.place) || objects(&folder) {
            return None;
        }
        running(&folder, name, Some(given.owner)).ok()?
    });
    given.next().map_or(found, FoundInstance::At)
}

fn find_in(places: &[PathBuf], namespace: &str, name: &str) -> FoundInstance {
    let mut found = FoundInstance::Nowhere;
    for place in places {
        let folder = place.join(namespace);
        let found_here = believed(place, &folder).and_then(|why| match why {
            None => running(&folder, name, None),
            Some(why) => Err(denied(why)),
        });
        match found_here {
            Ok(Some(running)) if running.held.is_some() => return FoundInstance::At(running),
            // It is not known whether this one runs, so a program of this user takes precedence.
            Ok(Some(running)) => found = FoundInstance::At(running),
            Err(_) if matches!(found, FoundInstance::At(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // Errors of the kernel have a number; the others are this program's own.
                if place == Path::new(RUN) && error.raw_os_error().is_some() {
                    found = FoundInstance::Closed;
                } else if !matches!(found, FoundInstance::Closed) {
                    found =
                        FoundInstance::Ignored(format!("{} is ignored: {error}", folder.display()));
                }
            }
            Ok(None) | Err(_) => {}
        }
    }
    found
}

/// The reason why the contents of the folder may be a trap; `None` if only root, this user, or the user to whom root has given
/// `/run/diolkos` can have made them. (The caller also checks which user answers at the socket.) Fails if the folder does not
/// exist.
fn believed(place: &Path, folder: &Path) -> io::Result<Option<String>> {
    let mut owners = vec![0, peer::own_uid()];
    if place == Path::new(RUN) {
        owners.push(fs::symlink_metadata(place)?.uid());
    }
    for folder in [folder, place] {
        let objection = objection(folder, &owners)?;
        if objection.is_some() {
            return Ok(objection);
        }
    }
    above(place)
}

/// Returns true if a program runs for a device in this network namespace, as far as this user can know.
pub fn is_running(name: &str) -> bool {
    matches!(find(name), FoundInstance::At(running) if running.held.is_some())
}

/// The names of other programs that run in this network namespace, with their process numbers.
pub fn others(own: &str) -> Vec<(String, String)> {
    let Ok(namespace) = namespace::cookie() else {
        return Vec::new();
    };
    let entries = places().into_iter().flat_map(|place| {
        let folder = fs::read_dir(place.join(namespace.to_string()));
        folder.into_iter().flatten().flatten()
    });
    let named = entries.filter_map(|entry| {
        let name = entry
            .file_name()
            .to_str()?
            .strip_suffix(".lock")?
            .to_owned();
        let held = HeldLock::find(&entry.path()).ok()??;
        (name != own).then(|| (name, held.pid().unwrap_or_default()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt;

    use diolkos_sys::lock::Lock;

    use super::super::make_both;
    use super::*;

    #[test]
    fn a_lock_in_a_folder_that_others_can_change_is_nobodys() {
        use std::os::unix::fs::PermissionsExt;
        let own = std::env::temp_dir().join(format!("diolkos-believed-{}", std::process::id()));
        let (place, folder) = (own.join("diolkos"), own.join("diolkos/7"));
        DirBuilder::new()
            .mode(0o700)
            .create(&own)
            .expect("it is new");
        let look = || find_in(&[PathBuf::from("/nowhere"), place.clone()], "7", "x");
        assert!(matches!(look(), FoundInstance::Nowhere));
        make_both(&place, &folder).expect("it is made");
        assert!(matches!(look(), FoundInstance::Nowhere));
        let lock = Lock::take(&folder.join("x.lock"));
        let lock = lock.expect("a file").expect("it is free");
        assert!(matches!(look(), FoundInstance::At(running) if running.lasts()));
        for open in [&folder, &place, &own] {
            let set = |mode| fs::set_permissions(open, fs::Permissions::from_mode(mode));
            set(0o777).expect("it is ours");
            match look() {
                FoundInstance::Ignored(why) => assert!(why.contains("other users"), "{why}"),
                found => panic!("{found:?}"),
            }
            set(0o700).expect("it is ours");
        }
        let elsewhere = own.with_extension("link");
        std::os::unix::fs::symlink(&place, &elsewhere).expect("a link");
        let linked = find_in(std::slice::from_ref(&elsewhere), "7", "x");
        assert!(matches!(linked, FoundInstance::Ignored(_)), "{linked:?}");
        fs::remove_file(&elsewhere).expect("it is there");
        assert!(matches!(look(), FoundInstance::At(_)));
        drop(lock);
        assert!(matches!(look(), FoundInstance::Nowhere));
        fs::remove_dir_all(&own).expect("it is there");
    }
}
