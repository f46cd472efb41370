// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos-cni chain` and `unchain`: put this plugin at the end of a node's list of plugins, or take it out. For nodes on which
//! only the network's own installer writes that file, again at each of its starts.

use std::fs;
use std::io;
use std::os::unix::fs::{chown, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{access, Access};
use serde_json::{json, Value};

use crate::config::Config;
use crate::error::CniError;

const TYPE: &str = "diolkos-cni";
/// Without an end that runtimes look for.
const NEW: &str = ".diolkos-cni.new";

/// Makes this plugin the last of the list that runtimes use, with these keys. Returns what was done. With the folder that has the
/// runtime's plugins, it first looks there for this plugin and for the first one of the list: a list with a plugin that the runtime
/// does not find keeps every pod from starting.
pub fn chain(folder: &Path, keys: &str, programs: Option<&Path>) -> Result<String, CniError> {
    let path = in_use(folder)?;
    let mut list = read(&path)?;
    let entry = entry(keys, &list)?;
    let plugins = plugins(&mut list).ok_or_else(|| {
        wrong(
            &path,
            "it has no list of plugins; make it a .conflist".to_owned(),
        )
    })?;
    let first = plugins.iter().find_map(|plugin| plugin["type"].as_str());
    if let Some(programs) = programs {
        for name in [Some(TYPE), first].into_iter().flatten() {
            let program = programs.join(name);
            if access(&program, Access::EXEC_OK).is_err() {
                return Err(CniError::Configuration(format!(
                    "{} is no program, so {} stays as it is; name the folder in which your runtime looks for plugins",
                    program.display(),
                    path.display()
                )));
            }
        }
    }
    let before = plugins.clone();
    plugins.retain(|plugin| plugin["type"] != TYPE);
    plugins.push(entry);
    if *plugins == before {
        return Ok(format!("{} is as it should be", path.display()));
    }
    write(&path, &list)?;
    Ok(format!(
        "{} is changed: it applies to new pods",
        path.display()
    ))
}

/// Takes this plugin out of all lists: another one may have become the first since. Returns what was done.
pub fn unchain(folder: &Path) -> Result<String, CniError> {
    let mut changed = Vec::new();
    for path in files(folder)? {
        // What cannot be read as a list does not have it.
        let Ok(mut list) = read(&path) else { continue };
        let Some(plugins) = plugins(&mut list) else {
            continue;
        };
        let before = plugins.len();
        plugins.retain(|plugin| plugin["type"] != TYPE);
        if plugins.len() != before {
            write(&path, &list)?;
            changed.push(path.display().to_string());
        }
    }
    Ok(match changed.is_empty() {
        true => format!("no list in {} has {TYPE}", folder.display()),
        false => format!("{} changed: new pods get no CLAT", changed.join(", ")),
    })
}

fn wrong(path: &Path, why: String) -> CniError {
    CniError::Configuration(format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<Value, CniError> {
    let text = fs::read_to_string(path).map_err(|e| CniError::system("cannot read", path, e))?;
    serde_json::from_str(&text).map_err(|e| wrong(path, e.to_string()))
}

fn plugins(list: &mut Value) -> Option<&mut Vec<Value>> {
    list.get_mut("plugins")?.as_array_mut()
}

/// Replaces a list. A runtime that reads meanwhile finds the old file or the new one; who may read it stays.
fn write(path: &Path, list: &Value) -> Result<(), CniError> {
    let new = path.with_file_name(NEW);
    let done = fs::metadata(path).and_then(|old| {
        fs::write(&new, format!("{list:#}\n"))?;
        let made = fs::metadata(&new)?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            chown(&new, Some(old.uid()), Some(old.gid()))?;
        }
        fs::set_permissions(&new, old.permissions())?;
        fs::rename(&new, path)
    });
    done.map_err(|e| CniError::system("cannot write", path, e))
}

/// The file that runtimes use: the first by its name.
fn in_use(folder: &Path) -> Result<PathBuf, CniError> {
    files(folder)?.into_iter().min().ok_or_else(|| {
        let none = io::Error::other("it has no configuration of a network");
        CniError::system("cannot read", folder, none)
    })
}

/// Those that runtimes look at.
fn files(folder: &Path) -> Result<Vec<PathBuf>, CniError> {
    let entries = fs::read_dir(folder).map_err(|e| CniError::system("cannot read", folder, e))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let are_read = paths.filter(|path| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("conf" | "conflist" | "json"))
    });
    Ok(are_read.collect())
}

