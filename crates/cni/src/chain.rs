// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos-cni chain` and `unchain`: put this plugin at the end of a node's list of plugins, or take it out. For nodes on which
//! nobody but the network's own installer writes that file, again at each of its starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use crate::config::Config;
use crate::error::CniError;

const TYPE: &str = "diolkos-cni";
/// Without an end that runtimes look for.
const NEW: &str = ".diolkos-cni.new";

/// Makes this plugin the last of the list that runtimes use, with these keys, or takes it out. Returns what was done.
pub fn chain(folder: &Path, clat: Option<&str>) -> Result<String, CniError> {
    let path = in_use(folder)?;
    let wrong = |why: &str| CniError::Configuration(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|e| CniError::system("cannot read", &path, e))?;
    let mut list: Value = serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
    let entry = match clat {
        Some(keys) => Some(entry(keys, &list)?),
        None => None,
    };
    let plugins = list["plugins"].as_array_mut();
    let plugins = plugins.ok_or_else(|| wrong("it has no list of plugins; make it a .conflist"))?;
    let before = plugins.clone();
    plugins.retain(|plugin| plugin["type"] != TYPE);
    plugins.extend(entry);
    if *plugins == before {
        return Ok(format!("{} is as it should be", path.display()));
    }
    let new = folder.join(NEW);
    // A runtime that reads meanwhile finds the old file or the new one.
    fs::write(&new, format!("{list:#}\n"))
        .and_then(|()| fs::rename(&new, &path))
        .map_err(|e| CniError::system("cannot write", &path, e))?;
    Ok(format!(
        "{} is changed: it applies to new pods",
        path.display()
    ))
}

/// The file that runtimes use: the first by its name.
fn in_use(folder: &Path) -> Result<PathBuf, CniError> {
    let failed = |e: io::Error| CniError::system("cannot read", folder, e);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("conf" | "conflist" | "json"))
    });
    files
        .min()
        .ok_or_else(|| failed(io::Error::other("it has no configuration of a network")))
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
    use super::*;

    const LIST: &str =
        r#"{"cniVersion": "1.0.0", "name": "pods", "new": [1], "plugins": [{"type": "ptp"}]}"#;

    #[test]
    fn the_first_list_gets_it_once() {
        let folder = std::env::temp_dir().join(format!("diolkos-chain-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        assert!(chain(&folder, Some("{}")).is_err(), "there is no list");
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
            assert!(chain(&folder, Some(wrong)).is_err(), "{wrong}");
        }
        assert!(chain(&folder, Some("{}"))
            .expect("a list")
            .contains("changed"));
        assert!(chain(&folder, Some(keys))
            .expect("a list")
            .contains("changed"));
        assert!(chain(&folder, Some(keys))
            .expect("a list")
            .contains("should be"));
        let chained = read(&first);
        assert_eq!(chained["new"], json!([1]));
        let expected = json!([{"type": "ptp"}, {"type": TYPE, "clat": {"pref64": "64:ff9b::/96"}}]);
        assert_eq!(chained["plugins"], expected);
        chain(&folder, None).expect("a list");
        assert_eq!(read(&first), read(&second));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        fs::write(folder.join("00.conf"), r#"{"type": "ptp"}"#).expect("a file");
        assert!(chain(&folder, Some(keys)).is_err(), "it is no list");
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
