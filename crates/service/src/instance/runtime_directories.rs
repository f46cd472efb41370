// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folders that a service manager has given to services without privileges: `/run/diolkos-NAME`, which only root can have
//! made. Users other than root search them, too, since a service may allow a group to read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Such a folder, and the user to whom it was given.
pub(super) struct Given {
    /// The folder that a program of that user knows as `$XDG_RUNTIME_DIR/diolkos`.
    pub place: PathBuf,
    pub owner: u32,
}

/// All such folders.
pub(super) fn all() -> Vec<Given> {
    below(Path::new("/run"))
}

fn below(run: &Path) -> Vec<Given> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let given = entries.filter_map(|entry| {
        let is_ours = entry.file_name().to_str()?.starts_with("diolkos-");
        let found = fs::symlink_metadata(entry.path()).ok()?;
        let is_closed = found.is_dir() && found.mode() & 0o022 == 0;
        (is_ours && is_closed).then(|| Given {
            place: entry.path().join("diolkos"),
            owner: found.uid(),
        })
    });
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_others_can_change_were_not_given() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let run = std::env::temp_dir().join(format!("diolkos-given-{}", std::process::id()));
        for (name, mode) in [("diolkos-a", 0o700), ("diolkos-b", 0o777), ("other", 0o700)] {
            let folder = run.join(name);
            fs::create_dir_all(&folder).expect("a folder");
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(&folder, mode).expect("it is ours");
        }
        symlink(run.join("diolkos-a"), run.join("diolkos-c")).expect("a link");
        let found: Vec<PathBuf> = below(&run).into_iter().map(|given| given.place).collect();
        assert_eq!(found, [run.join("diolkos-a/diolkos")]);
        fs::remove_dir_all(&run).expect("it is there");
    }
}
