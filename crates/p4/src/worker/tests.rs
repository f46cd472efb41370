// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worker without a switch.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use diolkos_fastpath::{Owner, Session};
use diolkos_service::watchdog::Watchdog;
use tracing::span::{Attributes, Id, Record};
use tracing::{subscriber, Event, Metadata, Subscriber};

use super::*;
use crate::wanted::SessionUpdate;

/// A log whose reader waits for `Wanted`, as one would that writes what it reads through the NAT64 itself.
struct Log {
    shared: Arc<Shared>,
    lines: Arc<AtomicU32>,
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        // Held by this very thread, it panics in builds with debug assertions (`ordered`), and hangs in others.
        drop(self.shared.lock());
        self.lines.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn put(shared: &Shared) -> SessionUpdate {
    let mut wanted = shared.lock();
    wanted.set_base(&["64:ff9b::/96".parse().expect("a prefix")], Vec::new());
    wanted.go_up(50);
    let session = Session {
        protocol: 17,
        node: (Ipv6Addr::LOCALHOST, 4711),
        v4: (Ipv4Addr::new(203, 0, 113, 1), 5000),
        peer: (Ipv4Addr::new(198, 51, 100, 1), 53),
        prefix: 0,
        owner: Owner::OURS,
    };
    wanted.put(&session).expect("there is room");
    wanted.take(1).remove(0)
}

/// Threads that hold the tables, and the event loop, wait for `Wanted`. A log that is not read must not stop them.
#[test]
fn nothing_is_logged_while_wanted_is_held() {
    let shared = Arc::new(Shared::new(100));
    let lines = Arc::new(AtomicU32::new(0));
    let log = Log {
        shared: shared.clone(),
        lines: lines.clone(),
    };
    let change = put(&shared);
    let SessionUpdate::Put(known) = change else {
        panic!("it was put");
    };
    let beat = Watchdog::default().beat("p4");
    let mut worker = Worker::new(shared.clone(), "/nowhere/switch.sock".into(), 2, beat);
    let ends = thread::scope(|scope| {
        let ended = scope.spawn(|| {
            subscriber::with_default(log, || {
                worker.settle(&[Outcome::Refused(known, Status::Full)]);
                assert!(shared.lock().troubles.now().is_some());
                worker.settle(&[Outcome::Done(change)]);
                assert!(shared.lock().troubles.now().is_none());
                shared.lock().ended = Some(false);
                worker.run(connect(std::path::Path::new("/nowhere/switch.sock")))
            })
        });
        ended.join().expect("it holds nothing while it logs")
    });
    ends.expect("it was told to end");
    assert_eq!(lines.load(Ordering::Relaxed), 3);
}
