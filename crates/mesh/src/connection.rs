// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An authenticated connection: incoming messages, outgoing messages, and its end.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use diolkos_node::NodeId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};
use tokio::sync::{watch, Semaphore};
use tokio::time::{sleep, timeout};

use crate::credentials::Credentials;
use crate::event::{Event, Link, Received, ROOM};
use crate::shared::{jittered, Shared};
use crate::{frame, AGE, LINGER, STALL};

/// Bytes that a message counts in addition to its length, which bounds the number of short ones.
const EACH: usize = 1 << 10;
/// Number of bytes that are encrypted in one go.
const BATCH: usize = 1 << 16;
/// Sent by the side that was dialled when the connection counts there.
const WELCOME: u8 = 1;

/// The side that dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Dialled,
    Accepted,
}

/// The credentials at the start of a connection, with a signal when there are newer ones.
pub(crate) type Renewals = watch::Receiver<Credentials>;

/// Carries messages until the connection ends, or a newer one with the same node replaces it.
pub(crate) async fn carry<S>(
    shared: Arc<Shared>,
    id: NodeId,
    stream: S,
    side: Side,
    renewals: Renewals,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let peer = &shared.peers[id.index()];
    let connection = shared.number();
    let mut newest = peer.newest.subscribe();
    peer.newest.send_replace(connection);
    let replaced = async move {
        let is_newer = |newest: &u64| *newest != connection;
        let _ = newest.wait_for(is_newer).await;
    };
    let carried = async {
        // This one waits until the worker has handled the end of earlier ones.
        let place = Arc::clone(&peer.places).acquire_owned().await;
        let Ok(_place) = place else { return };
        let (queue, waiting) = unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let (read_half, mut write_half) = tokio::io::split(stream);
        if side == Side::Accepted {
            let welcome = async {
                write_half.write_all(&[WELCOME]).await?;
                write_half.flush().await
            };
            if !matches!(timeout(STALL, welcome).await, Ok(Ok(()))) {
                return;
            }
        }
        let link = Link {
            peer: id,
            connection,
            queue,
            queued: Arc::clone(&queued),
            _place,
        };
        let _end = End(&shared, id, connection);
        shared.tell(Event::Connected(link));
        tokio::select! {
            _ = read(&shared, id, connection, read_half) => {}
            _ = write(&shared, id, connection, write_half, waiting, &queued) => {}
            () = grow_old(renewals) => {}
        }
    };
    tokio::select! {
        () = replaced => {}
        () = carried => {}
    }
}

/// Waits until the side that was dialled says that the connection counts.
pub(crate) async fn welcomed(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    match stream.read_u8().await? {
        WELCOME => Ok(()),
        other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::General(format!("not welcome but {other}")),
        )),
    }
}

/// Reports the end of a connection, whatever its cause.
struct End<'a>(&'a Shared, NodeId, u64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let &mut End(shared, peer, connection) = self;
        shared.tell(Event::Lost { peer, connection });
    }
}

async fn read(
    shared: &Shared,
    peer: NodeId,
    connection: u64,
    stream: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(1 << 14, stream);
    let credit: &Arc<Semaphore> = &shared.peers[peer.index()].credit;
    loop {
        let length = frame::length(&mut stream).await?;
        // Reading stops until the worker has handled enough; TCP gives the back-pressure to the other side.
        let many = Arc::clone(credit).acquire_many_owned((length + EACH) as u32);
        let Ok(_credit) = many.await else {
            return Ok(());
        };
        let bytes = frame::message(&mut stream, length).await?;
        let bytes = Received { bytes, _credit };
        shared.tell(Event::Message {
            peer,
            connection,
            bytes,
        });
    }
}

async fn write(
    shared: &Shared,
    peer: NodeId,
    connection: u64,
    mut stream: impl AsyncWrite + Unpin,
    mut waiting: UnboundedReceiver<Vec<u8>>,
    queued: &AtomicUsize,
) -> io::Result<()> {
    let mut untold = 0;
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(first) = waiting.recv().await {
        batch.clear();
        let (mut next, mut messages) = (Some(first), 0);
        while let Some(message) = next {
            frame::append(&mut batch, &message);
            messages += message.len();
            next = match batch.len() < BATCH {
                true => waiting.try_recv().ok(),
                false => None,
            };
        }
        let sent = async {
            stream.write_all(&batch).await?;
            stream.flush().await
        };
        timeout(STALL, sent).await??;
        queued.fetch_sub(messages, Ordering::AcqRel);
        untold += messages;
        if waiting.is_empty() || untold >= ROOM / 4 {
            untold = 0;
            shared.tell(Event::Room { peer, connection });
        }
    }
    Ok(())
}

/// Ends some time after newer credentials arrive, and at the latest at the maximum age: a certificate is checked only
/// when a connection begins.
async fn grow_old<T>(mut renewals: watch::Receiver<T>) {
    let renewed = async {
        match renewals.changed().await {
            Ok(()) => sleep(jittered(LINGER)).await,
            Err(_) => sleep(Duration::MAX).await,
        }
    };
    tokio::select! {
        () = renewed => {}
        () = sleep(jittered(AGE)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_connection_outlives_its_certificates_by_a_minute_at_most() {
        let (sender, receiver) = watch::channel(());
        let begun = Instant::now();
        let old = tokio::spawn(grow_old(receiver));
        sleep(LINGER * 3).await;
        assert!(!old.is_finished());
        sender.send_replace(());
        old.await.expect("it ends");
        assert!(begun.elapsed() <= LINGER * 4 + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn no_connection_gets_older_than_a_day() {
        let (_sender, receiver) = watch::channel(());
        let begun = Instant::now();
        grow_old(receiver).await;
        assert!((AGE / 2..=AGE).contains(&begun.elapsed()));
    }
}
