// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The framing of DNS messages in TCP (RFC 1035 section 4.2.2).

use std::io;

use diolkos_dns64::exchange::{answers, id, write};
use diolkos_dns64::{Ask, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The message with its length in front; no message is longer than 65535 bytes.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 2);
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// Sends a question on a connection of its own, since such questions are rare, and reads the single answer. The caller sets the
/// time limit.
pub async fn exchange(
    mut stream: TcpStream,
    ask: &Ask,
    udp_size: u16,
    our_id: u16,
) -> io::Result<Vec<u8>> {
    stream.set_nodelay(true)?;
    let mut query = Vec::with_capacity(512);
    write(ask, our_id, udp_size, &mut query);
    stream.write_all(&framed(&query)).await?;
    let length = stream.read_u16().await?;
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await?;
    let expected = id(&reply) == Some(our_id)
        && Message::parse(&reply).is_ok_and(|message| answers(ask, &message));
    match expected {
        true => Ok(reply),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its TCP reply does not match the query",
        )),
    }
}
