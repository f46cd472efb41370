// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers for the addresses that a router serves, where the configuration says so, so that neighbours need no route.
//!
//! sections `[[announce]]` → plans → an eBPF program that answers (`bpf/answer.h`), and a speaker for each interface,
//! which probes for the addresses, announces them, and detects conflicts

mod arp;
mod claims;
mod speaker;
mod tally;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use diolkos_fastpath::{AnswerPath, Pins, Served};
use ipnet::IpNet;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::RouterError;
use diolkos_config::Settings;
use diolkos_control::translator::{Finding, Reason};
use diolkos_datapath::{choice, DatapathError};
use diolkos_figures::counters::Counter;
use diolkos_kernel::net::{Event, Link, Medium, Net};
use diolkos_service::counted::counted;
use diolkos_service::failure::Failure;
use diolkos_service::random::random;
use diolkos_service::supervise::{Task, Watch};

use claims::Claims;
use speaker::{release, serve, Speaker};
use tally::SpeakerCounters;

/// A network of more addresses is neither probed nor announced one by one.
const MOST_OF_NETWORK: u32 = 256;
/// Maximum number of addresses of an interface that are.
const MOST_CLAIMS: usize = 512;

/// The addresses that one interface answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    interface: String,
    addresses: Vec<IpNet>,
    echo: BTreeSet<IpAddr>,
    duplicate_detection: bool,
}

/// The plans of a configuration, which do not contradict this host.
pub struct Plans(Vec<Plan>);

impl Plans {
    /// Returns true if nothing is announced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An interface in use. When this is dropped, the speaker ends, and the answers of the program stay.
struct Speaking {
    plan: Plan,
    index: u32,
    mac: [u8; 6],
    whole: Vec<IpNet>,
    claims: Arc<Mutex<Claims>>,
    changed: Arc<Notify>,
    /// True if it has a carrier.
    running: bool,
    _task: Task,
}

/// Everything that answers. When this is dropped, all answers end, unless they are kept.
pub struct Announcer {
    path: AnswerPath,
    served: Arc<Served>,
    tally: Arc<SpeakerCounters>,
    own: Arc<Mutex<BTreeSet<[u8; 6]>>>,
    plans: Plans,
    /// Notified when an address is answered for, or left to another node.
    moved: Arc<Notify>,
    speaking: Vec<Speaking>,
    watch: Watch,
}

/// Returns the plans of a configuration, or an error if they contradict this host.
pub async fn plan(net: &Net, settings: &Settings) -> Result<Plans, Failure> {
    let mut plans = Vec::new();
    for (at, announce) in settings.announce.iter().enumerate() {
        let link = net.link(&announce.interface).await?;
        if link.medium != Medium::Ethernet || mac_of(&link).is_none() {
            return Err(RouterError::NotEthernet {
                at,
                name: link.name,
            }
            .into());
        }
        let addresses = settings.announced(announce);
        let own = net.addresses().await?;
        let both = |net: &IpNet| own.iter().find(|own| net.contains(*own)).copied();
        if let Some(own) = addresses.iter().find_map(both) {
            return Err(RouterError::OwnAnnounced { at, own }.into());
        }
        plans.push(Plan {
            interface: announce.interface.clone(),
            addresses,
            echo: announce.echo.iter().copied().collect(),
            duplicate_detection: announce.duplicate_detection,
        });
    }
    Ok(Plans(plans))
}

fn mac_of(link: &Link) -> Option<[u8; 6]> {
    link.address.as_slice().try_into().ok()
}

impl Announcer {
    /// Starts to announce; None if the configuration announces nothing.
    pub async fn start(
        net: &Net,
        settings: &Settings,
        watch: &Watch,
    ) -> Result<Option<Announcer>, Failure> {
        let plans = plan(net, settings).await?;
        let mut announcer = None;
        Announcer::follow(&mut announcer, plans, net, settings, watch).await?;
        Ok(announcer)
    }

    /// Announces what `plans` say, and nothing else. Addresses that are held stay held.
    pub async fn follow(
        announcer: &mut Option<Announcer>,
        plans: Plans,
        net: &Net,
        settings: &Settings,
        watch: &Watch,
    ) -> Result<(), Failure> {
        if plans.is_empty() {
            *announcer = None;
            return Ok(());
        }
        let one = match announcer {
            Some(announcer) => announcer,
            none => {
                let path = AnswerPath::load().map_err(DatapathError::from)?;
                none.insert(Announcer {
                    served: path.served(),
                    path,
                    tally: Arc::default(),
                    own: Arc::default(),
                    plans: Plans(Vec::new()),
                    moved: Arc::default(),
                    speaking: Vec::new(),
                    watch: watch.clone(),
                })
            }
        };
        one.plans = plans;
        one.look(net, settings).await
    }