/// An entry with keys that ADD will accept.
fn entry(keys: &str, list: &Value) -> Result<Value, CniError> {
    let clat: Value = serde_json::from_str(keys).map_err(CniError::Input)?;
    let whole = json!({"cniVersion": list["cniVersion"], "name": list["name"], "clat": clat});
    Config::read(whole.to_string().as_bytes())?;
    Ok(json!({"type": TYPE, "clat": clat}))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LIST: &str =
        r#"{"cniVersion": "1.0.0", "name": "pods", "new": [1], "plugins": [{"type": "ptp"}]}"#;

    #[test]
    fn the_first_list_gets_it_once() {
        let folder = std::env::temp_dir().join(format!("diolkos-chain-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        assert!(chain(&folder, "{}", None).is_err(), "there is no list");
        let (first, second) = (folder.join("10-a.conflist"), folder.join("20-b.conflist"));
        for path in [&first, &second] {
            fs::write(path, LIST).expect("a file");
        }
        let read = |path| -> Value {
            let text = fs::read_to_string(path).expect("it is there");
            serde_json::from_str(&text).expect("it is JSON")
        };
        let keys = r#"{"pref64": "64:ff9b::/96"}"#;
        for wrong in ["", "[]", r#"{"pref46": 1}"#] {
            assert!(chain(&folder, wrong, None).is_err(), "{wrong}");
        }
        assert!(chain(&folder, "{}", None)
            .expect("a list")
            .contains("changed"));
        assert!(chain(&folder, keys, None)
            .expect("a list")
            .contains("changed"));
        assert!(chain(&folder, keys, None)
            .expect("a list")
            .contains("should be"));
        let chained = read(&first);
        assert_eq!(chained["new"], json!([1]));
        let expected = json!([{"type": "ptp"}, {"type": TYPE, "clat": {"pref64": "64:ff9b::/96"}}]);
        assert_eq!(chained["plugins"], expected);
        // The last one of an earlier time is not the first any more.
        fs::copy(&first, &second).expect("a file");
        let both = unchain(&folder).expect("lists");
        assert!(both.contains("10-a") && both.contains("20-b"), "{both}");
        assert!(unchain(&folder).expect("lists").starts_with("no list"));
        for path in [&first, &second] {
            assert_eq!(read(path)["plugins"], json!([{"type": "ptp"}]));
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        fs::write(folder.join("00.conf"), r#"{"type": "ptp"}"#).expect("a file");
        assert!(chain(&folder, keys, None).is_err(), "it is no list");
        fs::remove_dir_all(&folder).expect("it is there");
    }
    #[test]
    fn a_list_keeps_its_mode_and_what_is_no_list_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("diolkos-unchain-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("10-a.conflist");
        for text in ["[]", "\"plugins\"", "5", "{\"plugins\": {}}", "{"] {
            fs::write(&path, text).expect("a file");
            assert!(chain(&folder, "{}", None).is_err(), "{text}");
            unchain(&folder).expect("there is nothing to do");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        fs::write(&path, LIST).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        chain(&folder, "{}", None).expect("a list");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn no_list_names_a_plugin_that_the_runtime_does_not_find() {
        let folder = std::env::temp_dir().join(format!("diolkos-programs-{}", std::process::id()));
        let programs = folder.join("bin");
        fs::create_dir_all(&programs).expect("a folder");
        let path = folder.join("10-a.conflist");
        fs::write(&path, LIST).expect("a file");
        for name in [TYPE, "ptp"] {
            let error = chain(&folder, "{}", Some(&programs)).expect_err(name);
            let missing = programs.join(name);
            assert!(
                error.to_string().starts_with(&*missing.to_string_lossy()),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).expect("it is there"), LIST);
            fs::write(&missing, "").expect("a file");
            // Not yet: it cannot be run.
            assert!(chain(&folder, "{}", Some(&programs)).is_err());
            fs::set_permissions(&missing, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        chain(&folder, "{}", Some(&programs)).expect("both are there");
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
