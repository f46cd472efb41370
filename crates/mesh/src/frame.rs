// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames messages in a stream of bytes: 4 bytes of length in network byte order, then the message.

use std::io::{Error, ErrorKind, Result};

use diolkos_node::message::MAX_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Appends a message.
pub fn append(buffer: &mut Vec<u8>, message: &[u8]) {
    // Longer ones do not get here: the receiver would refuse them.
    buffer.extend((message.len() as u32).to_be_bytes());
    buffer.extend(message);
}

/// Reads the length of the next message, 1 to [`MAX_BYTES`]. Not cancel-safe: drop it only together
/// with the stream.
///
/// # Errors
///
/// The stream has ended, or the length is not allowed. Nothing was allocated for it.
pub async fn length(stream: &mut (impl AsyncRead + Unpin)) -> Result<usize> {
    let length = stream.read_u32().await?;
    match usize::try_from(length) {
        Ok(length @ 1..=MAX_BYTES) => Ok(length),
        _ => Err(Error::new(
            ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        )),
    }
}

/// Reads the message.
///
/// # Errors
///
/// The stream has ended.
pub async fn message(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(future)
    }

    /// Returns all messages of a stream, and how it ended.
    fn all(pieces: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, ErrorKind) {
        block_on(async move {
            let (mut near, mut far) = tokio::io::duplex(7);
            let write = async move {
                for piece in pieces {
                    // The reader may have refused the bytes before.
                    let _ = near.write_all(&piece).await;
                    tokio::task::yield_now().await;
                }
            };
            let read = async move {
                let mut messages = Vec::new();
                loop {
                    let next = match length(&mut far).await {
                        Ok(length) => message(&mut far, length).await,
                        Err(error) => Err(error),
                    };
                    match next {
                        Ok(message) => messages.push(message),
                        Err(error) => return (messages, error.kind()),
                    }
                }
            };
            tokio::join!(write, read).1
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn messages_come_as_they_were_wherever_the_stream_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..6),
            cuts in prop::collection::vec(1..30_usize, 1..40),
            lost in 0..5_usize,
        ) {
            let mut stream = Vec::new();
            messages.iter().for_each(|message| append(&mut stream, message));
            let is_cut = lost > 0 && stream.len() >= lost;
            stream.truncate(stream.len() - if is_cut { lost } else { 0 });
            let (mut pieces, mut rest) = (Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece.to_vec());
                rest = after;
            }
            let (came, end) = all(pieces);
            prop_assert_eq!(end, ErrorKind::UnexpectedEof);
            prop_assert!(messages.starts_with(&came));
            prop_assert!(is_cut || came == messages);
        }

        #[test]
        fn no_stream_brings_a_message_that_is_too_long(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let (came, _) = all(vec![bytes]);
            prop_assert!(came.iter().all(|message| (1..=MAX_BYTES).contains(&message.len())));
        }
    }

    #[test]
    fn lengths_outside_of_the_bounds_end_the_stream() {
        for length in [0, MAX_BYTES as u32 + 1, u32::MAX] {
            let (came, end) = all(vec![length.to_be_bytes().to_vec()]);
            assert_eq!((came.len(), end), (0, ErrorKind::InvalidData));
        }
        let longest = vec![7; MAX_BYTES];
        let mut stream = Vec::new();
        append(&mut stream, &longest);
        assert_eq!(all(vec![stream]).0, [longest]);
    }
}