    /// Compares the plans with the existing interfaces.
    async fn look(&mut self, net: &Net, settings: &Settings) -> Result<(), Failure> {
        let links = net.links().await?;
        let plans = self.plans.0.clone();
        let mut before = std::mem::take(&mut self.speaking);
        let mut own = BTreeSet::new();
        let mut done = Ok(());
        for plan in plans {
            let link = links.iter().find(|link| link.name == plan.interface);
            let there = link.and_then(|link| Some((link.index, mac_of(link)?)));
            let Some((index, mac)) = there else { continue };
            own.insert(mac);
            let old = before.iter().position(|old| old.index == index);
            let old = old.map(|at| before.swap_remove(at));
            if let Some(old) = old {
                if old.plan == plan && old.mac == mac {
                    self.speaking.push(old);
                    continue;
                }
                let held = old.end(&self.served);
                done = done.and(self.begin(plan, index, mac, &held, settings));
            } else {
                done = done.and(self.begin(plan, index, mac, &[], settings));
            }
        }
        for gone in before {
            self.served.forget(gone.index);
            self.path.detach(gone.index);
            gone.end(&self.served);
        }
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
        done
    }

    /// Starts at an interface. `held` are addresses that were answered for there just before.
    fn begin(
        &mut self,
        plan: Plan,
        index: u32,
        mac: [u8; 6],
        held: &[IpAddr],
        settings: &Settings,
    ) -> Result<(), Failure> {
        let unserved = |source| RouterError::NoAnswer {
            interface: plan.interface.clone(),
            source,
        };
        let (whole, claims) = split(&plan, held);
        self.served.announce(index, mac).map_err(unserved)?;
        for net in &whole {
            serve(&self.served, index, *net, false).map_err(unserved)?;
            tracing::info!("{}: answering for {net}", plan.interface);
        }
        let is_claim = |address: &&IpAddr| !claims.has(**address);
        for address in plan.echo.iter().filter(is_claim) {
            serve(&self.served, index, (*address).into(), true).map_err(unserved)?;
        }
        for address in claims.all().filter(|address| held.contains(address)) {
            let echo = plan.echo.contains(&address);
            serve(&self.served, index, address.into(), echo).map_err(unserved)?;
        }
        let attach = choice::attach(&settings.translator);
        let device = &settings.translator.device;
        self.path
            .attach(index, attach, device)
            .map_err(DatapathError::from)?;
        let claims = Arc::new(Mutex::new(claims));
        let changed = Arc::new(Notify::new());
        let speaker = Speaker {
            interface: plan.interface.clone(),
            ifindex: index,
            mac,
            own: self.own.clone(),
            whole: whole.clone(),
            echo: plan.echo.clone(),
            claims: claims.clone(),
            changed: changed.clone(),
            moved: self.moved.clone(),
            served: self.served.clone(),
            tally: self.tally.clone(),
        };
        let speak = async move { match speaker.speak().await {} };
        self.speaking.push(Speaking {
            plan,
            index,
            mac,
            whole,
            claims,
            changed,
            running: true,
            _task: self.watch.task("announcements", speak),
        });
        Ok(())
    }

    /// Handles a new, removed or changed interface. Returns true if the announcements have changed.
    pub async fn link(&mut self, event: &Event, net: &Net, settings: &Settings) -> bool {
        if let Event::LinkChanged(link) = event {
            self.carrier(link);
        }
        let concerns = match event {
            Event::LinkGone(index) => self.speaking.iter().any(|s| s.index == *index),
            Event::LinkChanged(link) => {
                let is_known = |s: &Speaking| (s.index, Some(s.mac)) == (link.index, mac_of(link));
                let is_planned = self.plans.0.iter().any(|plan| plan.interface == link.name);
                is_planned && !self.speaking.iter().any(is_known)
            }
            _ => false,
        };
        if !concerns {
            return false;
        }
        if let Err(failure) = self.look(net, settings).await {
            tracing::warn!("{failure}");
        }
        true
    }

    /// Announces again after a carrier change, because there may be other neighbours.
    fn carrier(&mut self, link: &Link) {
        for one in self
            .speaking
            .iter_mut()
            .filter(|one| one.index == link.index)
        {
            let was_running = std::mem::replace(&mut one.running, link.running);
            if link.running && !was_running {
                let mut claims = one.claims.lock().unwrap_or_else(PoisonError::into_inner);
                claims.announce_again(Instant::now());
                one.changed.notify_one();
            }
        }
    }

