// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts changes of the tables to records of the binding log.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};

use diolkos_nat64::config::{Binding, Mapping, Mappings, Nat64Config, PoolId, PortBlocks};
use diolkos_nat64::session::{BlockView, Event, SessionView, State};
use diolkos_nat64::Nat64;
use diolkos_xlat::addr::rfc6052::Pref64;

use super::controller::Controller;
use super::records::Records;
use diolkos_bindlog::{EntryChange, ListPosition, Lister, Mapped, Queue, Record, Recorders, What};

/// Number of entries that are listed before packets pass again.
const BUDGET: usize = 512;

/// Sends records of changes to the collectors.
#[derive(Debug)]
pub struct Log {
    recorders: Recorders,
    prefixes: Vec<Pref64>,
    /// Blocks that sources have: bindings within them need no record.
    blocks: HashMap<(Ipv4Addr, u16), BlockView>,
    /// Number of ports in a block; 0 if there are no blocks.
    ports_per_block: u16,
    /// The sources' fixed ports, which need no record.
    mappings: Option<Arc<Mappings>>,
    /// The address in the tables that IPv4 hosts see as another one.
    replaced: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Log {
    /// Creates a log; None if there is no collector.
    pub fn to(recorders: Recorders, nat64: &Nat64) -> Option<Box<dyn Records>> {
        recorders.any().then(|| {
            let blocks = nat64.state().blocks_from(0, usize::MAX).into_iter();
            Box::new(Log {
                recorders,
                prefixes: prefixes(nat64.config()),
                blocks: blocks.map(|view| ((view.addr, view.first), view)).collect(),
                ports_per_block: ports_per_block(nat64.config()),
                mappings: nat64.state().pool().mappings().cloned(),
                replaced: nat64.config().replaced(),
            }) as Box<dyn Records>
        })
    }

    /// Returns true if the binding is in a block of its own source, fixed or allocated.
    fn is_in_block(&self, binding: &Binding) -> bool {
        let fixed = self.mappings.as_ref();
        let owner = fixed.and_then(|mappings| mappings.source_of(binding.v4));
        if let Some(owner) = owner {
            return owner.contains(&binding.v6.addr);
        }
        let Some(last) = self.ports_per_block.checked_sub(1) else {
            return false;
        };
        let of_source = |view: &BlockView| {
            let bits = u32::from(view.source_prefix_len.clamp(1, 128));
            let source = binding.v6.addr.to_bits() & u128::MAX << (128 - bits);
            view.source == Ipv6Addr::from_bits(source)
        };
        let place = (binding.v4.addr, binding.v4.port & !last);
        self.blocks.get(&place).is_some_and(of_source)
    }
}

impl Records for Log {
    fn event(&mut self, event: &Event) {
        let seen = |binding| as_seen(binding, self.replaced);
        let session = |change, view: &SessionView| {
            if self.recorders.want_sessions() {
                let view = SessionView {
                    binding: seen(view.binding),
                    ..*view
                };
                self.recorders
                    .record(session_record(change, &view, &self.prefixes));
            }
        };
        match event {
            Event::BindingOpened(binding) | Event::BindingClosed(binding)
                if self.is_in_block(binding) => {}
            Event::BindingOpened(binding) => {
                self.recorders
                    .record(What::Binding(EntryChange::Created, seen(*binding)));
            }
            Event::BindingClosed(binding) => {
                self.recorders
                    .record(What::Binding(EntryChange::Deleted, seen(*binding)));
            }
            Event::SessionOpened(view) => session(EntryChange::Created, view),
            Event::SessionClosed(view) => session(EntryChange::Deleted, view),
            Event::SessionChanged(..) => {}
            // The gateway that has the binding logs it.
            Event::CopyMade(..) | Event::CopyEnded(..) => {}
            Event::BlockAllocated(view) => {
                self.blocks.insert((view.addr, view.first), *view);
                self.recorders
                    .record(What::Block(EntryChange::Created, *view));
            }
            Event::BlockReleased(view) => {
                self.blocks.remove(&(view.addr, view.first));
                self.recorders
                    .record(What::Block(EntryChange::Deleted, *view));
            }
        }
    }

