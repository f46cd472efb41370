// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is kept of an attachment, below `/run/cni/diolkos/NETWORK`, so that a reboot forgets it, as it forgets pods:
//!
//! * `CONTAINER:INTERFACE.lock` is held by a call. Calls for one attachment follow each other.
//! * `….json` is the record: what CLAT the attachment has. It is there before the CLAT starts, and goes before the CLAT is ended.
//! * `….pid` is held by the CLAT. Its process reads the record after it takes this lock. A call that removes the record and then
//!   looks for a holder therefore finds the process, or the process finds no record and ends.
//! * `….log` is what a CLAT says that systemd does not supervise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use diolkos_sys::lock::{HeldLock, Lock};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::call::{is_name, Names};
use crate::config::{Config, Valid};
use crate::error::CniError;

const RUN: &str = "/run/cni/diolkos";
/// Time limit for a CLAT to end after SIGTERM, and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a call waits for another one of the same attachment: longer than ADD takes, which ends a CLAT, waits `timeout_s` (120 at
/// most) for the next one, and ends that.
const LONGEST_CALL: Duration = Duration::from_secs(240);
/// Interval between checks.
pub const PAUSE: Duration = Duration::from_millis(20);
/// Attempts to make a file in a folder that others remove when it is empty.
const TRIES: u32 = 5;

/// The CLAT of an attachment.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub struct Record {
    /// The path of the pod's namespace.
    pub netns: PathBuf,
    /// The number of that namespace: a path may lead to another one later.
    pub namespace: u64,
    /// The program `diolkos`.
    pub program: PathBuf,
    /// Its command line.
    pub arguments: Vec<String>,
}

/// An attachment, and the right to change it.
#[derive(Debug)]
pub struct Attachment {
    folder: PathBuf,
    /// Its container and interface, as in names of files.
    pub key: String,
    lock: Option<Lock>,
}

impl Attachment {
    /// Waits for other calls of this attachment.
    pub fn lock(network: &str, names: &Names) -> Result<Attachment, CniError> {
        Attachment::take(&folder(network)?, &key(&names.container, &names.interface))
    }

    fn take(folder: &Path, key: &str) -> Result<Attachment, CniError> {
        let end = Instant::now() + LONGEST_CALL;
        let path = folder.join(format!("{key}.lock"));
        let mut tries = 0;
        loop {
            // The last attachment of a network removes its folder.
            fs::create_dir_all(folder).map_err(|e| CniError::system("cannot make", folder, e))?;
            match Lock::take(&path) {
                Ok(Some(lock)) => {
                    return Ok(Attachment {
                        folder: folder.to_owned(),
                        key: key.to_owned(),
                        lock: Some(lock),
                    })
                }
                Ok(None) if Instant::now() >= end => return Err(CniError::Busy),
                Ok(None) => thread::sleep(PAUSE),
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1
                }
                Err(error) => return Err(CniError::system("cannot lock", &path, error)),
            }
        }
    }

    /// The path of its files without their ends.
    pub fn base(&self) -> PathBuf {
        self.folder.join(&self.key)
    }

    /// The file of what the CLAT says.
    pub fn log(&self) -> PathBuf {
        with(&self.base(), "log")
    }

    /// The CLAT of the attachment; `None` if there is none, or if its record cannot be read.
    pub fn record(&self) -> Option<Record> {
        record(&self.base())
    }

    /// Whether the CLAT's process is there.
    pub fn runs(&self) -> bool {
        matches!(HeldLock::find(&with(&self.base(), "pid")), Ok(Some(_)))
    }

    /// The number of the CLAT's process, if it is there.
    pub fn process(&self) -> Option<String> {
        let held = HeldLock::find(&with(&self.base(), "pid")).ok()??;
        held.pid().ok()
    }

    /// Writes the record, whole or not at all.
    pub fn keep(&self, record: &Record) -> Result<(), CniError> {
        let (path, new) = (with(&self.base(), "json"), with(&self.base(), "new"));
        let text = serde_json::to_vec(record).unwrap_or_default();
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| CniError::system("cannot write", &path, e))
    }

    /// Ends its CLAT, if there is one, and forgets it. The namespace may be gone.
    pub fn clear(&self) -> Result<(), CniError> {
        let base = self.base();
        // First: see the head of this file.
        remove(&with(&base, "json"))?;
        let pid = with(&base, "pid");
        let failed = |e| CniError::system("cannot lock", &pid, e);
        let (begin, mut is_asked) = (Instant::now(), false);
        // Only the holder of the lock may remove its file: a process that starts at this moment may have made it anew.
        let own = loop {
            if let Some(own) = Lock::take(&pid).map_err(failed)? {
                break own;
            }
            let is_late = begin.elapsed() >= PATIENCE;
            if begin.elapsed() >= 2 * PATIENCE {
                return Err(CniError::Busy);
            }
            if let Some(held) = HeldLock::find(&pid).map_err(failed)? {
                if !is_asked || is_late {
                    is_asked = send(&held, if is_late { Signal::KILL } else { Signal::TERM });
                }
            }
            thread::sleep(PAUSE);
        };
        drop(own);
        for end in ["log", "new"] {
            remove(&with(&base, end))?;
        }
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        drop(self.lock.take());
        // Only an empty folder can be removed.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Ends the CLATs of a network whose attachments are gone.
pub fn collect(config: &Config) -> Result<(), CniError> {
    // Without the list, none would be left.
    let valid = config.valid.as_ref().ok_or_else(|| {
        let lacks = "the configuration lacks cni.dev/valid-attachments, which GC needs";
        CniError::Configuration(lacks.to_owned())
    })?;
    let valid: Vec<_> = valid
        .iter()
        .map(|Valid { container, ifname }| key(container, ifname))
        .collect();
    let folder = folder(&config.name)?;
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|e| CniError::system("cannot read", &folder, e))?,
    };
    let mut done = Ok(());
    for entry in entries.flatten() {
        let name = entry.file_name();
        let named = name.to_str().and_then(|name| name.rsplit_once('.'));
        let Some((key, "json" | "pid")) = named else {
            continue;
        };
        if !valid.iter().any(|valid| valid == key) {
            // One that cannot be ended must not keep the others.
            done = done.and(Attachment::take(&folder, key).and_then(|gone| gone.clear()));
        }
    }
    done
}

/// The record of an attachment.
pub fn record(base: &Path) -> Option<Record> {
    let text = fs::read(with(base, "json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A file of an attachment. Names may have dots.
pub fn with(base: &Path, end: &str) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}

fn folder(network: &str) -> Result<PathBuf, CniError> {
    match is_name(network) {
        true => Ok(Path::new(RUN).join(network)),
        false => Err(CniError::Configuration(format!(
            "the configuration: name \"{network}\" is no name of a network"
        ))),
    }
}

fn key(container: &str, interface: &str) -> String {
    format!("{container}:{interface}")
}

fn remove(path: &Path) -> Result<(), CniError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CniError::system("cannot remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Sends a signal to the holder of a lock; false if it cannot be named yet. The number cannot be another process's: the holder has
/// it after the process was opened.
fn send(held: &HeldLock, signal: Signal) -> bool {
    let number = held.pid().ok().and_then(|pid| pid.parse().ok());
    let Some(pid) = number.and_then(Pid::from_raw) else {
        return false;
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    held.lasts().unwrap_or(false) && pidfd_send_signal(process, signal).is_ok()
}
