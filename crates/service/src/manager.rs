// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports the state of the service to the service manager, by the protocol of sd_notify(3).
//!
//! Each message is one datagram to the socket that `NOTIFY_SOCKET` names. The socket is opened once, at the start, since later
//! the program may have no right to open one. Without a service manager, every call does nothing.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diolkos_sys::clock;

/// Bound on the status line, bytes: the service manager shows one line, and the list of obstacles may be long.
const LONGEST_STATUS: usize = 1500;

/// The service manager, if there is one. Clones share the socket.
#[derive(Clone, Default)]
pub struct Manager(Option<Arc<Inner>>);

struct Inner {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
    /// The last status that was sent; an equal one is not sent again.
    status: Mutex<String>,
}

impl Manager {
    /// The service manager that started this process, according to the environment. The variables are removed, so child
    /// processes do not see them.
    pub fn of_environment() -> Manager {
        let [socket, usec, pid] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"].map(|name| {
            let value = env::var_os(name);
            env::remove_var(name);
            value
        });
        let Some(socket) = socket else {
            return Manager::default();
        };
        let number = |text: &std::ffi::OsStr| text.to_str()?.parse::<u64>().ok();
        let is_ours = pid.is_none_or(|pid| number(&pid) == Some(u64::from(std::process::id())));
        let watchdog = usec.filter(|_| is_ours).and_then(|usec| number(&usec));
        let watchdog = watchdog.filter(|usec| *usec > 0);
        match connect(socket.as_bytes()) {
            Ok(socket) => Manager(Some(Arc::new(Inner {
                socket,
                watchdog: watchdog.map(Duration::from_micros),
                status: Mutex::default(),
            }))),
            Err(error) => {
                eprintln!(
                    "diolkos: warning: cannot report the status to the service manager: NOTIFY_SOCKET is {socket:?}: {error}"
                );
                Manager::default()
            }
        }
    }

    /// Returns true if there is a service manager.
    pub fn listens(&self) -> bool {
        self.0.is_some()
    }

    /// The time without [`Manager::alive`] after which the service manager ends this process and restarts it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.0.as_ref()?.watchdog
    }

    /// Reports that the service works, or waits only for events that the network must bring.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the configuration is being read again; [`Manager::ready`] ends that state.
    pub fn reloading(&self) {
        let now = clock::shown_monotonic().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// Reports that the service ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Reports that all supervised loops have made progress.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Reports what the service does and what is wrong, for people.
    pub fn status(&self, text: &str) {
        let Some(inner) = &self.0 else { return };
        let line = line(text);
        let mut last = inner.status.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != line {
            self.send(&format!("STATUS={line}"));
            *last = line;
        }
    }

    fn send(&self, word: &str) {
        let Some(inner) = &self.0 else { return };
        if let Err(error) = inner.socket.send(word.as_bytes()) {
            tracing::debug!("the service manager was not told {word:?}: {error}");
        }
    }
}

fn connect(name: &[u8]) -> io::Result<UnixDatagram> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither a path nor an abstract name",
            ))
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A service manager that does not read its socket must not block a loop.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Makes one line of bounded length. A line break would begin another message of the protocol.
fn line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.len() > LONGEST_STATUS {
        let end = (0..=LONGEST_STATUS)
            .rev()
            .find(|at| line.is_char_boundary(*at));
        line.truncate(end.unwrap_or(0));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Manager, UnixDatagram) {
        let (ours, its) = UnixDatagram::pair().expect("a pair of sockets");
        its.set_nonblocking(true).expect("it is set");
        let inner = Inner {
            socket: ours,
            watchdog: None,
            status: Mutex::default(),
        };
        (Manager(Some(Arc::new(inner))), its)
    }

    fn heard(its: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 4096];
        let n = its.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
    }

    #[test]
    fn the_same_status_is_told_once() {
        let (manager, its) = pair();
        manager.status("waiting");
        manager.status("waiting");
        manager.status("ready");
        assert_eq!(heard(&its).as_deref(), Some("STATUS=waiting"));
        assert_eq!(heard(&its).as_deref(), Some("STATUS=ready"));
        assert_eq!(heard(&its), None);
    }

    #[test]
    fn nothing_in_a_status_begins_another_word() {
        let (manager, its) = pair();
        manager.status(&format!("eth0\nREADY=1 {}", "ö".repeat(LONGEST_STATUS)));
        let said = heard(&its).expect("a word");
        assert!(said.starts_with("STATUS=eth0 READY=1 öö"), "{said}");
        assert!(!said.contains('\n') && said.len() < LONGEST_STATUS + 16);
    }

    #[test]
    fn a_reload_has_the_time_of_its_beginning() {
        let (manager, its) = pair();
        manager.reloading();
        let said = heard(&its).expect("a word");
        let usec = said
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .expect("two lines");
        assert!(usec.parse::<u64>().is_ok_and(|usec| usec > 0), "{said}");
    }

    #[test]
    fn abstract_names_and_paths_are_sockets() {
        let name = format!("diolkos-manager-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let its = UnixDatagram::bind_addr(&address).expect("it is free");
        let socket = connect(format!("@{name}").as_bytes()).expect("it is there");
        socket.send(b"READY=1").expect("it is taken");
        assert_eq!(heard(&its).as_deref(), Some("READY=1"));
        assert!(connect(b"run/systemd/notify").is_err());
        assert!(connect(b"/nowhere/at/all").is_err());
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let nobody = Manager::default();
        nobody.ready();
        nobody.status("alone");
        assert_eq!(nobody.watchdog(), None);
    }
}
