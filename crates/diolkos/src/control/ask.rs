// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The side that asks. Whatever the other side does, it has an end.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use diolkos_sys::peer;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{is_trusted, Answer, Request, END, LONG_PATIENCE, PATIENCE};
use crate::failure::Failure;
use crate::instance::{self, Found, Running};

/// At a time, bytes.
const CHUNK: usize = 64 << 10;

/// Asks a running program.
pub fn ask(device: &str, request: Request) -> Result<Answer, Failure> {
    let nobody = format!("no diolkos runs in this network namespace with the device {device}");
    match instance::find(device) {
        Found::At(running) => ask_this(&running, device, request),
        Found::Nowhere => Err(Failure::run_time(nobody)),
        Found::Ignored(why) => Err(Failure::run_time(format!(
            "{nobody}, of root or of this user; {why}"
        ))),
        Found::Closed => Err(Failure::missing(
            "/run/diolkos belongs to another user, and a running diolkos answers only that user and root: run this as root",
        )),
    }
}

/// Asks this program and no other one.
pub fn ask_this(running: &Running, device: &str, request: Request) -> Result<Answer, Failure> {
    let patience = match request {
        Request::Reload | Request::Sessions | Request::Bindings => LONG_PATIENCE,
        // It is answered once it is written.
        Request::Bind(_) | Request::Unbind { .. } => LONG_PATIENCE,
        _ => PATIENCE,
    };
    match exchange(running, request, patience) {
        Ok(Answer::Failed(why)) => Err(Failure::run_time(why)),
        Ok(Answer::Misconfigured(why)) => Err(Failure::usage(why)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(unanswered(device, &error)),
    }
}

fn exchange(running: &Running, request: Request, patience: Duration) -> io::Result<Answer> {
    let mut stream = connect(&running.socket)?;
    // While it has the lock, nobody else can listen there. What has ended may have a successor, who was not asked.
    if !running.lasts() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let peer = peer::of(&stream)?;
    if !is_trusted(peer.uid) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "process {} of user {} has the control socket {}, and is neither root nor you: run this as user {}",
                peer.pid,
                peer.uid,
                running.socket.display(),
                peer.uid
            ),
        ));
    }
    let mut text = serde_json::to_vec(&request)?;
    text.push(END);
    stream.write_all(&text)?;
    Ok(serde_json::from_slice(&read(&mut stream, patience)?)?)
}

/// The time limit for writing is the one for the queue of a program that does not accept, too (unix(7) has no other).
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}

/// A whole answer, in time, however it is cut.
fn read(stream: &mut UnixStream, patience: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut answer = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.set_read_timeout(Some(left))?;
        let n = match stream.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&chunk[..n]);
        if answer.last() == Some(&END) {
            return Ok(answer);
        }
    }
}

fn unanswered(device: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, PermissionDenied, TimedOut,
        UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        PermissionDenied => Failure::run_time(error.to_string()),
        WouldBlock | TimedOut => Failure::run_time(
            "the running diolkos is busy and has not answered in time: try again",
        ),
        NotFound | ConnectionRefused | BrokenPipe | ConnectionReset | UnexpectedEof => {
            Failure::run_time(format!(
                "the diolkos with the device {device} starts or ends just now, and has not answered: try again"
            ))
        }
        _ => Failure::run_time(format!("the running diolkos does not answer: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn who_never_answers_holds_up_nobody() {
        let (mut one, _other) = UnixStream::pair().expect("a pair of sockets");
        let error = read(&mut one, SHORT).expect_err("there is no answer");
        let failure = unanswered("x", &error).to_string();
        assert!(failure.contains("busy"), "{failure}");
    }

    #[test]
    fn an_answer_may_come_in_pieces() {
        let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
        for piece in ["\"do", "ne", "\"", "\n"] {
            other.write_all(piece.as_bytes()).expect("it is taken");
        }
        let answer = read(&mut one, LONG_PATIENCE).expect("it is whole");
        assert_eq!(
            serde_json::from_slice::<Answer>(&answer).ok(),
            Some(Answer::Done)
        );
    }

    #[test]
    fn half_an_answer_is_none() {
        let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
        other.write_all(b"\"do").expect("it is taken");
        drop(other);
        let error = read(&mut one, LONG_PATIENCE).expect_err("it is cut");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_full_queue_holds_up_nobody() {
        let path = std::env::temp_dir().join(format!("diolkos-full-{}", std::process::id()));
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener
            .bind(&SockAddr::unix(&path).expect("it is short"))
            .expect("it is free");
        listener.listen(0).expect("it listens");
        let _listener = UnixListener::from(OwnedFd::from(listener));
        let mut waiting = Vec::new();
        let full = loop {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            socket.set_write_timeout(Some(SHORT)).expect("it is set");
            match socket.connect(&SockAddr::unix(&path).expect("it is short")) {
                Ok(()) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).expect("it is there");
        assert!(
            unanswered("x", &full).to_string().contains("busy"),
            "{full}"
        );
    }
}
