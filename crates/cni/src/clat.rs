// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CLAT of a pod: a process of the node in the pod's network namespace.
//!
//! ADD ─► systemd-run, or a process of its own ─► `diolkos-cni run BASE`: lock, record, namespace ─► becomes `diolkos clat`

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use diolkos_sys::lock::Lock;
use diolkos_sys::namespace;
use rustix::process::setsid;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use serde_json::Value;

use crate::attachment::{self, with, Attachment, Record, PAUSE};
use crate::config::Clat;
use crate::error::CniError;

/// The first argument of the second half of ADD.
pub const RUN: &str = "run";
/// Where a node with systemd has its sign (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
const PROGRAM: &str = "diolkos";
const INSTALLED: &str = "/usr/bin/diolkos";
/// For programs of the node. Runtimes may have another one.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Interval between questions whether a CLAT is ready.
const ASK: Duration = Duration::from_millis(100);

/// The exit code of diolkos for options that stay wrong, and of this program for a namespace that is gone.
const WRONG: u8 = 2;
/// That of diolkos for a privilege that it lacks.
const FORBIDDEN: u8 = 3;
/// Those of diolkos-clat@.service; setns(2) needs the last one.
const RIGHTS: &str = "CAP_NET_ADMIN CAP_NET_RAW CAP_BPF CAP_PERFMON CAP_SYS_ADMIN";
/// Attempts to take the lock of a CLAT, each after a [`PAUSE`].
const TRIES: u32 = 50;

/// The program `diolkos`: the one beside this plugin, or the node's. No configuration names another one, because it runs as root.
pub fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    own.map(|own| own.with_file_name(PROGRAM))
        .filter(|beside| beside.exists())
        .unwrap_or_else(|| INSTALLED.into())
}

/// Fails if the program does not run here.
pub fn try_program(program: &Path) -> Result<(), CniError> {
    let tried = command(program).arg("--version").output();
    let why = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let program = program.to_owned();
    Err(CniError::Unavailable { program, why })
}

/// Enters a pod's namespace and returns its number. Refuses the node's.
pub fn enter(path: &Path) -> Result<u64, CniError> {
    let own = number(path)?;
    match enter_any(path)? {
        there if there == own => Err(CniError::environment(
            "CNI_NETNS",
            format!("is the node's own namespace, {}", path.display()),
        )),
        there => Ok(there),
    }
}

/// The same without a look at where this process is: the second half of ADD may be there already.
fn enter_any(path: &Path) -> Result<u64, CniError> {
    let file = File::open(path).map_err(|e| CniError::system("cannot open", path, e))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|e| CniError::system("cannot enter", path, e))?;
    number(path)
}

fn number(path: &Path) -> Result<u64, CniError> {
    namespace::cookie().map_err(|e| CniError::system("cannot number", path, e))
}

/// Starts the CLAT of an attachment, whose record is there, and waits until IPv4 passes. This process is in the pod's namespace.
pub fn start(attachment: &Attachment, record: &Record, clat: &Clat) -> Result<(), CniError> {
    // This attachment has none now.
    if let Some(process) = process(&record.program, &clat.device) {
        let device = &clat.device;
        return Err(CniError::Configuration(format!(
            "another CLAT, process {process}, has {device} in this pod; write another name of an interface for clat.device"
        )));
    }
    let is_supervised = clat.systemd.unwrap_or_else(|| Path::new(BOOTED).exists());
    let unit = format!(
        "diolkos-cni-{}-{}",
        attachment.key.replace(':', "-"),
        std::process::id() // of an earlier one of the same names, systemd may know something yet
    );
    let own = std::env::current_exe()
        .map_err(|e| CniError::system("cannot find", Path::new("/proc/self/exe"), e))?;
    let mut child = match is_supervised {
        true => {
            supervised(&own, attachment, &unit)?;
            None
        }
        false => Some(alone(&own, attachment)?),
    };
    let end = Instant::now() + Duration::from_secs(clat.timeout_s);
    loop {
        let ended = child
            .as_mut()
            .and_then(|child| child.try_wait().ok())
            .flatten();
        // With success: an earlier call, which was killed, has started one that goes on.
        if let Some(status) = ended.filter(|status| !status.success()) {
            let log = fs::read_to_string(attachment.log()).unwrap_or_default();
            let word = log.lines().last().unwrap_or_default();
            return Err(CniError::NotReady(format!(
                "diolkos ended, {status}: {word}"
            )));
        }
        match ask(attachment, &record.program, &clat.device) {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() >= end => {
                let log = match is_supervised {
                    true => format!("; `journalctl --unit {unit}` says more"),
                    false => String::new(),
                };
                return Err(CniError::NotReady(format!("{why}{log}")));
            }
            Err(_) => thread::sleep(ASK),
        }
    }
}

