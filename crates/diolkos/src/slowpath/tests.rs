// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reader on a pair of sockets in place of a device.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use diolkos_core::{Offload, Outbox};

use super::*;
use crate::counters;

/// Emits one packet for each that comes, and says what is to be said of that one.
struct Echo {
    outside: UnixDatagram,
    verdict: Verdict,
}

impl Engine for Echo {
    fn translate(&self, _: &mut Packet<'_>, _: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        out.emit(b"an ICMP error", Offload::default());
        let error = self.outside.recv(&mut [0; 100]).expect_err("not counted");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.verdict
    }
}

/// What leaves, and in what order, when a packet gets this verdict.
fn sent(verdict: Verdict, counter: &str) -> Vec<usize> {
    let (inside, outside) = UnixDatagram::pair().expect("a pair of sockets");
    outside.set_nonblocking(true).expect("a socket of our own");
    let tally = Arc::new(Tally::default());
    let echo = Echo {
        outside: outside.try_clone().expect("a descriptor"),
        verdict,
    };
    let mut reader = Reader {
        queue: Queue::from(OwnedFd::from(inside)),
        bell: Arc::new(Bell::new().expect("a descriptor")),
        engine: Arc::new(RwLock::new(Arc::new(echo))),
        tally: tally.clone(),
        events: Events::default(),
        env: Clock::new(),
    };
    let mut buffer = vec![0; FRONT + LONGEST + BACK];
    buffer[FRONT] = 0x60;
    reader.packet(&mut buffer, 40);
    let counters = counters::read(None, &[tally]).expect("no kernel is asked");
    let counted = |name| counters.iter().any(|c| c.name == name && c.packets == 1);
    assert!(counted(counter) && counted("slow.originated"));

    let mut lens = Vec::new();
    while let Ok(len) = outside.recv(&mut [0; 100]) {
        lens.push(len - VNET);
    }
    lens
}

/// The counters know the cause of an ICMP error before the error is sent.
#[test]
fn what_is_originated_leaves_once_its_cause_is_counted() {
    let refused = Verdict::Drop(Reason::SessionLimit);
    let error = b"an ICMP error".len();
    assert_eq!(sent(refused, "slow.drop.session_limit"), [error]);
    assert_eq!(sent(Verdict::Emitted, "slow.translated_6to4"), [error]);
    assert_eq!(sent(Verdict::Held, "slow.held"), [error]);
}

/// The parts that waited for a packet leave before it.
#[test]
fn what_is_originated_leaves_before_the_packet() {
    let lens = sent(Verdict::Forward, "slow.translated_6to4");
    assert_eq!(lens, [b"an ICMP error".len(), 40]);
}