    fn follow(&mut self, config: &Nat64Config, state: &State) {
        self.prefixes = prefixes(config);
        self.ports_per_block = ports_per_block(config);
        self.mappings = state.pool().mappings().cloned();
        self.replaced = config.replaced();
    }
}

/// Returns a binding with the address that IPv4 hosts see.
fn as_seen(mut binding: Binding, replaced: Option<(Ipv4Addr, Ipv4Addr)>) -> Binding {
    if let Some((_, outside)) = replaced.filter(|(inside, _)| *inside == binding.v4.addr) {
        binding.v4.addr = outside;
    }
    binding
}

fn ports_per_block(config: &Nat64Config) -> u16 {
    config.blocks.map_or(0, |blocks| blocks.ports)
}

fn prefixes(config: &Nat64Config) -> Vec<Pref64> {
    let prefixes = config.translator.pref64.iter();
    prefixes.map(|&prefix| Pref64::new(prefix)).collect()
}

fn session_record(change: EntryChange, view: &SessionView, prefixes: &[Pref64]) -> What {
    let peer6 = prefixes
        .get(usize::from(view.prefix))
        .map(|prefix| prefix.embed(view.peer.addr));
    let unknown = std::net::Ipv6Addr::UNSPECIFIED;
    What::Session(change, view.binding, view.peer, peer6.unwrap_or(unknown))
}

/// Returns a lister of everything that a controller has in force, for as long as the controller
/// exists.
pub fn lister(controller: &Arc<Controller>, sessions: bool) -> Lister {
    let controller: Weak<Controller> = Arc::downgrade(controller);
    Box::new(move |place, queue| {
        let controller = controller.upgrade()?;
        Some(list(&controller, sessions, place, queue))
    })
}

/// Lists one part. The queue is filled under the lock, so that the end of an entry is always
/// recorded after its listing.
fn list(
    controller: &Controller,
    sessions: bool,
    place: ListPosition,
    queue: &Queue,
) -> ListPosition {
    controller.look(|nat64| {
        let state = nat64.state();
        let replaced = nat64.config().replaced();
        match place {
            ListPosition::Mapping(first) => match state.pool().mappings() {
                Some(mappings) => list_mappings(mappings, nat64.config(), first, queue),
                None => ListPosition::Blocks(0),
            },
            ListPosition::Blocks(first) => {
                let views = state.blocks_from(first, BUDGET);
                for view in &views {
                    queue.push(Record::now(What::Block(EntryChange::InForce, *view)));
                }
                match views.len() < BUDGET {
                    true => ListPosition::Bindings(0, 0),
                    false => ListPosition::Blocks(first + BUDGET as u32),
                }
            }
            ListPosition::Bindings(first, before) => {
                let (views, next) = state.bindings_from(first, BUDGET);
                for view in views.iter().filter(|v| !state.is_in_block(&v.binding)) {
                    queue.push(Record::now(What::Binding(
                        EntryChange::InForce,
                        as_seen(view.binding, replaced),
                    )));
                }
                let count = before + views.len() as u64;
                match next {
                    Some(next) => ListPosition::Bindings(next, count),
                    None if sessions => ListPosition::Sessions(0, count),
                    None => ListPosition::End(count),
                }
            }
            ListPosition::Sessions(first, count) => {
                let (views, next) = state.sessions_from(first, BUDGET);
                let prefixes = prefixes(nat64.config());
                for mut view in views {
                    view.binding = as_seen(view.binding, replaced);
                    queue.push(Record::now(session_record(
                        EntryChange::InForce,
                        &view,
                        &prefixes,
                    )));
                }
                next.map_or(ListPosition::End(count), |next| {
                    ListPosition::Sessions(next, count)
                })
            }
            ListPosition::End(_) => place,
        }
    })
}

/// Lists the records of the mappings, beginning with the record `first`.
fn list_mappings(
    mappings: &Mappings,
    config: &Nat64Config,
    first: u32,
    queue: &Queue,
) -> ListPosition {
    let mut before = first as usize;
    let mut room = BUDGET;
    for (pool, mapping) in mappings.iter() {
        let count = 1 + mapping.sources().len() + mapping.addresses().len();
        if before >= count {
            before -= count;
            continue;
        }
        let skipped = std::mem::take(&mut before);
        let its = records_of(pool, mapping, config).skip(skipped);
        its.take(room)
            .for_each(|what| queue.push(Record::now(what)));
        match room.checked_sub(count - skipped) {
            Some(left) => room = left,
            None => return ListPosition::Mapping(first + BUDGET as u32),
        }
    }
    ListPosition::Blocks(0)
}

/// The records of a mapping: its figures, its source prefixes, and those of its pool.
fn records_of<'a>(
    pool: PoolId,
    mapping: &'a Mapping,
    config: &Nat64Config,
) -> impl Iterator<Item = What> + 'a {
    let (sources, addresses) = (mapping.sources(), mapping.addresses());
    let figures = mapping.figures();
    let in_blocks = |blocks: PortBlocks| u32::from(blocks.per_source) * u32::from(blocks.ports);
    let mapped = What::Mapping(Mapped {
        pool,
        figures,
        max_ports_per_source: u32::from(figures.ports_per_source)
            + config.blocks.map_or(0, in_blocks),
        sources: sources.len() as u32,
        addresses: addresses.len() as u32,
    });
    let sources = sources.iter().enumerate();
    let sources = sources.map(move |(at, net)| What::MappedSources(pool, at as u32, *net));
    let addresses = addresses.iter().enumerate();
    let addresses = addresses.map(move |(at, net)| What::MappedAddresses(pool, at as u32, *net));
    std::iter::once(mapped).chain(sources).chain(addresses)
}
