// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of all sessions: it handles every packet that may begin, change or end one.
//!
//! Its other methods stand in `operator` (commands), `membership` (other gateways) and `queries` (what it tells).

use diolkos_service::ordered::{Guard, Ordered, Rank};
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diolkos_fastpath::{Lending, Sessions};
use diolkos_nat64::config::{Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{GrantError, Granted, Holding, Wish};
use diolkos_nat64::Nat64;
use diolkos_nat64::Nat64Trace;
use diolkos_sys::clock;
use diolkos_xlat::config::ConfigError;
use diolkos_xlat::{Offload, Packet, Verdict};

use super::fastpath::{FastPath, Kernel};
use super::leases::Leases;
use super::mirror::{Mirror, Restoring};
use super::records::Records;
use diolkos_datapath::slowpath::{Clock, Engine, Writer};
use diolkos_figures::counters::QueueCounters;
use diolkos_figures::figures::Spread;
use diolkos_service::random::Stock;

/// Number of entries that are handled before packets may pass again.
pub const BUDGET: usize = 512;
/// Duration of that pause.
pub(super) const BREATH: Duration = Duration::from_micros(100);
/// After a panic no thread may use the half-changed tables: each thread ends, and the first one ends the program.
const HALF_CHANGED: &str = "a thread panicked while it changed the tables";

/// The tables and their copy in the fast path. It handles one packet at a time.
pub struct Controller {
    inner: Ordered<Inner>,
    pub(super) kernel: Option<Arc<Kernel>>,
    /// Counts the fate of packets that were held, and what the sweeper sent.
    pub tally: Arc<QueueCounters>,
}

/// What one lock protects.
pub(super) struct Inner {
    pub nat64: Nat64,
    pub mirror: Mirror,
    pub leases: Leases,
    stock: Stock,
    /// How long packets waited for the lock, and how long they held it.
    pub times: [Spread; 2],
}

impl Controller {
    /// Creates a controller without sessions. `fast` is the fast path's copy of the sessions, and what it may open by
    /// itself. `secret` is random, and must stay secret.
    pub fn new(
        config: &Nat64Config,
        fast: Option<(Arc<Sessions>, Lending)>,
        secret: [u64; 4],
    ) -> Result<Controller, ConfigError> {
        let kernel = fast.map(|(maps, lending)| Arc::new(Kernel::new(maps, lending)));
        let fast = kernel.clone().map(|kernel| kernel as Arc<dyn FastPath>);
        Controller::of(config, kernel, fast, secret)
    }

    /// The same for a fast path outside the kernel.
    pub fn beside(
        config: &Nat64Config,
        fast: Arc<dyn FastPath>,
        secret: [u64; 4],
    ) -> Result<Controller, ConfigError> {
        Controller::of(config, None, Some(fast), secret)
    }

    fn of(
        config: &Nat64Config,
        kernel: Option<Arc<Kernel>>,
        fast: Option<Arc<dyn FastPath>>,
        secret: [u64; 4],
    ) -> Result<Controller, ConfigError> {
        let nat64 = Nat64::new(config, secret)?;
        let mut mirror = Mirror::new(config, fast.clone());
        mirror.begin(nat64.state());
        let leases = Leases::new(config, nat64.state().pool().pools(), fast);
        Ok(Controller {
            inner: Ordered::new(
                Rank::Tables,
                Inner {
                    nat64,
                    mirror,
                    leases,
                    stock: Stock::default(),
                    times: Default::default(),
                },
            ),
            kernel,
            tally: Arc::new(QueueCounters::default()),
        })
    }

    /// Has `fill` restore the tables, which are empty, and their copy from an earlier run, before any packet arrives.
    pub fn restore<T>(&self, fill: impl FnOnce(&mut Nat64, Restoring<'_>) -> T) -> T {
        let inner = &mut *self.lock();
        fill(&mut inner.nat64, inner.mirror.restore())
    }

    /// Has the fast path drop packets from outside to ports that no node has. Call it once the tables are restored, before
    /// any packet arrives.
    pub fn tell_unbound(&self) {
        let inner = &mut *self.lock();
        inner.mirror.tell_unbound(inner.nat64.state());
    }

    /// Records every change of the tables from now on. `records` creates the recorder from the tables; None records
    /// nothing.
    pub fn record(&self, records: impl FnOnce(&Nat64) -> Option<Box<dyn Records>>) {
        let inner = &mut *self.lock();
        inner.mirror.records = records(&inner.nat64);
    }

    /// Returns true if a thread has panicked while it changed the tables: they may no longer be read or written.
    pub fn is_broken(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Takes back what is lent to the fast path, and lends nothing more. The fast path continues with its existing
    /// sessions.
    pub fn stop_lending(&self) {
        let inner = &mut *self.lock();
        inner.mirror.leave();
        inner.leases.end_all(inner.nat64.state_mut());
    }

    /// Returns a descriptor that is readable when the fast path has opened something that [`Controller::settle`] has
    /// not seen; None without a fast path.
    pub fn openings(&self) -> io::Result<Option<OwnedFd>> {
        self.kernel
            .as_ref()
            .map(|kernel| kernel.ready())
            .transpose()
    }

    /// Brings what the fast path has opened into the tables.
    pub fn settle(&self) {
        drop(self.lock());
    }

    /// Ends what has expired. Packets pass in between.
    pub fn sweep(&self, env: &mut Clock, out: &mut Writer<'_>) {
        {
            let inner = &mut *self.lock();
            inner.leases.sweep(inner.nat64.state_mut());
        }
        self.expire(env, out);
    }

    fn expire(&self, env: &mut Clock, out: &mut Writer<'_>) {
        loop {
            let mut guard = self.lock();
            let inner = &mut *guard;
            inner.mirror.gather();
            let done = inner.nat64.expire(BUDGET, env, out, &mut inner.mirror);
            inner.mirror.take_out();
            inner.count_dropped(&self.tally);
            drop(guard);
            out.send();
            if done {
                return;
            }
            // The lock is not fair: waiting readers get it only if this thread sleeps for a while.
            std::thread::sleep(BREATH);
        }
    }

    /// Applies another configuration; sessions that it still allows continue. `swap` replaces the old programs by those
    /// of the new configuration; if it fails, nothing has changed. The fast path has no sessions meanwhile if old or
    /// new programs would misread the prefix numbers in them.
    pub fn reconfigure<E>(
        &self,
        config: &Nat64Config,
        swap: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), E>, ConfigError> {
        let inner = &mut *self.lock();
        inner.leases.end_all(inner.nat64.state_mut());
        // What programs were opening meanwhile: the ports of another pool are lent to nobody.
        inner.settle();
        let old = inner.nat64.config().clone();
        let (before, after) = (&old.translator.pref64, &config.translator.pref64);
        let renumbered = !before.starts_with(after) && !after.starts_with(before);
        let state = inner.nat64.state_mut();
        let mut change = inner.mirror.change(state, renumbered);
        let swapped = swap();
        let in_force = match &swapped {
            Ok(()) => {
                inner.nat64.reconfigure(config, &mut change)?;
                config
            }
            Err(_) => &old,
        };
        change.finish(in_force, inner.nat64.state_mut());
        inner
            .leases
            .follow(in_force, inner.nat64.state().pool().pools());
        inner.mirror.tell_unbound(inner.nat64.state());
        Ok(swapped)
    }

    /// Locks the tables, after everything that the fast path has opened has been brought into them: this must precede
    /// any packet, query or change that may follow from it.
    pub(super) fn lock(&self) -> Guard<'_, Inner> {
        let mut guard = self.inner.lock().expect(HALF_CHANGED);
        guard.settle();
        guard
    }
}

impl Inner {
    /// Brings what the fast path has opened into the tables.
    pub(super) fn settle(&mut self) {
        let random = || self.stock.take();
        let (state, mirror) = (self.nat64.state_mut(), &mut self.mirror);
        self.leases.settle(state, mirror, clock::monotonic, random);
    }

    /// Gives a node's port a binding, for which the node has asked.
    pub(super) fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError> {
        let random = || self.stock.take();
        let (state, mirror) = (self.nat64.state_mut(), &mut self.mirror);
        state.grant(protocol, v6, wish, random, mirror)
    }

    /// After packets have opened sessions: begins leases, and ends some if necessary.
    fn consider_leases(&mut self) {
        // Programs open nothing while packets wait for other gateways.
        let is_vain = self.mirror.deferral().is_some();
        while let Some((protocol, node)) = self.mirror.take_opened() {
            if is_vain {
                continue;
            }
            let (mirror, state) = (&mut self.mirror, self.nat64.state_mut());
            let random = || self.stock.take();
            self.leases.consider(node, protocol, state, mirror, random);
        }
    }

    /// Sends a translated packet of `received` bytes now, or defers it, with all packets originated for it, until
    /// another gateway has acknowledged its binding.
    fn defer(
        &mut self,
        verdict: Verdict,
        packet: &Packet<'_>,
        received: usize,
        out: &mut Writer<'_>,
        tally: &Arc<QueueCounters>,
    ) -> Verdict {
        let whole = match verdict {
            Verdict::Forward => Some((packet.bytes(), packet.offload)),
            Verdict::Emitted => None,
            _ => return verdict,
        };
        let Some(deferral) = self.mirror.deferral() else {
            return verdict;
        };
        let bytes = out.bytes() + whole.map_or(0, |(bytes, _)| bytes.len());
        let is_held = deferral.hold(bytes, || {
            let (aside, tally) = (out.set_aside(whole, received), tally.clone());
            Box::new(move || aside.send(&tally))
        });
        tally.undeferred(deferral.take_passed());
        match is_held {
            true => Verdict::Held,
            false => verdict,
        }
    }

    fn count_dropped(&mut self, tally: &QueueCounters) {
        self.mirror
            .take_dropped()
            .for_each(|reason| tally.dropped(reason));
    }
}

impl Engine for Controller {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        let asked = Instant::now();
        let inner = &mut *self.lock();
        let locked = Instant::now();
        inner.mirror.packet_comes(packet.offload.label.link);
        let received = packet.bytes().len();
        let verdict = inner.nat64.translate(packet, env, out, &mut inner.mirror);
        let verdict = inner.defer(verdict, packet, received, out, &self.tally);
        inner.consider_leases();
        inner.count_dropped(&self.tally);
        inner.times[0].note(locked - asked);
        inner.times[1].note(locked.elapsed());
        verdict
    }

    fn onward(
        &self,
        packet: &mut Packet<'_>,
        mtu: usize,
        env: &mut Clock,
        out: &mut Writer<'_>,
        send: &mut dyn FnMut(&[u8], Offload),
    ) -> Verdict {
        self.lock().nat64.onward(packet, mtu, env, out, send)
    }

    fn trace(&self, packet: &[u8], env: &mut Clock) -> Option<Nat64Trace> {
        self.lock().nat64.trace(packet, env)
    }

    fn holdings_of(&self, node: Ipv6Addr) -> Vec<Holding> {
        self.lock().nat64.state().holdings_of(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::{self as config, AutoValues};
    use diolkos_service::supervise;

    /// After a panic the tables are unusable, and the alarm is raised.
    #[test]
    fn half_changed_tables_are_used_by_nobody() {
        let found = AutoValues {
            mtu4: 1500,
            mtu6: 1500,
            narrowest4: 1500,
            narrowest6: 1500,
            address6: None,
            outside: None,
        };
        let text = "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\n[[nat64.pool4]]\naddress = \"192.0.2.0/29\"\n";
        let settings = config::parse(text, "nat64.toml", |_| ()).expect("a configuration");
        let config = settings.stateful(found);
        let controller = Controller::new(&config, None, [1, 2, 3, 4]).expect("a controller");
        let controller = Arc::new(controller);
        assert!(!controller.is_broken());

        let (watch, mut alarm) = supervise::pair();
        let breaks = controller.clone();
        let broken = watch.thread("reader", move || {
            let _tables = breaks.lock();
            panic!("in the middle of a change")
        });
        broken.expect("a thread").join().expect("it is caught");
        assert!(controller.is_broken());
        let settles = controller.clone();
        let second = watch.thread("listener", move || {
            settles.settle();
            Ok(())
        });
        second.expect("a thread").join().expect("it is caught");

        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let said = runtime.expect("a runtime").block_on(async {
            [alarm.rung().await, alarm.rung().await].map(|failure| failure.to_string())
        });
        assert!(
            said[0].contains("`reader` panicked: in the middle of a change"),
            "{said:?}"
        );
        assert!(
            said[1].contains("`listener` panicked: a thread panicked"),
            "{said:?}"
        );
    }
}
