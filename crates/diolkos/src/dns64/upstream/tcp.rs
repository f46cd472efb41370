// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A question that needs TCP: a connection of its own, for it is rare.

use std::io;

use diolkos_dns64::exchange::{answers, id, write};
use diolkos_dns64::{Ask, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::dns64::frame::framed;

/// Asks, and reads the one answer. Whoever calls sets the time that it may take.
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
