// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state file in the presence of other files, damaged files, and a full disk.

use super::*;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_service::failure::{Classified, Exit};
use std::os::unix::fs::{symlink, PermissionsExt};

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("diolkos-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Folder(path)
    }

    fn state(&self) -> StateFile {
        StateFile::new(&self.0.join("nat64.state")).expect("a folder that is there")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn head() -> Head {
    Head {
        moment: crate::store::Moment::now(),
        clean: true,
        secret: [1, 2],
        pref64: vec![],
    }
}

fn write_empty(state: &mut StateFile) {
    state
        .replace(|out| format::StateWriter::new(out, &head())?.finish())
        .expect("it can be written");
}

fn stored(state: &mut StateFile) -> Stored {
    match state.read().expect("it is right") {
        StoredState::Whole(stored) => stored,
        other => panic!("{other:?}"),
    }
}

/// Returns the names in the folder, in order.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(&folder.0).expect("a folder");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|e| name(e).into_string().expect("ASCII"))
        .collect();
    names.sort();
    names
}

#[test]
fn it_is_replaced_and_its_owners_alone() {
    let folder = Folder::new("replaced");
    let mut state = folder.state();
    assert!(matches!(state.read(), Ok(StoredState::Nothing)));
    for _ in 0..2 {
        write_empty(&mut state);
        assert_eq!(stored(&mut state).head.secret, [1, 2]);
        let mode = fs::metadata(&state.path).expect("it is there").mode();
        assert_eq!(mode & 0o777, MODE);
    }
    let failed = state.replace(|_| Err(io::ErrorKind::StorageFull.into()));
    assert_eq!(failed.expect_err("it failed").exit(), Exit::RunTime);
    stored(&mut state);
    assert_eq!(names(&folder), ["nat64.state"], "nothing beside it");
}

#[test]
fn it_can_be_marked_in_place() {
    let folder = Folder::new("marked");
    let mut state = folder.state();
    write_empty(&mut state);
    assert!(stored(&mut state).head.clean);
    let before = fs::metadata(&state.path).expect("it is there");
    state.mark_outdated().expect("it can be written");
    let after = fs::metadata(&state.path).expect("it is there");
    assert_eq!((before.ino(), before.len()), (after.ino(), after.len()));
    assert!(!stored(&mut state).head.clean);
}

#[test]
fn a_trap_is_not_followed() {
    let folder = Folder::new("trap");
    let (mut state, victim) = (folder.state(), folder.0.join("victim"));
    fs::write(&victim, "precious").expect("a new file");
    symlink(&victim, folder.0.join("nat64.state.new")).expect("a new link");
    write_empty(&mut state);
    fs::remove_file(&state.path).expect("it is there");
    symlink(&victim, &state.path).expect("a new link");
    let refused = state.read().expect_err("it is a link");
    assert_eq!(refused.exit(), Exit::Usage);
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    assert_eq!(
        fs::read_to_string(&victim).expect("it is there"),
        "precious"
    );
}

