// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for answers that clients have not read from their connections, bounded in all and for each client. A client that asks
//! for long answers and reads none loses a connection; other clients lose none.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use diolkos_dns64::shares::Ticket;
use diolkos_dns64::Shares;
use tokio::sync::Notify;

/// The bound for all clients, bytes.
pub const MOST: usize = 32 << 20;
/// One client may have at most the total divided by this.
const SHARE: u32 = 8;
/// Memory is counted in parts of this many bytes. An answer takes at least one.
const PART: usize = 4 << 10;

/// The memory, and its users.
pub struct Memory(RefCell<Shares<Rc<Notify>>>);

/// One connection of a client.
#[derive(Clone)]
pub struct ClientConnection {
    memory: Rc<Memory>,
    client: IpAddr,
    /// Tells the connection to close.
    close: Rc<Notify>,
}

/// The memory of one answer, which is freed when this is dropped.
pub struct Unread {
    memory: Rc<Memory>,
    parts: Vec<Ticket>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::of(MOST)
    }
}

impl Memory {
    fn of(bytes: usize) -> Memory {
        let parts = u32::try_from(bytes / PART).unwrap_or(u32::MAX);
        Memory(RefCell::new(Shares::new(parts, parts / SHARE)))
    }

    /// Registers a connection of a client; `close` ends it.
    pub fn reader(self: &Rc<Self>, client: IpAddr, close: Rc<Notify>) -> ClientConnection {
        ClientConnection {
            memory: self.clone(),
            client,
            close,
        }
    }
}

impl ClientConnection {
    /// The client.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Takes memory for an answer. If none is free, the connection with the oldest unread answer of the largest holder is
    /// closed.
    pub fn take(&self, bytes: usize) -> Unread {
        let mut shares = self.memory.0.borrow_mut();
        let take = |_| {
            let (ticket, evicted) = shares.take(self.client, self.close.clone());
            if let Some(evicted) = evicted {
                evicted.held.notify_one();
            }
            ticket
        };
        let parts = (0..bytes.div_ceil(PART).max(1)).map(take).collect();
        Unread {
            memory: self.memory.clone(),
            parts,
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut shares = self.memory.0.borrow_mut();
        for part in self.parts.drain(..) {
            shares.give(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn is_closed(close: &Notify) -> bool {
        close.notified().now_or_never().is_some()
    }

    #[test]
    fn who_reads_nothing_loses_a_connection_and_others_lose_none() {
        let memory = Rc::new(Memory::of(1 << 20));
        let close = || Rc::new(Notify::new());
        let (greedy, patient) = (close(), close());
        let many = memory.reader([192, 0, 2, 1].into(), greedy.clone());
        let few = memory.reader([198, 51, 100, 1].into(), patient.clone());
        let kept = few.take(65_537);
        let unread: Vec<Unread> = (0..2).map(|_| many.take(65_535)).collect();
        assert!(!is_closed(&greedy), "an eighth is its own");
        let one_more = many.take(100);
        assert!(is_closed(&greedy));
        assert!(!is_closed(&patient));
        drop((unread, one_more, kept));
        assert!(memory.0.borrow().is_empty());
    }
}
