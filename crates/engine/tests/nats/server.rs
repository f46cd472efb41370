// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real servers, killed when they go out of scope.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

/// A folder for one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("diolkos-engine-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
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

/// A server with JetStream, on a port of its own.
pub struct Server {
    child: Child,
    configuration: PathBuf,
    pub port: u16,
}

/// Whether tests can run. Says so if not.
pub fn installed() -> bool {
    let found = program().is_some();
    if !found {
        eprintln!("SKIPPED: nats-server is not installed (apt install nats-server)");
    }
    found
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.exists())
}

/// A port that nobody uses at the moment.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Server {
    /// A server whose store is `name` in the folder. `more` are lines of its configuration.
    pub fn start(folder: &Folder, name: &str, more: &str) -> Self {
        Self::start_at(free_port(), folder, name, more)
    }

    pub fn start_at(port: u16, folder: &Folder, name: &str, more: &str) -> Self {
        let configuration = folder.path(&format!("{name}.conf"));
        let store = folder.path(name);
        let text = format!(
            "server_name: {name}\nlisten: 127.0.0.1:{port}\njetstream {{ store_dir: \"{}\", max_mem: 256M, max_file: 1G }}\n{more}\n",
            store.display()
        );
        fs::write(&configuration, text).unwrap();
        Self {
            child: spawn(port, &configuration),
            configuration,
            port,
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Without a chance to say goodbye.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again what was killed: the same port, configuration and store.
    pub fn start_again(&mut self) {
        self.child = spawn(self.port, &self.configuration);
    }

    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// Returns when the server takes connections.
fn spawn(port: u16, configuration: &Path) -> Child {
    let log = configuration.with_extension("log");
    let child = Command::new(program().unwrap())
        .arg("--config")
        .arg(configuration)
        .arg("--log")
        .arg(log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hangs = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            Instant::now() < hangs,
            "{} does not start",
            configuration.display()
        );
        thread::sleep(Duration::from_millis(10));
    }
    child
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
