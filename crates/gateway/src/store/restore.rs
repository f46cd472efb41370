// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Restores the tables from the file, and from the maps of programs that continued to run.
//!
//! The operator's bindings go first: sessions that only the maps have may belong to such a binding, whose port need not
//! be in the pool. After a clean end, the file is right, and the maps know which sessions were active since. After a
//! kill, the maps are right; but only the file knows the age of a session that the programs have never used.

use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_fastpath::Old;
use diolkos_nat64::config::{Binding, Nat64Config};
use diolkos_nat64::session::{BindingView, Origin, SessionState, SessionView};
use diolkos_sys::clock;
use diolkos_xlat::Reason;
use ipnet::Ipv6Net;

use super::super::controller::Controller;
use super::file::StoredState;
use super::format::{Head, Malformed, StateReader};
use super::moment::Moment;
use super::reconcile::{self, places};
use super::restored::Restored;
use super::tables::Tables;

/// The sources from which sessions are restored, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    FileThenMaps,
    MapsThenFile,
}

impl Order {
    fn of(found: &StoredState) -> Order {
        match found {
            StoredState::Whole(stored) if !stored.head.clean => Order::MapsThenFile,
            StoredState::Nothing | StoredState::Whole(_) | StoredState::Part(_) => {
                Order::FileThenMaps
            }
        }
    }
}

/// Fills the tables of a controller, which are empty, and makes the maps of the fast path agree with them. `own` are
/// addresses of this host, which no binding can have. `is_in_vain` returns true if no caller waits any more; the
/// restore then stops half done with an error.
pub fn restore(
    controller: &Controller,
    found: &mut StoredState,
    old: Option<&Old>,
    own: &[Ipv4Addr],
    is_in_vain: &dyn Fn() -> bool,
) -> Result<Restored, Malformed> {
    controller.restore(|nat64, mirror| {
        let mut tables = Tables { nat64, mirror };
        let restored = bring_back(&mut tables, found, old, own, is_in_vain)?;
        tables.mirror.finish();
        Ok(restored)
    })
}

fn bring_back(
    tables: &mut Tables<'_>,
    found: &mut StoredState,
    old: Option<&Old>,
    own: &[Ipv4Addr],
    is_in_vain: &dyn Fn() -> bool,
) -> Result<Restored, Malformed> {
    let (mut restored, mut by_maps) = (Restored::default(), Restored::default());
    let order = Order::of(found);
    let mut file = match found {
        StoredState::Nothing => None,
        StoredState::Part(kept) => {
            for known in &kept.bindings {
                binding(tables, *known, own, &mut restored);
            }
            None
        }
        StoredState::Whole(stored) => {
            let head = stored.head.clone();
            let mut reader = stored.reader()?;
            while let Some(known) = reader.binding()? {
                binding(tables, known, own, &mut restored);
            }
            Some((reader, head))
        }
    };
    // With all bindings, it is known which peers are our own.
    let config = tables.nat64.config().clone();
    tables.mirror.follow(&config, tables.nat64.state_mut());

    if order == Order::MapsThenFile {
        reconcile::take_in(tables, old, &mut by_maps);
    }
    let known = match &mut file {
        Some((reader, head)) => sessions(tables, reader, head, old, is_in_vain, &mut restored)?,
        None => 0,
    };
    if order == Order::FileThenMaps {
        reconcile::take_in(tables, old, &mut by_maps);
    }

    restored.from_maps = by_maps.from_maps.saturating_sub(known);
    for (reason, number) in by_maps.refused {
        // A session in both sources was refused twice.
        let refused = restored.refused.entry(reason).or_default();
        *refused = number.max(*refused);
    }
    reconcile::settle(tables, old);
    Ok(restored)
}

