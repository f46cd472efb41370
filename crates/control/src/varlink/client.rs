// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client side. Every call ends in bounded time, whatever the server does.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

use super::wire::{message, Call, Received, Refusal, END};
use super::PATIENCE;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// A connection to a service.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Bytes that have been read beyond the last reply.
    read: Vec<u8>,
}

/// The reason why there is no reply.
#[derive(Debug)]
pub enum Unanswered {
    /// The service returned an error.
    Refused(Refusal),
    /// The service could not be reached, or did not reply in time.
    Failed(io::Error),
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Unanswered {
        Unanswered::Failed(error)
    }
}

impl Client {
    /// Connects. The time limit for writing also applies to the queue of a program that does not accept (unix(7) has no other).
    pub fn connect(path: &Path) -> io::Result<Client> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(Client {
            stream: OwnedFd::from(socket).into(),
            read: Vec::new(),
        })
    }

    /// Calls a method. Each reply but the last goes to `each` if the call says `more`. `patience` is the time limit for each
    /// reply; `None`: no limit. Once `each` returns false, the remaining replies are not read, and the result is null.
    pub fn call(
        &mut self,
        call: &Call,
        patience: Option<Duration>,
        mut each: impl FnMut(Value) -> bool,
    ) -> Result<Value, Unanswered> {
        self.stream.write_all(&message(call)?)?;
        loop {
            let text = self.next(patience)?;
            let received: Received = serde_json::from_slice(&text).map_err(io::Error::from)?;
            let continues = received.continues;
            let value = received.result().map_err(Unanswered::Refused)?;
            if !continues {
                return Ok(value);
            }
            if !each(value) {
                return Ok(Value::Null);
            }
        }
    }

    /// Reads a whole reply within the time limit, however the bytes are split.
    fn next(&mut self, patience: Option<Duration>) -> io::Result<Vec<u8>> {
        let end = patience.map(|patience| Instant::now() + patience);
        let mut chunk = vec![0; CHUNK];
        let mut looked = 0;
        loop {
            if let Some(at) = self.read[looked..].iter().position(|byte| *byte == END) {
                let mut reply: Vec<u8> = self.read.drain(..=looked + at).collect();
                reply.pop();
                return Ok(reply);
            }
            looked = self.read.len();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.stream.set_read_timeout(left)?;
            let n = match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read.extend_from_slice(&chunk[..n]);
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl From<UnixStream> for Client {
    fn from(stream: UnixStream) -> Client {
        let read = Vec::new();
        Client { stream, read }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHORT: Option<Duration> = Some(Duration::from_millis(50));
    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    fn call() -> Call {
        Call::new("a.b.C".to_owned(), json!({}))
    }

    fn pair() -> (Client, UnixStream) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        (one.into(), other)
    }

    #[test]
    fn who_never_answers_holds_up_nobody() {
        let (mut client, _other) = pair();
        let error = client.call(&call(), SHORT, |_| true).expect_err("no reply");
        assert!(matches!(error, Unanswered::Failed(e) if e.kind() == io::ErrorKind::WouldBlock));
    }

    #[test]
    fn replies_may_come_in_pieces_and_together() {
        let (mut client, mut other) = pair();
        for piece in [
            "{\"parameters\":{\"n\":1},\"con",
            "tinues\":true}\0{\"parameters\":{\"n\":2}}\0",
        ] {
            other.write_all(piece.as_bytes()).expect("it is taken");
        }
        let mut first = Vec::new();
        let call = call().with_more();
        let last = client.call(&call, LONG, |value| {
            first.push(value);
            true
        });
        assert_eq!(first, [json!({ "n": 1 })]);
        assert_eq!(last.expect("it is whole"), json!({ "n": 2 }));
    }

    #[test]
    fn half_a_reply_is_none() {
        let (mut client, mut other) = pair();
        other.write_all(b"{\"par").expect("it is taken");
        other
            .shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        let error = client.call(&call(), LONG, |_| true).expect_err("it is cut");
        assert!(matches!(error, Unanswered::Failed(e) if e.kind() == io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn an_error_is_no_reply() {
        let (mut client, mut other) = pair();
        let refusal = Refusal::method_not_found("a.b.C");
        let text = message(&refusal).expect("it is JSON");
        other.write_all(&text).expect("it is taken");
        let error = client.call(&call(), LONG, |_| true).expect_err("it is one");
        assert!(matches!(error, Unanswered::Refused(found) if found == refusal));
    }
}
