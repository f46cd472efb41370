// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said about addresses that are answered for one by one, and when (RFC 5227, RFC 4862 section 5.4, RFC 4861
//! section 7.2.6). Without clock and sockets: moments are arguments.
//!
//! probing → announcing → held; or taken by another, and tried again later: as soon as its owner, who is polled, is gone

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
/// An address that somebody else has is tried again after so long, then after twice as long, …
const TRY_AGAIN: Duration = Duration::from_secs(4);
/// … and at least so often: RATE_LIMIT_INTERVAL. A host that chooses its address has to wait so long after ten conflicts.
const TRY_AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// DupAddrDetectTransmits (RFC 4862 section 5.1), MAX_NEIGHBOR_ADVERTISEMENT and RetransTimer (RFC 4861 section 10).
const PROBES6: u8 = 1;
const ANNOUNCEMENTS6: u8 = 3;
const RETRANSMIT: Duration = Duration::from_secs(1);

/// Between two polls of a node that has addresses (RFC 1122 section 2.3.2.1), by a packet to that node alone. …
const POLL: Duration = Duration::from_millis(500);
/// … and is gone after so many polls without an answer, if there were answers before. Else only what is above applies.
const POLLS: u8 = 2;
/// Owners that are polled at a time.
const MOST_OWNERS: usize = 4;

/// A link-layer address.
pub type Mac = [u8; 6];

/// What is to be done about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask whether somebody has it.
    Probe(IpAddr),
    /// Ask the node that has it.
    Poll(IpAddr, Mac),
    /// Answer for it from now on.
    Hold(IpAddr),
    /// Tell everybody that we have it.
    Announce(IpAddr),
}

/// How another node spoke of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoke {
    /// It says it has it.
    Claims,
    /// It asks whether somebody has it, because it wants it.
    Probes,
    /// It had it, and has it no more.
    Releases,
}

/// What became of it that another node spoke of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// It is left to the other node, for now.
    Taken,
    /// It stays ours, which is to be said.
    Defended,
    /// It stays ours, which has been said a moment ago.
    Undefended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many probes were sent.
    Probing(u8),
    /// So many announcements were sent.
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
    /// Who has it, or sets out for it, while it is taken.
    owner: Mac,
}

/// A node that has addresses of ours.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    /// It has answered a poll.
    answers: bool,
    /// Polls since it was heard.
    polls: u8,
}

/// Addresses, and how far each has come.
#[derive(Debug, Default)]
pub struct Claims {
    claims: BTreeMap<IpAddr, Claim>,
    owners: BTreeMap<Mac, Owner>,
    /// When owners are polled next.
    poll: Option<Instant>,
}

impl Claims {
    /// Sets out for an address: with probes, or at once with announcements. `chance`: random bits.
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

    /// Those that are answered for.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let is_held = |claim: &Claim| matches!(claim.state, State::Announcing(_) | State::Held);
        let held = self.claims.iter().filter(move |(_, claim)| is_held(claim));
        held.map(|(address, _)| *address)
    }

    /// Those that another node has, also while they are tried again.
    pub fn taken(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let taken = self.claims.iter().filter(|(_, claim)| claim.conflicts > 0);
        taken.map(|(address, _)| *address)
    }

    /// Those for which it is still asked whether another node has them.
    pub fn pending(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let is_pending = |claim: &Claim| {
            matches!(claim.state, State::Probing(sent) if sent < u8::MAX) && claim.conflicts == 0
        };
        let pending = self.claims.iter().filter(move |(_, its)| is_pending(its));
        pending.map(|(address, _)| *address)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.claims.keys().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether an address is one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        self.claims.contains_key(&address)
    }

    /// Neighbours may know another link-layer address: everything that is held is announced again.
    pub fn announce_again(&mut self, now: Instant) {
        for claim in self.claims.values_mut() {
            if matches!(claim.state, State::Announcing(_) | State::Held) {
                (claim.state, claim.due) = (State::Announcing(0), Some(now));
            }
        }
    }

    /// No node could hear the probes of an address: the program sends all of them again, from a moment on.
    pub fn ask_again(&mut self, address: IpAddr, at: Instant) {
        if let Some(claim) = self.claims.get_mut(&address) {
            (claim.state, claim.due) = (State::Probing(0), Some(at));
        }
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Instant> {
        let due = self.claims.values().filter_map(|claim| claim.due);
        due.chain(self.poll).min()
    }

    /// Everything that is due, in the order in which it is to be done.
    pub fn due(&mut self, now: Instant, mut chance: impl FnMut() -> u64) -> Vec<Step> {
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
                    steps.push(Step::Probe(address));
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
                    steps.push(Step::Hold(address));
                    is_free_again |= std::mem::take(&mut claim.conflicts) > 0;
                    0
                }
                State::Announcing(sent) => sent,
                State::Held => continue,
            };
            steps.push(Step::Announce(address));
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
            // Whoever had one of them is perhaps gone, and the others are free, too.
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

    /// Polls those who have addresses. All addresses of one that is gone are tried at once.
    fn poll(&mut self, now: Instant) -> Vec<Step> {
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
                steps.push(Step::Poll(address, mac));
                continue;
            }
            self.owners.remove(&mac);
            let is_theirs = |its: &&mut Claim| its.state == State::Taken && its.owner == mac;
            for claim in self.claims.values_mut().filter(is_theirs) {
                // The pause before a first probe is for nodes that start together; polls have no common beginning.
                (claim.state, claim.due) = (State::Probing(0), Some(now));
            }
        }
        let mut all = self.claims.values();
        let is_polling = all.any(|claim| claim.state == State::Taken);
        self.poll = is_polling.then_some(now + POLL);
        steps
    }

    /// Another node spoke of an address, from a link-layer address. None: it may.
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
                // At different times, so that one of many is soon found to be free.
                let apart = part(pause / 4, spread(address) ^ u64::from(claim.conflicts));
                (claim.state, claim.due) = (State::Taken, Some(now + pause + apart));
                claim.owner = from;
                self.poll = self.poll.or(Some(now + POLL));
                Some(Clash::Taken)
            }
            // The program answers who asks.
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
                    // Whoever sets out for it first gets it: it answers no poll until then.
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

/// Bits that differ between addresses that follow each other.
fn spread(address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() as u64,
    };
    bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// A random part of a duration.
fn part(whole: Duration, chance: u64) -> Duration {
    whole.mul_f64((chance % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
