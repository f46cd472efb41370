// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of all sessions: it handles every packet that may begin, change or end one, and the operator's commands.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use diolkos_fastpath::{Gateway as Hop, Lending, Sessions};
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{BindError, BindingView, Counts, Holding, SessionView};
use diolkos_nat64::Nat64;
use diolkos_nat64::Nat64Trace;
use diolkos_node::gateway::Order;
use diolkos_node::{Event as NodeEvent, Node, NodeId};
use diolkos_sys::clock;
use diolkos_xlat::config::ConfigError;
use diolkos_xlat::{Offload, Packet, Verdict};
use ipnet::Ipv6Net;

use super::deferral::Departing;
use super::fastpath::{FastPath, Kernel};
use super::hands;
use super::leases::Leases;
use super::mirror::{Mirror, Restoring};
use super::peers::Peers;
use super::records::Records;
use super::terms::at_of;
use diolkos_datapath::slowpath::{Clock, Engine, Writer};
use diolkos_figures::counters::Tally;
use diolkos_figures::figures::{PoolFigures, Spread, StateFigures};
use diolkos_service::random::Stock;

/// Number of entries that are handled before packets may pass again.
pub const BUDGET: usize = 512;
/// Duration of that pause.
const BREATH: Duration = Duration::from_micros(100);
/// After a panic no thread may use the half-changed tables: each thread ends, and the first one ends the program.
const HALF_CHANGED: &str = "a thread panicked while it changed the tables";

/// The tables and their copy in the fast path. It handles one packet at a time.
pub struct Controller {
    inner: Mutex<Inner>,
    kernel: Option<Arc<Kernel>>,
    /// Counts the fate of packets that were held, and what the sweeper sent.
    pub tally: Arc<Tally>,
}