#[test]
fn what_is_not_ours_is_refused() {
    let folder = Folder::new("refused");
    let mut state = folder.state();
    let set = |mode| fs::set_permissions(&state.path, fs::Permissions::from_mode(mode));
    fs::write(&state.path, "root:x:0:0:").expect("a new file");
    set(0o600).expect("it is ours");
    let path = state.path.clone();
    assert_eq!(state.read().expect_err("it is foreign").exit(), Exit::Usage);
    for mode in [0o620, 0o602, 0o640, 0o604] {
        write_empty(&mut state);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let refused = state.read().expect_err("others use it");
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("a new folder");
    assert_eq!(state.read().expect_err("a folder").exit(), Exit::Usage);
}

#[test]
fn what_is_damaged_is_put_aside_under_a_new_name_each_time() {
    let folder = Folder::new("damaged");
    let mut state = folder.state();
    let binding = Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: [192, 0, 2, 1].into(),
            port: 80,
        },
        v6: Endpoint6 {
            addr: "2001:db8::5".parse().expect("an address"),
            port: 7,
        },
    };
    for (round, name) in ["nat64.state.bad", "nat64.state.bad-2", "nat64.state.bad-3"]
        .into_iter()
        .enumerate()
    {
        state
            .replace(|out| {
                let mut writer = format::StateWriter::new(out, &head())?;
                writer.binding(&binding)?;
                writer.finish()
            })
            .expect("it can be written");
        let mut bytes = fs::read(&state.path).expect("it is there");
        bytes.truncate(bytes.len() - 1 - round);
        fs::write(&state.path, &bytes).expect("it is ours");
        let StoredState::Part(kept) = state.read().expect("it is ours") else {
            panic!("it is damaged");
        };
        assert_eq!((kept.bindings, kept.secret), (vec![binding], Some([1, 2])));
        // Nothing can replace it yet, so it stays.
        assert!(state
            .replace(|_| Err(io::ErrorKind::StorageFull.into()))
            .is_err());
        assert_eq!(fs::read(&state.path).expect("it is there"), bytes);
        write_empty(&mut state);
        stored(&mut state);
        assert_eq!(fs::read(folder.0.join(name)).expect("it is aside"), bytes);
    }
    assert_eq!(names(&folder).len(), 4);
}

#[test]
fn a_file_without_content_is_told_and_put_aside() {
    for (name, content) in [("empty", vec![]), ("blank", vec![0; 300])] {
        put_aside(&Folder::new(name), &content);
    }
}

/// Puts aside a file with no usable content, such as a power cut leaves.
fn put_aside(folder: &Folder, content: &[u8]) {
    let mut state = folder.state();
    fs::write(&state.path, content).expect("a new file");
    fs::set_permissions(&state.path, fs::Permissions::from_mode(MODE)).expect("it is ours");
    let StoredState::Part(kept) = state.read().expect("it is ours") else {
        panic!("it may have had something in it");
    };
    assert_eq!((kept.bindings, kept.secret), (vec![], None));
    // A file that is not a state is not marked as outdated.
    state.mark_outdated().expect("there is nothing to do");
    assert_eq!(fs::read(&state.path).expect("it is there"), content);
    write_empty(&mut state);
    stored(&mut state);
    assert_eq!(names(folder), ["nat64.state", "nat64.state.bad"]);
}

#[test]
fn what_a_panic_leaves_is_removed_and_nothing_else() {
    let folder = Folder::new("panic");
    let mut state = folder.state();
    write_empty(&mut state);
    let new = folder.0.join("nat64.state.new");
    let replace = |state: &mut StateFile, before: &dyn Fn()| {
        let panics = std::panic::AssertUnwindSafe(|| {
            state.replace(|_| {
                before();
                panic!("in the middle")
            })
        });
        assert!(std::panic::catch_unwind(panics).is_err());
    };
    replace(&mut state, &|| assert!(new.exists()));
    assert_eq!(names(&folder), ["nat64.state"]);
    // A file that another program has put there meanwhile is not ours.
    replace(&mut state, &|| {
        fs::remove_file(&new).expect("it is there");
        fs::write(&new, "of somebody else").expect("a new file");
    });
    assert_eq!(names(&folder), ["nat64.state", "nat64.state.new"]);
    stored(&mut state);
}

#[test]
fn a_folder_in_which_others_could_replace_the_file_is_refused() {
    let folder = Folder::new("folder");
    let set = |mode| {
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    for mode in [0o702, 0o720, 0o777, 0o2775] {
        set(mode);
        let refused = StateFile::new(&folder.0.join("nat64.state")).expect_err("others write");
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains("chmod go-w"), "{refused}");
    }
    for mode in [0o700, 0o755, 0o1777] {
        set(mode);
        folder.state();
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let folder = Folder::new("gone");
    let mut state = folder.state();
    assert!(state.is_gone());
    write_empty(&mut state);
    assert!(!state.is_gone());
    fs::remove_dir_all(&folder.0).expect("it is there");
    assert!(state.is_gone());
}
