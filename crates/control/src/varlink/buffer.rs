// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The received bytes of a connection that have not been handled yet: whole calls, and the beginning of one.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::wire::END;

/// The longest call, bytes; the buffer holds no more.
pub const LONGEST: usize = 64 << 10;

/// Bytes in the order of arrival.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Buffer {
    /// The first whole call, without its terminator.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == END)?;
        let mut call: Vec<u8> = self.bytes.drain(..=end).collect();
        call.pop();
        Some(call)
    }

    /// Returns true if a call has begun or waits.
    pub fn has_some(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns true if no more bytes fit.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= LONGEST
    }

    /// Returns true if the other side will send nothing more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Waits for more bytes. May be dropped and called again; nothing is lost.
    pub async fn fill(&mut self, stream: &mut UnixStream) -> io::Result<()> {
        let left = LONGEST.saturating_sub(self.bytes.len());
        if left == 0 {
            return Ok(());
        }
        let n = stream.take(left as u64).read_buf(&mut self.bytes).await?;
        self.has_ended |= n == 0;
        Ok(())
    }

    /// Waits until the other side has closed the connection, and keeps what it sends meanwhile. With a full buffer it cannot
    /// notice that.
    pub async fn gone(&mut self, stream: &mut UnixStream) {
        while !self.has_ended {
            if self.is_full() {
                std::future::pending::<()>().await;
            }
            if self.fill(stream).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn calls_come_in_pieces_and_together() {
        let (mut near, mut far) = UnixStream::pair().expect("a pair of sockets");
        let mut buffer = Buffer::default();
        let mut found = Vec::new();
        for piece in [&b"{\"a"[..], b"\"}\0{}\0", b"\0x"] {
            far.write_all(piece).await.expect("it is taken");
            buffer.fill(&mut near).await.expect("it comes");
            while let Some(call) = buffer.next() {
                found.push(call);
            }
        }
        assert_eq!(found, [&b"{\"a\"}"[..], b"{}", b""]);
        assert!(buffer.has_some() && !buffer.has_ended());
        drop(far);
        buffer.gone(&mut near).await;
        assert!(buffer.has_ended());
    }

    #[tokio::test]
    async fn it_holds_no_more_than_the_longest_call() {
        let (mut near, mut far) = UnixStream::pair().expect("a pair of sockets");
        let mut buffer = Buffer::default();
        let send = async move {
            let _ = far.write_all(&vec![b'x'; 2 * LONGEST]).await;
        };
        let sending = tokio::spawn(send);
        while !buffer.is_full() {
            buffer.fill(&mut near).await.expect("it comes");
        }
        buffer.fill(&mut near).await.expect("nothing more is taken");
        assert_eq!(buffer.bytes.len(), LONGEST);
        assert!(buffer.next().is_none());
        drop(near);
        sending.await.expect("it ends");
    }
}
