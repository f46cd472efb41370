// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages about addresses that are answered for one by one, and their times (RFC 5227, RFC 4862 section 5.4,
//! RFC 4861 section 7.2.6). Without clock and sockets: times are arguments.
//!
//! probing → announcing → held; or taken by another node, and tried again later: at once when its owner, which is
//! polled, is gone

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// RFC 5227 section 1.1; the names there are PROBE_WAIT, PROBE_NUM, PROBE_MIN, PROBE_MAX, ANNOUNCE_WAIT.
const PROBE_WAIT: Duration = Duration::from_secs(1);
const PROBES4: u8 = 3;
const PROBE_MIN: Duration = Duration::from_secs(1);
const PROBE_MAX: Duration = Duration::from_secs(2);
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// ANNOUNCE_NUM and ANNOUNCE_INTERVAL.
const ANNOUNCEMENTS4: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// DEFEND_INTERVAL.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// An address that another node has is tried again after this time, then after twice as long, …
const TRY_AGAIN: Duration = Duration::from_secs(4);
/// … and at the latest after this time: RATE_LIMIT_INTERVAL. A host that chooses its address has to wait this long
/// after ten conflicts.
const TRY_AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// DupAddrDetectTransmits (RFC 4862 section 5.1), MAX_NEIGHBOR_ADVERTISEMENT and RetransTimer (RFC 4861 section 10).
const PROBES6: u8 = 1;
const ANNOUNCEMENTS6: u8 = 3;
const RETRANSMIT: Duration = Duration::from_secs(1);

/// Interval between two polls of a node that has addresses (RFC 1122 section 2.3.2.1), by a packet to that node alone.
/// …
const POLL: Duration = Duration::from_millis(500);
/// … The node is gone after this many polls without an answer, if it has answered before. Otherwise only the times
/// above apply.
const POLLS: u8 = 2;
/// Maximum number of owners that are polled at a time.
const MOST_OWNERS: usize = 4;

/// A link-layer address.
pub type Mac = [u8; 6];

/// An action for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAction {
    /// Probe for the address.
    Probe(IpAddr),
    /// Poll the node that has it.
    Poll(IpAddr, Mac),
    /// Answer for it from now on.
    Hold(IpAddr),
    /// Announce to all nodes that we have it.
    Announce(IpAddr),
}

/// The message of another node about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoke {
    /// It claims the address.
    Claims,
    /// It probes for the address, because it wants it.
    Probes,
    /// It had the address, and has released it.
    Releases,
}

/// The result of another node's message about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// The address is left to the other node, for now.
    Taken,
    /// The address stays ours, which has to be announced.
    Defended,
    /// The address stays ours, which has just been announced.
    Undefended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This number of probes was sent.
    Probing(u8),
    /// This number of announcements was sent.
    Announcing(u8),
    Held,
    Taken,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    state: State,
    /// When the next step is due.
    due: Option<Instant>,
    defended: Option<Instant>,
    /// How often in a row it was taken.
    conflicts: u32,
    /// The node that has it, or probes for it, while it is taken.
    owner: Mac,
}

/// A node that has addresses of ours.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    /// True if it has answered a poll.
    answers: bool,
    /// Number of polls since it was last heard.
    polls: u8,
}

/// The addresses, with the state of each.
#[derive(Debug, Default)]
pub struct Claims {
    claims: BTreeMap<IpAddr, Claim>,
    owners: BTreeMap<Mac, Owner>,
    /// When owners are polled next.
    poll: Option<Instant>,
}

impl Claims {
    /// Adds an address: begins with probes, or at once with announcements. `chance` has random bits.
    pub fn add(&mut self, address: IpAddr, probes: bool, now: Instant, chance: u64) {
        let (state, due) = match probes {
            true => (State::Probing(0), now + part(PROBE_WAIT, chance)),
            false => (State::Probing(u8::MAX), now),
        };
        let claim = Claim {
            state,
            due: Some(due),
            defended: None,
            conflicts: 0,
            owner: [0; 6],
        };
        self.claims.insert(address, claim);
    }

