// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that ask by UDP. Many datagrams are read at once, and each answer is sent from the address to which the question was
//! sent.

use std::io;
use std::rc::Rc;

use quinn_udp::RecvMeta;

use super::datagrams::Datagrams;
use super::queries::{QueryHandler, Scratch};
use super::tally::Fate;
use super::waiter::Waiter;

/// The most datagrams read with one system call.
const BATCH: usize = 32;
/// The kernel may deliver several datagrams of one sender as one, so each buffer holds the longest.
const BUFFER: usize = 1 << 16;
/// A socket that fails this often in a row does not recover.
const MOST_ERRORS: u32 = 64;

/// Answers until the socket is unusable.
pub async fn serve(datagrams: Rc<Datagrams>, handler: Rc<QueryHandler>) -> io::Error {
    let mut buffers = vec![vec![0; BUFFER]; BATCH];
    let mut metas = [RecvMeta::default(); BATCH];
    let mut scratch = Scratch::default();
    let mut is_drained = false;
    let mut errors = 0;
    loop {
        let read = datagrams.receive(&mut buffers, &mut metas, is_drained);
        let read = match read.await {
            Ok(read) => read,
            // An ICMP error about an earlier answer causes one error; a broken socket returns an error each time.
            Err(error) if errors == MOST_ERRORS => return error,
            Err(error) => {
                tracing::debug!("a datagram could not be read: {error}");
                errors += 1;
                is_drained = false;
                tokio::task::yield_now().await;
                continue;
            }
        };
        errors = 0;
        datagrams.gather();
        for (buffer, meta) in buffers.iter().zip(&metas).take(read) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let to = datagrams.return_of(meta);
                let waiter = Waiter::Datagram(datagrams.clone(), to);
                handler.take(datagram, meta.addr.ip(), waiter, &mut scratch);
            }
        }
        for _ in 0..datagrams.send_gathered() {
            handler.tally.count(Fate::SendFailed);
        }
        is_drained = read < BATCH;
        if !is_drained {
            // Other tasks have work to do as well.
            tokio::task::yield_now().await;
        }
    }
}
