// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Talking to a running program: one request, one answer, one line of JSON each.
//!
//! The socket has an abstract name, which belongs to the network namespace
//! and goes with the process: there is nothing to clean up, and whoever binds
//! it first is the one instance for that device. Such a name has no owner and
//! no permissions, so each side asks the kernel who the other is, and speaks
//! with root and its own user only.

use std::io;
use std::net::SocketAddrV4;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::time::Duration;

use diolkos_sys::memory;
use diolkos_sys::peer::{self, Peer};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::config::nat64::{Protocol, Static};
use crate::counters::Counter;
use crate::failure::Failure;
use crate::nat64::{BindingRow, Entries, SessionRow};
use crate::prefixes::PrefixRows;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long whoever asked may take to read a long answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// An answer of a hundred thousand sessions takes tens of megabytes, several times over, bytes.
const LARGE: usize = 1 << 20;
/// How long an answer may take for which there is much to do: each route of a new configuration is a request to the
/// kernel, and there may be many sessions.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Who are you?
    Hello,
    /// All counters.
    Counters,
    /// The configuration in force.
    Config,
    /// The translation prefixes that are known.
    Prefix,
    /// Read the configuration file again.
    Reload,
    /// End, and leave nothing.
    Stop,
    /// The sessions of a NAT64.
    Sessions,
    /// Its bindings.
    Bindings,
    /// Make a binding.
    Bind(Static),
    /// End one.
    Unbind {
        /// Of which table.
        protocol: Protocol,
        /// As the IPv4 side sees it.
        v4: SocketAddrV4,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To [`Request::Hello`].
    Hello {
        /// Of the process.
        pid: u32,
    },
    /// To [`Request::Counters`].
    Counters(Vec<Counter>),
    /// To [`Request::Config`]: canonical TOML.
    Config(String),
    /// To [`Request::Prefix`].
    Prefix(PrefixRows),
    /// To [`Request::Reload`]: the new configuration is in force.
    Reloaded,
    /// To [`Request::Sessions`].
    Sessions(Entries<SessionRow>),
    /// To [`Request::Bindings`].
    Bindings(Entries<BindingRow>),
    /// To [`Request::Bind`], [`Request::Unbind`] and [`Request::Stop`].
    Done,
    /// The configuration file is wrong; the old configuration stays in force.
    Misconfigured(String),
    /// It could not be done.
    Failed(String),
}

fn name(device: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("diolkos/{device}"))
}

/// Becomes the instance for a device. The error names the one that is it already.
pub fn listen(device: &str) -> Result<UnixListener, Failure> {
    let bound = name(device).and_then(|address| StdListener::bind_addr(&address));
    match bound {
        Ok(listener) => listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(|e| Failure::run_time(format!("no control socket: {e}"))),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if let Ok(Found::Stranger(peer)) = connect(device) {
                return Err(held_by_stranger(device, peer));
            }
            let who = match ask(device, Request::Hello) {
                Ok(Answer::Hello { pid }) => format!(" (process {pid})"),
                _ => String::new(),
            };
            Err(Failure::run_time(format!(
                "another diolkos{who} already runs in this network namespace with the device {device}: \
                 stop it, or choose another device with --device"
            )))
        }
        Err(error) => Err(Failure::run_time(format!("no control socket: {error}"))),
    }
}

/// Whether a program runs for a device in this network namespace.
pub fn is_running(device: &str) -> bool {
    matches!(connect(device), Ok(Found::Ours(_)))
}

/// Who listens under the name of a device.
enum Found {
    Ours(StdStream),
    /// Whatever it says, it does not say it for diolkos.
    Stranger(Peer),
}

fn connect(device: &str) -> io::Result<Found> {
    let stream = StdStream::connect_addr(&name(device)?)?;
    let peer = peer::of(&stream)?;
    Ok(match is_trusted(peer.uid) {
        true => Found::Ours(stream),
        false => Found::Stranger(peer),
    })
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == peer::own_uid()
}

fn held_by_stranger(device: &str, Peer { pid, uid }: Peer) -> Failure {
    Failure::run_time(format!(
        "process {pid} of user {uid}, who is neither root nor you, holds the name of the control socket for the \
         device {device} in this network namespace: end it, or choose another device with --device"
    ))
}

/// Asks a running program.
pub fn ask(device: &str, request: Request) -> Result<Answer, Failure> {
    use std::io::{BufRead, Write};

    let exchange = |mut stream: StdStream| -> io::Result<Answer> {
        stream.set_read_timeout(Some(match request {
            Request::Reload | Request::Sessions | Request::Bindings => LONG_PATIENCE,
            _ => PATIENCE,
        }))?;
        stream.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes())?;
        let mut line = String::new();
        std::io::BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    let answer = match connect(device) {
        Ok(Found::Ours(stream)) => exchange(stream),
        Ok(Found::Stranger(peer)) => return Err(held_by_stranger(device, peer)),
        Err(error) => Err(error),
    };
    match answer {
        Ok(Answer::Failed(why)) => Err(Failure::run_time(why)),
        Ok(Answer::Misconfigured(why)) => Err(Failure::usage(why)),
        Ok(answer) => Ok(answer),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(Failure::run_time(
            format!("no diolkos runs in this network namespace with the device {device}"),
        )),
        Err(error) if hung_up(&error) => Err(Failure::missing(
            "the running diolkos answers only root and its own user: run this as root",
        )),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Failure::run_time(
            "the running diolkos is busy and has not answered in time: try again",
        )),
        Err(error) => Err(Failure::run_time(format!(
            "the running diolkos does not answer: {error}"
        ))),
    }
}

/// The other side closed the connection instead of answering.
fn hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Serves one connection, of root or our own user.
pub async fn serve(
    stream: UnixStream,
    answer: impl AsyncFnOnce(Request) -> Answer,
) -> io::Result<()> {
    if !is_trusted(peer::of(&stream)?.uid) {
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut read = BufReader::new(read);
    timeout(PATIENCE, read.read_line(&mut line))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(request).await,
        Err(error) => Answer::Failed(format!("not understood: {error}")),
    };
    let reply = format!("{}\n", serde_json::to_string(&reply)?);
    // Whoever does not read must not hold up the rest of the program.
    tokio::spawn(async move {
        let _ = timeout(WRITE_PATIENCE, write.write_all(reply.as_bytes())).await;
        let was_large = reply.len() > LARGE;
        drop(reply);
        if was_large {
            memory::give_back();
        }
    });
    Ok(())
}
