// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a log of bindings, the oldest first, line by line: plain or compressed by gzip, with those that were rotated
//! away (`FILE.1`, `FILE.2.gz`, `FILE-20261123.gz`).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use diolkos_service::failure::Failure;

/// A longer line is none of ours.
const LONGEST: u64 = 4096;

/// Gives `each` every line of all files. Lines that are too long are given as empty ones.
pub fn lines(
    logs: &[PathBuf],
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut files: Vec<(Vec<u8>, PathBuf)> = Vec::new();
    for log in logs {
        for path in with_rotated(log)? {
            let first = first_line(&path).map_err(|error| unread(&path, &error))?;
            files.push((first, path));
        }
    }
    // A line begins with its time.
    files.sort();
    files.dedup_by(|one, other| one.1 == other.1);
    for (_, path) in &files {
        let mut reader = open(path).map_err(|error| unread(path, &error))?;
        let mut line = Vec::new();
        while next(&mut reader, &mut line).map_err(|error| unread(path, &error))? {
            each(&line)?;
        }
    }
    Ok(())
}

/// The file, and those beside it whose names begin with its name and a dot or a dash.
fn with_rotated(log: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::metadata(log).map_err(|error| unread(log, &error))?;
    let mut found = vec![log.to_owned()];
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(found);
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(folder).map_err(|error| unread(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unread(folder, &error))?;
        let is_rotated = |other: &str| {
            let rest = other.strip_prefix(name)?;
            let rest = rest.strip_suffix(".gz").unwrap_or(rest);
            let number = rest.strip_prefix(['.', '-'])?;
            number
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'-')
                .then_some(())
        };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().and_then(is_rotated).is_some() {
            found.push(log.with_file_name(entry.file_name()));
        }
    }
    Ok(found)
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut reader = BufReader::new(File::open(path)?);
    let is_gzip = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match is_gzip {
        true => Box::new(BufReader::new(MultiGzDecoder::new(reader))),
        false => Box::new(reader),
    })
}

fn first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    next(&mut *open(path)?, &mut line)?;
    Ok(line)
}

/// The next line. False if there is none. One without an end is still being written.
fn next(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let taken = reader.take(LONGEST).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        return Ok(true);
    }
    line.clear();
    if (taken as u64) < LONGEST {
        return Ok(false);
    }
    // The rest of it, in pieces of which none is kept.
    loop {
        let piece = reader.fill_buf()?;
        let end = piece.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(piece.len(), |end| end + 1);
        reader.consume(length);
        if end.is_some() || length == 0 {
            return Ok(true);
        }
    }
}

fn unread(path: &Path, error: &io::Error) -> Failure {
    Failure::run_time(format!("{} cannot be read: {error}", path.display()))
}
