// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the text of a configuration file. A wrong path must neither block the program nor fill the memory.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use diolkos_sys::file;

use super::error::ConfigurationError;

/// The longest file, bytes. A mapping takes at most 110 bytes: 1 200 000 mappings fit.
const LARGEST: u64 = 128 << 20;
/// The device number of /dev/null, which many users give for an empty file.
const NULL: u64 = 0x103;

/// Reads a regular file, or a pipe, for whose writer this waits.
pub fn read(path: &Path) -> Result<String, ConfigurationError> {
    let text = open(path).and_then(bounded);
    text.map_err(|error| ConfigurationError::Unreadable {
        path: path.to_owned(),
        source: match error.kind() {
            // Only a file of /proc or the like returns this error.
            ErrorKind::WouldBlock => {
                io::Error::other("it has no end; give a regular file or a pipe")
            }
            _ => error,
        },
    })
}

fn open(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if found.is_file() {
        return file::open_without_waiting(path);
    }
    if found.file_type().is_fifo() || is_null(&found) {
        return File::open(path);
    }
    let what = match (found.is_dir(), found.file_type().is_socket()) {
        (true, _) => "directory",
        (_, true) => "socket",
        _ => "device",
    };
    Err(io::Error::other(format!(
        "it is a {what}; give a regular file or a pipe"
    )))
}

fn is_null(found: &Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == NULL
}

fn bounded(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, to detect a longer file.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let largest = LARGEST >> 20;
        return Err(io::Error::other(format!(
            "it is larger than {largest} MiB; give a smaller file"
        )));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_service::failure::{Classified, Exit};

    fn refusal(path: &str) -> String {
        let failure = read(Path::new(path)).expect_err("it is no configuration");
        assert_eq!(failure.exit(), Exit::Usage);
        let said = failure.to_string();
        assert!(said.contains(path), "{said}");
        said
    }

    #[test]
    fn devices_and_folders_are_refused() {
        assert!(refusal("/dev/zero").ends_with("it is a device; give a regular file or a pipe"));
        assert!(refusal("/proc/self").ends_with("it is a directory; give a regular file or a pipe"));
        assert_eq!(read(Path::new("/dev/null")).expect("it is empty"), "");
        assert!(refusal("/nowhere").ends_with("No such file or directory (os error 2)"));
    }

    #[test]
    fn a_million_mappings_have_room() {
        let longest = "[[eam]]\nv4 = \"203.100.100.100/32\"\nv6 = \"2001:1db8:aaaa:bbbb:cccc:dddd:eeee:ffff/128\"\n\n";
        assert!(1_000_000 * longest.len() as u64 + 10_000 <= LARGEST);
    }

    #[test]
    fn a_file_that_is_too_large_or_no_text_is_refused() {
        let path = std::env::temp_dir().join(format!("diolkos-text-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let name = path.to_str().expect("UTF-8");
        file.set_len(LARGEST + 1).expect("it has holes");
        let large = refusal(name);
        file.set_len(LARGEST).expect("it is shorter");
        assert!(read(&path).is_ok_and(|text| text.len() as u64 == LARGEST));
        fs::write(&path, b"\xff").expect("it is written");
        let binary = refusal(name);
        fs::remove_file(&path).expect("it is there");
        assert!(large.ends_with("it is larger than 128 MiB; give a smaller file"));
        assert!(binary.ends_with("it is not UTF-8 text"));
    }
}