/// Restores a binding of the operator.
fn binding(tables: &mut Tables<'_>, binding: Binding, own: &[Ipv4Addr], restored: &mut Restored) {
    if own.contains(&binding.v4.addr) {
        *restored.refused.entry("address_of_this_host").or_default() += 1;
        return;
    }
    let view = BindingView {
        binding,
        origin: Origin::Operator,
        sessions: 0,
    };
    let state = tables.nat64.state_mut();
    match state.restore_binding(&view, &mut tables.mirror) {
        Ok(()) => restored.bindings += 1,
        Err(error) => {
            tracing::warn!(
                "the binding of {} to {} was not restored: {error}",
                binding.v4,
                binding.v6
            );
            *restored.refused.entry("binding").or_default() += 1;
        }
    }
}

/// Restores the sessions of the file. Logs how many the maps had already restored.
fn sessions(
    tables: &mut Tables<'_>,
    file: &mut StateReader<impl Read>,
    head: &Head,
    old: Option<&Old>,
    is_in_vain: &dyn Fn() -> bool,
    restored: &mut Restored,
) -> Result<u32, Malformed> {
    let config = tables.nat64.config().clone();
    let passed = head.moment.until(&Moment::now());
    let places = places(&head.pref64, &config.translator.pref64);
    // Programs that continued to translate may have used any session since.
    let watched = matches!(old, Some(Old::Shared | Old::Other { .. }));
    let now = clock::monotonic();
    let mut known = 0;
    while let Some(mut view) = file.session()? {
        if is_in_vain() {
            let why = io::Error::new(io::ErrorKind::Interrupted, "the program is to end");
            return Err(Malformed::Unreadable(why));
        }
        if !watched && is_over(&view, passed, &config) {
            restored.expired += 1;
            continue;
        }
        let prefix = head.pref64.get(usize::from(view.prefix)).copied();
        let place = places.get(usize::from(view.prefix)).copied().flatten();
        // A session with no time left ends in the next sweep, as its state requires.
        view.remaining = view.remaining.saturating_sub(passed);
        let Binding { protocol, v6, .. } = view.binding;
        let state = tables.nat64.state();
        let is_known = state.session(protocol, v6, view.peer).is_some();
        let done = match place {
            Some(place) => {
                view.prefix = place;
                match old {
                    // The maps have it already, or get it when all is there.
                    Some(Old::Shared) => {
                        let state = tables.nat64.state_mut();
                        state.restore_session(&view, now, &mut ())
                    }
                    _ => {
                        let state = tables.nat64.state_mut();
                        state.restore_session(&view, now, &mut tables.mirror)
                    }
                }
            }
            None => Err(Reason::DestinationUnmapped),
        };
        match done {
            Ok(()) => {
                restored.sessions += 1;
                known += u32::from(is_known);
            }
            Err(Reason::NoBinding) if watched => restored.outdated += 1,
            // Its prefix has been removed since the file was written.
            Err(Reason::DestinationUnmapped) if ended_with_prefix(old, prefix) => {
                restored.outdated += 1;
            }
            // Another node has got the port since the file was written.
            Err(Reason::PoolExhausted) if watched && has_port(tables, &view) => {
                restored.outdated += 1;
            }
            Err(reason) => *restored.refused.entry(reason.name()).or_default() += 1,
        }
    }
    Ok(known)
}

/// Returns true if programs that translated until now no longer had this prefix, and the new ones do not have it
/// either.
fn ended_with_prefix(old: Option<&Old>, prefix: Option<Ipv6Net>) -> bool {
    match (old, prefix) {
        // They have those that the new ones have.
        (Some(Old::Shared), Some(_)) => true,
        (Some(Old::Other { pref64, .. }), Some(prefix)) => {
            !pref64.contains(&(prefix.addr(), prefix.prefix_len()))
        }
        _ => false,
    }
}

fn has_port(tables: &Tables<'_>, view: &SessionView) -> bool {
    let pool = tables.nat64.state().pool();
    pool.covers(view.binding.protocol, view.binding.v4)
}

/// Returns true if the tables would have ended the session by now, had they been there. An established connection is
/// probed once (RFC 6146 section 3.5.2.2), and has some time to answer.
fn is_over(view: &SessionView, passed: Duration, config: &Nat64Config) -> bool {
    let grace = match view.state {
        SessionState::Established => config.timeouts.tcp_transitory,
        _ => Duration::ZERO,
    };
    passed > view.remaining + grace
}
