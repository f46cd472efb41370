// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of an earlier run: what the new ones share with them, or read of them.

use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapHandle, OpenMapMut, OpenObject};

use super::object::{open, size, Nat64Rules};
use crate::known_sessions::known_for;
use crate::leases::blocks_for;
use crate::lending::LeaseMaps;
use crate::load::failed;
use crate::pinned_program::{tag, PinnedProgram};
use crate::pinned_rules::PinnedRules;
use crate::skel::nat64::{Nat64Skel, OpenNat64Maps};
use crate::unbound_ports::words_of_ports;
use crate::{places_for, FastPathError, Lending, Sessions};

/// The state of the programs of an earlier run.
#[derive(Debug)]
pub enum Old {
    /// They share the maps of the new programs.
    Shared,
    /// They have other maps, because sizes or prefixes differ. The content of their maps can be read.
    Other {
        /// Their sessions.
        sessions: Arc<Sessions>,
        /// The translation prefixes to which the sessions refer by index.
        pref64: Vec<(Ipv6Addr, u8)>,
    },
    /// They are of another version, so the content of their maps cannot be read.
    Unknown,
}
/// The maps that programs take over from their predecessors, one per line.
fn inherited<'a, 'o>(
    maps: &'a mut OpenNat64Maps<'o>,
) -> [(&'static str, &'a mut OpenMapMut<'o>); 14] {
    [
        ("fates", &mut maps.fates),
        ("ipv4_ids", &mut maps.ipv4_ids),
        ("sessions6", &mut maps.sessions6),
        ("sessions4", &mut maps.sessions4),
        ("bib", &mut maps.bib),
        ("copies", &mut maps.copies),
        ("known_sessions", &mut maps.known_sessions),
        ("cluster", &mut maps.cluster),
        ("buckets", &mut maps.buckets),
        ("away", &mut maps.away),
        ("leases", &mut maps.leases),
        ("wide_ports", &mut maps.wide_ports),
        ("openings", &mut maps.openings),
        ("unbound_ports", &mut maps.unbound_ports),
    ]
}

/// Loads the object with the maps of a running program, and its key: as long as both run, a session has the same places for
/// both. None unless that has the same version, the same sizes for sessions and bindings, and the same prefix indices.
pub(super) fn load_with<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &Nat64Rules,
    known: &PinnedRules,
    pinned: &PinnedProgram,
) -> Option<(Nat64Skel<'object>, u64)> {
    let PinnedRules {
        pref64: known,
        lease_key,
    } = known;
    let wanted: Vec<_> = rules.pref64.iter().map(|p| (p.network, p.bits)).collect();
    let (short, long) = match known.len() <= wanted.len() {
        true => (known, &wanted),
        false => (&wanted, known),
    };
    let room = |name| pinned.map(name).map(|map| map.max_entries());
    if !long.starts_with(short)
        || room("sessions6")? != size(rules)
        || room("bib")? != rules.max_bindings.max(1)
        || room("away")? != rules.max_away.max(1)
        || room("leases")? != places_for(rules.max_bindings)
        || room("known_sessions")? != known_for(rules.max_sessions)
        || room("unbound_ports")? != words_of_ports(rules.max_bindings)
        || room("wide_ports")? != blocks_for(places_for(rules.max_bindings))
    {
        return None;
    }
    let mut open = open(storage, rules, *lease_key).ok()?;
    for (name, map) in inherited(&mut open.maps) {
        map.reuse_fd(pinned.map(name)?.as_fd()).ok()?;
    }
    let loaded = open.load().ok()?;
    let tag = tag(loaded.progs.nat64_egress.as_fd()).ok()?;
    (tag == pinned.tag()).then_some((loaded, *lease_key))
}

/// Reads the state of a running program whose maps cannot be shared.
pub(super) fn old(
    loaded: &Nat64Skel<'_>,
    pinned: &PinnedProgram,
    known: Option<PinnedRules>,
) -> Result<Old, FastPathError> {
    let tag = tag(loaded.progs.nat64_egress.as_fd());
    if tag.map_err(|e| FastPathError::map("the version of the programs is not known", e))?
        != pinned.tag()
    {
        return Ok(Old::Unknown);
    }
    let Some(known) = known else {
        return Ok(Old::Unknown);
    };
    let names = ["sessions6", "sessions4", "bib", "copies", "known_sessions"];
    let [Some(outward), Some(inward), Some(bound), Some(copies), Some(places)] =
        names.map(|name| pinned.map(name))
    else {
        return Ok(Old::Unknown);
    };
    let names = ["leases", "wide_ports", "openings", "unbound_ports"];
    let [Some(leases), Some(wide), Some(openings), Some(unbound)] =
        names.map(|name| pinned.map(name))
    else {
        return Ok(Old::Unknown);
    };
    let handle = |map| MapHandle::try_from(map).map_err(|e| failed("keep a map", e));
    // Sessions that it opened from now on would go unnoticed.
    let maps = LeaseMaps {
        leases: handle(leases)?,
        wide: handle(wide)?,
        openings: handle(openings)?,
        unbound: handle(unbound)?,
    };
    Lending::new(maps, 0)
        .map_err(|e| FastPathError::map("the leases of the old programs", e))?
        .reset();
    let maps = [
        handle(outward)?,
        handle(inward)?,
        handle(bound)?,
        handle(copies)?,
        handle(places)?,
    ];
    let sessions = Sessions::of(maps, known.lease_key)
        .map_err(|e| FastPathError::map("the sessions of the old programs", e))?;
    Ok(Old::Other {
        sessions: Arc::new(sessions),
        pref64: known.pref64,
    })
}