struct Inner {
    nat64: Nat64,
    mirror: Mirror,
    leases: Leases,
    stock: Stock,
    /// How long packets waited for the lock, and how long they held it.
    times: [Spread; 2],
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
        Controller::of(config, (kernel, fast), secret)
    }

    /// The same for a fast path outside the kernel.
    pub fn beside(
        config: &Nat64Config,
        fast: Arc<dyn FastPath>,
        secret: [u64; 4],
    ) -> Result<Controller, ConfigError> {
        Controller::of(config, (None, Some(fast)), secret)
    }

    fn of(
        config: &Nat64Config,
        (kernel, fast): (Option<Arc<Kernel>>, Option<Arc<dyn FastPath>>),
        secret: [u64; 4],
    ) -> Result<Controller, ConfigError> {
        let nat64 = Nat64::new(config, secret)?;
        let mut mirror = Mirror::new(config, fast.clone());
        mirror.begin(nat64.state());
        Ok(Controller {
            inner: Mutex::new(Inner {
                nat64,
                mirror,
                leases: Leases::new(config, fast),
                stock: Stock::default(),
                times: Default::default(),
            }),
            kernel,
            tally: Arc::new(Tally::default()),
        })
    }

    /// Has `fill` restore the tables, which are empty, and their copy from an earlier run, before any packet arrives.
    pub fn restore<T>(&self, fill: impl FnOnce(&mut Nat64, Restoring<'_>) -> T) -> T {
        let inner = &mut *self.lock();
        fill(&mut inner.nat64, inner.mirror.restore())
    }

    /// Records every change of the tables from now on. `records` creates the recorder from the tables; None records
    /// nothing.
    pub fn record(&self, records: impl FnOnce(&Nat64) -> Option<Box<dyn Records>>) {
        let inner = &mut *self.lock();
        inner.mirror.records = records(&inner.nat64);
    }

    /// Serves hosts together with other gateways from now on. `peers` is created for these tables, and has no copies
    /// yet.
    pub fn join(&self, peers: Peers) {
        let inner = &mut *self.lock();
        let bindings = inner.nat64.state().bindings();
        inner.mirror.join(peers, bindings.map(|view| view.binding));
    }

    /// Handles an event among the gateways. Messages to other gateways are appended to `orders`, and must be carried
    /// out in that order. Packets that waited for another gateway, and may leave now, are appended to `departing`.
    pub fn hear(&self, event: NodeEvent<'_>, orders: &mut Vec<Order>, departing: &mut Departing) {
        let inner = &mut *self.lock();
        let (state, mirror) = (inner.nat64.state_mut(), &mut inner.mirror);
        hands::hear(event, state, mirror, &mut inner.leases, orders, departing);
    }

    /// Sends packets that have waited.
    pub fn send(&self, departing: &mut Departing) {
        self.tally.deferred(departing.send());
    }

    /// Stops the deferral: no packet waits for other gateways any more.
    pub fn stop_deferring(&self) {
        let inner = &mut *self.lock();
        let mirror = &mut inner.mirror;
        let deferral = mirror.peers.as_mut();
        let mut departing = Departing::default();
        if let Some(mut deferral) = deferral.and_then(|peers| peers.deferral.take()) {
            let all = (None, Duration::ZERO);
            hands::release(
                &mut deferral,
                all,
                inner.nat64.state(),
                mirror,
                &mut departing,
            );
        }
        self.send(&mut departing);
    }

    /// Sets how another gateway is reached from now on; None if it cannot be reached.
    pub fn reach(&self, node: NodeId, hop: Option<Hop>) {
        if let Some(peers) = &mut self.lock().mirror.peers {
            peers.reach(node, hop);
        }
    }

    /// Calls `see` with this gateway's view of the cluster, if it is in one.
    pub fn look_at_node<T>(&self, see: impl FnOnce(&Node) -> T) -> Option<T> {
        let inner = &*self.lock();
        inner.mirror.peers.as_ref().map(|peers| see(peers.node()))
    }

    /// Calls `see` with the tables, which do not change meanwhile.
    pub fn look<T>(&self, see: impl FnOnce(&Nat64) -> T) -> T {
        see(&self.lock().nat64)
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
        inner.leases.follow(in_force);
        Ok(swapped)
    }

    /// Creates a binding that lasts until it is ended.
    pub fn bind(&self, binding: Binding) -> Result<(), BindError> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        // The port may be lent.
        inner.leases.end_all(state);
        state.bind(binding, &mut inner.mirror)?;
        inner.mirror.add_own(binding.v4.addr, state.sessions());
        Ok(())
    }

    /// Ends a binding and its sessions.
    pub fn unbind(&self, protocol: Protocol, v4: Endpoint4) -> Result<Binding, BindError> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        state.unbind(protocol, v4, &mut inner.mirror)
    }

    /// Ends a session, in the fast path too. `v4` is the external address and port of its binding, if known. Returns
    /// None if there is no such session.
    pub fn end_session(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        v4: Option<Endpoint4>,
        peer: Endpoint4,
    ) -> Option<SessionView> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        state.end_session(protocol, v6, v4, peer, &mut inner.mirror)
    }

    /// Returns some of the sessions, from slot `first` of the table on (0 is the first), and the slot to continue at.
    /// With `asks`, the fast path is asked for what it has seen of them, which takes most of the time.
    pub fn sessions_from(&self, first: u32, asks: bool) -> (Vec<SessionView>, Option<u32>) {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        if asks {
            state.catch_up(first, BUDGET, &mut inner.mirror);
        }
        state.sessions_from(first, BUDGET)
    }

    /// Returns some of the bindings, in the same way.
    pub fn bindings_from(&self, first: u32) -> (Vec<BindingView>, Option<u32>) {
        self.lock().nat64.state().bindings_from(first, BUDGET)
    }

    /// Returns some of the prefixes that hold something, in the same way; `places` is the number of slots to scan.
    pub fn holdings_from(&self, first: u32, places: usize) -> (Vec<Holding>, Option<u32>) {
        self.lock().nat64.state().holdings_from(first, places)
    }

    /// Returns the translation prefixes. Sessions refer to them by their position in this list.
    pub fn pref64(&self) -> Vec<Ipv6Net> {
        self.lock().nat64.config().translator.pref64.clone()
    }

    /// Returns true if entries have been added, removed or changed since the last call.
    pub fn take_changed(&self) -> bool {
        std::mem::take(&mut self.lock().mirror.changed)
    }

    /// Returns the number of entries of each kind.
    pub fn counts(&self) -> Counts {
        self.lock().nat64.state().counts()
    }

    /// Returns figures of the tables. The time that this takes does not depend on the number of entries.
    pub fn figures(&self) -> StateFigures {
        let inner = &*self.lock();
        let (state, nat64) = (inner.nat64.state(), &inner.nat64);
        let (counts, pool, limits) = (state.counts(), state.pool(), &nat64.config().limits);
        let (leases, lent) = inner.leases.lent_out();
        let outside = state.from_outside();
        let of_pool = |protocol: Protocol| PoolFigures {
            ports: pool.ports(protocol),
            free: pool.free_ports(protocol),
            lent: at_of(protocol).map_or(0, |at| u64::from(lent.ports[at])),
            exhausted_addresses: (pool.len() as u64)
                .saturating_sub(u64::from(pool.addresses_with_free(protocol))),
        };
        StateFigures {
            sessions: counts.sessions_of,
            bindings: counts.bindings_of,
            max_sessions: limits.sessions,
            max_bindings: limits.bindings,
            sources: counts.sources,
            held_syns: counts.held_syns as u64,
            max_held_syns: limits.held_syns,
            held_fragments: nat64.held_fragments() as u64,
            pool_addresses: pool.len() as u64,
            pool: Protocol::ALL.map(of_pool),
            port_blocks: pool.blocks().into(),
            is_deterministic: pool.mapping().is_some(),
            outside_sessions: [outside.has, outside.may],
            leases,
            lent_sessions: lent.sessions,
            lock_wait: inner.times[0],
            lock_held: inner.times[1],
            resources: Vec::new(),
            near_share: [0; 3],
        }
    }

    /// Returns the number of sessions that did not fit into the fast path's maps.
    pub fn refused(&self) -> u64 {
        self.lock().mirror.refused
    }

    /// Returns how often the tables continued without a report that a program had reserved but not yet submitted.
    pub fn unheard(&self) -> u64 {
        self.kernel.as_ref().map_or(0, |kernel| kernel.unheard())
    }

    /// Locks the tables, after everything that the fast path has opened has been brought into them: this must precede
    /// any packet, query or change that may follow from it.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut guard = self.inner.lock().expect(HALF_CHANGED);
        let inner = &mut *guard;
        let random = || inner.stock.take();
        let state = inner.nat64.state_mut();
        inner
            .leases
            .settle(state, &mut inner.mirror, clock::monotonic, random);
        guard
    }
}

impl Inner {
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
        (packet, received): (&Packet<'_>, usize),
        out: &mut Writer<'_>,
        tally: &Arc<Tally>,
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

    fn count_dropped(&mut self, tally: &Tally) {
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
        let verdict = inner.defer(verdict, (packet, received), out, &self.tally);
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
    use diolkos_config::{self as config, Found};
    use diolkos_service::supervise;

    /// After a panic the tables are unusable, and the alarm is raised.
    #[test]
    fn half_changed_tables_are_used_by_nobody() {
        let found = Found {
            mtu4: 1500,
            mtu6: 1500,
            address6: None,
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