/// Asks the CLAT of an attachment, in its namespace, whether IPv4 passes. The error is what it says instead.
pub fn ask(attachment: &Attachment, program: &Path, device: &str) -> Result<(), String> {
    let Some(holder) = attachment.process() else {
        return Err("it does not run".to_owned());
    };
    let asked = command(program)
        .args(["show", "status", "--device", device])
        .output();
    let output = asked.map_err(|error| error.to_string())?;
    if output.status.success() {
        // The CLAT of another attachment may have this device.
        return match process(program, device) {
            Some(process) if process.to_string() == holder => Ok(()),
            other => Err(format!(
                "process {holder} does not have {device}, but {}",
                other.map_or("nobody".to_owned(), |other| format!("process {other}"))
            )),
        };
    }
    let (said, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // The first line is the state, the next ones what is in the way.
    let said = said.lines().take(2).chain(failed.lines()).map(str::trim);
    Err(said.collect::<Vec<_>>().join("; "))
}

/// The process that has a device of this namespace, if one answers for it.
fn process(program: &Path, device: &str) -> Option<u64> {
    let asked = command(program)
        .args(["show", "status", "--json", "--device", device])
        .output();
    // One that is not ready answers, too.
    let status: Value = serde_json::from_slice(&asked.ok()?.stdout).ok()?;
    status["pid"].as_u64()
}

/// A service of the node's systemd: it has a journal, and is started again if it fails.
fn supervised(own: &Path, attachment: &Attachment, unit: &str) -> Result<(), CniError> {
    let run = Path::new("systemd-run");
    let done = command(run)
        .args(["--quiet", "--collect", &format!("--unit={unit}")])
        .arg("--description=CLAT of a pod")
        .args(["--property=Restart=on-failure", "--property=RestartSec=1"])
        .arg("--property=StartLimitIntervalSec=0")
        .arg(format!(
            "--property=RestartPreventExitStatus={WRONG} {FORBIDDEN}"
        ))
        .arg("--property=NoNewPrivileges=yes")
        .arg(format!("--property=CapabilityBoundingSet={RIGHTS}"))
        .arg(own)
        .args([RUN.as_ref(), attachment.base().as_os_str()])
        .output()
        .map_err(|e| CniError::system("cannot run", run, e))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(CniError::system(
            "cannot start a service with",
            run,
            io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        )),
    }
}

/// A process without a supervisor.
fn alone(own: &Path, attachment: &Attachment) -> Result<Child, CniError> {
    let path = attachment.log();
    let log = File::create(&path).map_err(|e| CniError::system("cannot write", &path, e))?;
    let second = log
        .try_clone()
        .map_err(|e| CniError::system("cannot write", &path, e))?;
    command(own)
        .args([RUN.as_ref(), attachment.base().as_os_str()])
        .stdout(log)
        .stderr(second)
        .spawn()
        .map_err(|e| CniError::system("cannot run", own, e))
}

/// A program of the node, which gets nothing from the runtime.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", SEARCH)
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

/// `diolkos-cni run BASE`: becomes the CLAT of the record, if there is one and it does not run already.
pub fn become_clat(base: &Path) -> ExitCode {
    // The runtime may end all processes of its session.
    let _ = setsid();
    let done = become_recorded(base);
    // As after every call: the last file may have been this one's.
    let _ = base.parent().map(fs::remove_dir);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("diolkos-cni: {error}");
            ExitCode::from(WRONG)
        }
    }
}

/// Returns only if there is nothing to become, or on failure.
fn become_recorded(base: &Path) -> Result<(), CniError> {
    let path = with(base, "pid");
    let failed = |e| CniError::system("cannot lock", &path, e);
    let mut tries = 0;
    let lock = loop {
        match Lock::take(&path) {
            Ok(Some(lock)) => break lock,
            // Another one runs, or finds no record and ends.
            Ok(None) if tries == TRIES => return Ok(()),
            Ok(None) => thread::sleep(PAUSE),
            // The folder went with the last record.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        tries += 1;
    };
    // After the lock: see the head of `attachment`.
    let Some(record) = attachment::record(base) else {
        return Ok(());
    };
    if enter_any(&record.netns)? != record.namespace {
        let netns = record.netns.display();
        return Err(CniError::Damaged(format!(
            "{netns} is another namespace now"
        )));
    }
    let lock = lock.hand_on().map_err(failed)?;
    let error = command(&record.program)
        .args(&record.arguments)
        .stdin(lock)
        .exec();
    Err(CniError::system("cannot run", &record.program, error))
}