    /// Returns the addresses that are answered for.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let is_held = |claim: &Claim| matches!(claim.state, State::Announcing(_) | State::Held);
        let held = self.claims.iter().filter(move |(_, claim)| is_held(claim));
        held.map(|(address, _)| *address)
    }

    /// Returns the addresses that another node has, also while they are tried again.
    pub fn taken(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let taken = self.claims.iter().filter(|(_, claim)| claim.conflicts > 0);
        taken.map(|(address, _)| *address)
    }

    /// Returns the addresses that are still being probed.
    pub fn pending(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let is_pending = |claim: &Claim| {
            matches!(claim.state, State::Probing(sent) if sent < u8::MAX) && claim.conflicts == 0
        };
        let pending = self.claims.iter().filter(move |(_, its)| is_pending(its));
        pending.map(|(address, _)| *address)
    }

    /// Returns all addresses.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.claims.keys().copied()
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Returns true if it contains the address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.claims.contains_key(&address)
    }

    /// Announces everything that is held again, because neighbours may have another link-layer address in their caches.
    pub fn announce_again(&mut self, now: Instant) {
        for claim in self.claims.values_mut() {
            if matches!(claim.state, State::Announcing(_) | State::Held) {
                (claim.state, claim.due) = (State::Announcing(0), Some(now));
            }
        }
    }

    /// Sends all probes of an address again from a time on, because no node could receive them.
    pub fn ask_again(&mut self, address: IpAddr, at: Instant) {
        if let Some(claim) = self.claims.get_mut(&address) {
            (claim.state, claim.due) = (State::Probing(0), Some(at));
        }
    }

    /// Returns when something is due next.
    pub fn next(&self) -> Option<Instant> {
        let due = self.claims.values().filter_map(|claim| claim.due);
        due.chain(self.poll).min()
    }

    /// Returns everything that is due, in the order in which it has to be done.
    pub fn due(&mut self, now: Instant, mut chance: impl FnMut() -> u64) -> Vec<ClaimAction> {
        let mut steps = self.poll(now);
        let mut is_free_again = false;
        for (&address, claim) in &mut self.claims {
            if claim.due.is_none_or(|due| due > now) {
                continue;
            }
            let (probes, announcements) = match address {
                IpAddr::V4(_) => (PROBES4, ANNOUNCEMENTS4),
                IpAddr::V6(_) => (PROBES6, ANNOUNCEMENTS6),
            };
            let sent = match claim.state {
                State::Probing(sent) if sent < probes => {
                    steps.push(ClaimAction::Probe(address));
                    claim.state = State::Probing(sent + 1);
                    let pause = match address {
                        IpAddr::V6(_) => RETRANSMIT,
                        IpAddr::V4(_) if sent + 1 == probes => ANNOUNCE_WAIT,
                        IpAddr::V4(_) => PROBE_MIN + part(PROBE_MAX - PROBE_MIN, chance()),
                    };
                    claim.due = Some(now + pause);
                    continue;
                }
                State::Taken => {
                    claim.state = State::Probing(0);
                    claim.due = Some(now + part(PROBE_WAIT, chance()));
                    continue;
                }
                State::Probing(_) => {
                    steps.push(ClaimAction::Hold(address));
                    is_free_again |= std::mem::take(&mut claim.conflicts) > 0;
                    0
                }
                State::Announcing(sent) => sent,
                State::Held => continue,
            };
            steps.push(ClaimAction::Announce(address));
            let interval = match address {
                IpAddr::V4(_) => ANNOUNCE_INTERVAL,
                IpAddr::V6(_) => RETRANSMIT,
            };
            (claim.state, claim.due) = match sent + 1 < announcements {
                true => (State::Announcing(sent + 1), Some(now + interval)),
                false => (State::Held, None),
            };
        }
        if is_free_again {
            // The node that had one of them may be gone, so the others may be free, too.
            for claim in self
                .claims
                .values_mut()
                .filter(|claim| claim.state == State::Taken)
            {
                claim.due = Some(now + part(PROBE_WAIT, chance()));
            }
        }
        steps
    }

    /// Polls the owners of addresses. When an owner is gone, all its addresses are tried at once.
    fn poll(&mut self, now: Instant) -> Vec<ClaimAction> {
        let mut steps = Vec::new();
        if self.poll.is_none_or(|at| at > now) {
            return steps;
        }
        let mut owned: BTreeMap<Mac, IpAddr> = BTreeMap::new();
        for (address, claim) in &self.claims {
            if claim.state == State::Taken {
                owned.entry(claim.owner).or_insert(*address);
            }
        }
        self.owners.retain(|mac, _| owned.contains_key(mac));
        for (mac, address) in owned.into_iter().take(MOST_OWNERS) {
            let owner = self.owners.entry(mac).or_default();
            if !owner.answers || owner.polls < POLLS {
                owner.polls = owner.polls.saturating_add(1);
                steps.push(ClaimAction::Poll(address, mac));
                continue;
            }
            self.owners.remove(&mac);
            let is_theirs = |its: &&mut Claim| its.state == State::Taken && its.owner == mac;
            for claim in self.claims.values_mut().filter(is_theirs) {
                // The pause before a first probe is for nodes that start together; polls have no common start.
                (claim.state, claim.due) = (State::Probing(0), Some(now));
            }
        }
        let mut all = self.claims.values();
        let is_polling = all.any(|claim| claim.state == State::Taken);
        self.poll = is_polling.then_some(now + POLL);
        steps
    }

    /// Handles another node's message about an address, from a link-layer address. Returns None if there is no
    /// conflict.
    pub fn heard(
        &mut self,
        address: IpAddr,
        spoke: Spoke,
        from: Mac,
        now: Instant,
    ) -> Option<Clash> {
        let claim = self.claims.get_mut(&address)?;
        let before = claim.owner;
        match claim.state {
            State::Probing(_) => {
                let pause = TRY_AGAIN * (1 << claim.conflicts.min(8));
                let pause = pause.min(TRY_AGAIN_AT_MOST);
                claim.conflicts += 1;
                // At different times, so that it is soon found if one of many is free.
                let apart = part(pause / 4, spread(address) ^ u64::from(claim.conflicts));
                (claim.state, claim.due) = (State::Taken, Some(now + pause + apart));
                claim.owner = from;
                self.poll = self.poll.or(Some(now + POLL));
                Some(Clash::Taken)
            }
            // The program answers probes.
            State::Announcing(_) | State::Held if spoke != Spoke::Claims => None,
            State::Announcing(_) | State::Held => {
                let is_recent = |then: Instant| now.duration_since(then) < DEFEND_INTERVAL;
                if claim.defended.is_some_and(is_recent) {
                    return Some(Clash::Undefended);
                }
                claim.defended = Some(now);
                Some(Clash::Defended)
            }
            State::Taken if spoke == Spoke::Releases && claim.owner == from => {
                (claim.state, claim.due) = (State::Probing(0), Some(now));
                None
            }
            State::Taken => {
                if std::mem::replace(&mut claim.owner, from) != from {
                    // So there are never more owners than addresses.
                    self.owners.remove(&before);
                }
                let owner = self.owners.entry(from).or_default();
                match spoke {
                    Spoke::Claims => {
                        owner.answers |= owner.polls > 0;
                        owner.polls = 0;
                    }
                    // The first node that probes for it gets it; it answers no poll until then.
                    Spoke::Probes | Spoke::Releases => {
                        *owner = Owner::default();
                        let apart = part(TRY_AGAIN, spread(address));
                        let later = now + TRY_AGAIN + apart;
                        claim.due = claim.due.map(|due| due.max(later));
                    }
                }
                None
            }
        }
    }
}

/// Returns bits that differ between consecutive addresses.
fn spread(address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() as u64,
    };
    bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// Returns a random part of a duration.
fn part(whole: Duration, chance: u64) -> Duration {
    whole.mul_f64((chance % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
