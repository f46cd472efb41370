// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A member of etcd, killed when it goes out of scope, and the folder of a test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

/// A limit that only a hang reaches.
pub const HANGS: Duration = Duration::from_secs(60);

/// A folder for one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let (process, number) = (std::process::id(), number());
        let path = std::env::temp_dir().join(format!("diolkos-etcd-{process}-{number}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Returns another number each time.
pub fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns true if the tests can run, and prints a message if not.
pub fn installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    let found = has("etcd") && has("etcdctl");
    if !found {
        eprintln!("SKIPPED: etcd is not installed (apt install etcd-server etcd-client)");
    }
    found
}

/// Returns a port that is currently unused.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits for a condition, or fails.
pub fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let end = Instant::now() + HANGS;
    while !happens() {
        assert!(Instant::now() < end, "{what}: not within {HANGS:?}");
        sleep(Duration::from_millis(10));
    }
}

/// Runs a command that must succeed. Returns its output.
pub fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {error}");
    String::from_utf8(done.stdout).unwrap()
}

/// A member.
pub struct Member {
    pub name: String,
    /// `host:port` for clients.
    pub address: String,
    /// The folder of its data.
    pub data: PathBuf,
    /// The words before the program, for example for a namespace.
    wrapper: Vec<String>,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Member {
    /// The only member of its cluster, on the loopback interface without encryption.
    pub fn alone(folder: &Folder, more: &[&str]) -> Member {
        let (peer, client) = (free_port(), free_port());
        let peer = format!("http://127.0.0.1:{peer}");
        let mut arguments = urls("m0", "http", &format!("127.0.0.1:{client}"), &peer);
        arguments.push(format!("--initial-cluster=m0={peer}"));
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        let mut member = Member::new(folder, "m0", &format!("127.0.0.1:{client}"), arguments);
        member.start();
        member
    }

    /// A member that does not run yet.
    pub fn new(folder: &Folder, name: &str, address: &str, arguments: Vec<String>) -> Member {
        Member {
            name: name.into(),
            address: address.into(),
            data: folder.path(&format!("data-{name}")),
            wrapper: Vec::new(),
            arguments,
            log: folder.path(&format!("log-{name}")),
            child: None,
        }
    }

    /// Runs it behind another program.
    pub fn behind(mut self, wrapper: &[&str]) -> Member {
        self.wrapper = wrapper.iter().map(|&text| text.to_owned()).collect();
        self
    }

    /// Starts it, with its existing data.
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.unwrap();
        let mut words = self.wrapper.iter().map(String::as_str).chain(["etcd"]);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg(format!("--data-dir={}", self.data.display()))
            .args(["--heartbeat-interval=100", "--election-timeout=1000"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn wipe(&mut self) {
        self.kill();
        fs::remove_dir_all(&self.data).unwrap();
    }

    /// Restores its data from a snapshot, as in etcd's documentation.
    pub fn restore(&mut self, snapshot: &str, token: &str) {
        self.wipe();
        let is_wanted = |word: &&String| {
            ["--name=", "--initial-cluster=", "--initial-advertise"]
                .iter()
                .any(|start| word.starts_with(start))
        };
        let words: Vec<&str> = self
            .arguments
            .iter()
            .filter(is_wanted)
            .map(|w| &**w)
            .collect();
        let data = self.data.display().to_string();
        let more = ["--initial-cluster-token", token, "--data-dir", &data];
        self.ctl(&[&["snapshot", "restore", snapshot][..], &words, &more].concat());
        self.start();
    }

    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Runs etcdctl for this member, which must succeed.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        run(&mut self.command(arguments))
    }

    /// Returns the same command without running it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3");
        command.args(["--endpoints", &self.address]).args(arguments);
        command
    }
}

/// Returns the arguments for the name and the addresses.
pub fn urls(name: &str, scheme: &str, client: &str, peer: &str) -> Vec<String> {
    let client = format!("{scheme}://{client}");
    [
        format!("--name={name}"),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
    ]
    .into()
}

impl Drop for Member {
    fn drop(&mut self) {
        let log = Path::new(&self.log);
        if std::thread::panicking() {
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(15).collect();
            eprintln!(
                "-- the end of {}'s log, backwards\n{}",
                self.name,
                lines.join("\n")
            );
        }
        self.kill();
    }
}