    /// Waits until the findings may have changed.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Returns the addresses that lead to the translator and that it does not answer for: another node has them, or may
    /// have them.
    pub fn findings(&self) -> Vec<Finding> {
        let findings = |speaking: &Speaking| {
            let claims = speaking.claims.lock();
            let claims = claims.unwrap_or_else(PoisonError::into_inner);
            let at = &speaking.plan.interface;
            let taken = which(claims.taken()).map(|which| {
                format!(
                    "{at}: another node answers for {which} of this translator, and their packets go there: let only one \
                     node have them; the log has its link-layer address"
                )
            });
            let pending = which(claims.pending()).map(|which| {
                format!("{at}: no answer yet for {which}: asking whether another node has them")
            });
            let texts = taken.into_iter().chain(pending);
            let findings = texts.map(|text| Finding::obstacle(Reason::Unannounced, text));
            findings.collect::<Vec<_>>()
        };
        self.speaking.iter().flat_map(findings).collect()
    }

    /// Returns the counters of the program and of the speakers.
    pub fn counters(&self) -> std::io::Result<Vec<Counter>> {
        self.tally.read(&self.served)
    }

    /// Has the program answer after this ends.
    pub fn keep(&mut self, pins: &Pins) -> Result<(), Failure> {
        let kept = self.path.keep(pins);
        kept.map_err(|source| {
            let what = "the BPF program that answers neighbours";
            RouterError::NotKept { what, source }.into()
        })
    }

    /// Ends all answers, and notifies another node that waits for the addresses at once.
    pub fn leave(mut self) {
        let speaking = std::mem::take(&mut self.speaking);
        let served = self.served.clone();
        drop(self);
        for one in speaking {
            let (index, mac, at) = (one.index, one.mac, one.plan.interface.clone());
            let held = one.end(&served);
            if let Err(error) = release(index, mac, &held) {
                tracing::debug!("{at}: nobody is told that its addresses are free: {error}");
            }
        }
    }

    /// Reverses [`Announcer::keep`].
    pub fn release(&mut self, pins: &Pins) {
        self.path.release(pins);
    }
}

/// Describes addresses; None if there are none.
fn which(mut addresses: impl Iterator<Item = IpAddr>) -> Option<String> {
    let first = addresses.next()?.to_string();
    Some(match addresses.count() {
        0 => first,
        more => format!("{first} and {}", counted(more as u64, "other")),
    })
}

impl Speaking {
    /// Ends all answers. Returns the addresses that were held.
    fn end(self, served: &Served) -> Vec<IpAddr> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let single = claims.all().chain(self.plan.echo.iter().copied());
        for net in single.map(IpNet::from).chain(self.whole.iter().copied()) {
            match net {
                IpNet::V4(net) => served.leave4(self.index, (net.network(), net.prefix_len())),
                IpNet::V6(net) => served.leave6(self.index, (net.network(), net.prefix_len())),
            }
        }
        claims.held().collect()
    }
}

/// Returns the networks that are answered for as a whole, and the claims for addresses that are probed first, except
/// those that are held.
fn split(plan: &Plan, held: &[IpAddr]) -> (Vec<IpNet>, Claims) {
    let (now, mut whole, mut claims) = (Instant::now(), Vec::new(), Claims::default());
    for net in &plan.addresses {
        let bits = net.max_prefix_len() - net.prefix_len();
        let count = 1u32.checked_shl(bits.into()).unwrap_or(u32::MAX);
        if count > MOST_OF_NETWORK || claims.len() + count as usize > MOST_CLAIMS {
            whole.push(*net);
            continue;
        }
        let addresses: Vec<IpAddr> = match net {
            IpNet::V4(net) => (0..count)
                .map(|n| IpAddr::V4((net.network().to_bits() + n).into()))
                .collect(),
            IpNet::V6(net) => (0..u128::from(count))
                .map(|n| IpAddr::V6((net.network().to_bits() + n).into()))
                .collect(),
        };
        for address in addresses {
            let probes = plan.duplicate_detection && !held.contains(&address);
            claims.add(address, probes, now, random());
        }
    }
    (whole, claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_networks_are_tried_out_one_by_one() {
        let net = |text: &str| text.parse::<IpNet>().expect("a network");
        let plan = Plan {
            interface: "eth0".to_owned(),
            addresses: [
                "192.0.2.0/29",
                "198.51.100.0/23",
                "2001:db8:64::/96",
                "2001:db8::a/128",
            ]
            .map(net)
            .into(),
            echo: BTreeSet::new(),
            duplicate_detection: true,
        };
        let (whole, claims) = split(&plan, &[]);
        assert_eq!(whole, [net("198.51.100.0/23"), net("2001:db8:64::/96")]);
        assert_eq!(claims.len(), 9);
        assert!(claims.has("192.0.2.7".parse().expect("an address")));
    }
}
