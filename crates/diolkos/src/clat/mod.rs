// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the first look at the uplink to the clean machine after it.
//!
//! find the prefix → claim an address for it → build, or move → open → serve → leave. With a prefix that the operator
//! has said, each stage is passed once; with one that the network says, as often as that changes.

mod address;
mod answers;
mod claim;
mod isthmus;
pub mod neighbour;
mod pref64;
mod rules;

use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::BoxStream;
use futures_util::StreamExt;
use ipnet::Ipv6Net;
use tokio::time::Instant;

use crate::accelerate;
use crate::config::{Settings, V6Address};
use crate::control::{self, Control};
use crate::failure::{Failure, Kind};
use crate::net::{Event, Net};
use crate::privilege::{self, NET_ADMIN, NET_RAW};
use crate::resident;
use crate::signals::Signals;

use claim::{check_v4, claim, Claim};
use isthmus::{Isthmus, Site};
use pref64::Finder;
use rules::Side6;

pub use pref64::PrefixRows;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;
/// Routes and addresses come and go in groups; while routes do, the fast path looks each packet's route up.
const SETTLE: Duration = Duration::from_millis(200);

/// Runs until a signal comes (then it succeeds) or the uplink goes (then it fails).
pub async fn run(settings: Settings) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN, NET_RAW])?;
    let mut signals = Signals::new()?;
    let (mut net, news) = Net::connect()?;
    let mut uplink = net.link(&settings.translator.interfaces[0]).await?;
    uplink.mtu6 = settings.translator.mtu6.or(uplink.mtu6);
    if uplink.mtu6 < IPV6_MINIMUM_MTU {
        return Err(Failure::run_time(format!(
            "the MTU of {} is {} bytes, and IPv6 needs {IPV6_MINIMUM_MTU}",
            uplink.name, uplink.mtu6
        )));
    }
    let mut control = control::listen(&settings.translator.device)?;

    resident::clear(&mut net, &settings.translator.device).await?;
    check_v4(&net, &settings).await?;
    let site = Site {
        net: &net,
        settings: &settings,
        uplink: &uplink,
    };
    let mut clat = Clat::new(site, Finder::new(&settings, &uplink)?);
    clat.serve(&mut control, news, &mut signals).await
}

/// A CLAT on its way from a prefix to translation, and from that to the next.
struct Clat<'a> {
    site: Site<'a>,
    finder: Finder,
    /// The prefix that was chosen last.
    wanted: Option<Ipv6Net>,
    /// For what is wanted: an address that is tried out.
    claiming: Option<LocalBoxFuture<'a, Result<Claim, Failure>>>,
    /// There was no prefix of the uplink's for an address: it is tried again when that changes.
    stranded: bool,
    /// Built with the first prefix.
    isthmus: Option<Isthmus>,
    /// Answers for the address.
    answering: LocalBoxFuture<'static, Infallible>,
    /// The uplink's prefixes, and whether it is up: what tells one network from another.
    attachment: (Vec<Ipv6Net>, bool),
    routes_settle: Option<Instant>,
    addresses_settle: Option<Instant>,
}

impl<'a> Clat<'a> {
    fn new(site: Site<'a>, finder: Finder) -> Clat<'a> {
        Clat {
            site,
            finder,
            wanted: None,
            claiming: None,
            stranded: false,
            isthmus: None,
            answering: std::future::pending().boxed_local(),
            attachment: (Vec::new(), site.uplink.running),
            routes_settle: None,
            addresses_settle: None,
        }
    }

    /// Follows the prefix, the routes and the addresses, and answers whoever asks, until it is time to leave.
    async fn serve(
        &mut self,
        control: &mut Control,
        mut news: BoxStream<'static, Event>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let uplink = self.site.uplink;
        let device = &self.site.settings.translator.device;
        let device_gone = || Failure::run_time(format!("the TUN device {device} is gone"));
        if self.finder.is_search() {
            self.attachment.0 = self.site.net.global_prefixes(uplink.index).await?;
            tracing::info!(
                "waiting for a translation prefix: soliciting routers on {} (RFC 8781), asking resolvers (RFC 7050)",
                uplink.name
            );
        }
        loop {
            self.follow().await;
            tokio::select! {
                () = signals.any() => {
                    tracing::info!("stopped by a signal");
                    return Ok(());
                }
                event = news.next() => match event {
                    Some(event) => self.event(event)?,
                    None => return Err(Failure::run_time("the kernel closed the netlink connection")),
                },
                () = self.finder.step() => {}
                claimed = made(&mut self.claiming) => {
                    self.claiming = None;
                    self.claimed(claimed?).await?;
                }
                () = failed(&self.isthmus) => return Err(device_gone()),
                () = until(self.addresses_settle) => {
                    self.addresses_settle = None;
                    self.look_at_addresses().await?;
                }
                () = until(self.routes_settle) => {
                    self.routes_settle = None;
                    self.look_at_routes().await;
                }
                never = &mut self.answering => match never {},
                question = control.next() => {
                    let answer = self.reply(question.request);
                    question.answer(answer);
                }
            }
        }
    }

    /// Compares what is wanted with the prefix that is to be used now, and sets out for it.
    async fn follow(&mut self) {
        let choice = self.finder.choice();
        let wanted = choice.as_ref().map(|(prefix, _)| *prefix);
        if wanted == self.wanted {
            return;
        }
        self.wanted = wanted;
        self.claiming = None;
        self.stranded = false;
        let Some((prefix, from)) = choice else {
            self.close("the network has no translation prefix any more")
                .await;
            return;
        };
        if self.finder.is_search() {
            tracing::info!("translation prefix {prefix} from {from}");
        }
        self.set_out(prefix);
    }

    /// Begins with the first stage for a prefix.
    fn set_out(&mut self, prefix: Ipv6Net) {
        let Site {
            net,
            settings,
            uplink,
        } = self.site;
        let stays = |side6: &Side6| {
            !self.stranded && (side6.pref64 == prefix || settings.clat.v6 != V6Address::Auto)
        };
        let ours = self.isthmus.as_ref().map(|isthmus| isthmus.side6);
        self.claiming = Some(match ours.filter(stays) {
            // It is answered for all the time.
            Some(side6) => async move { Ok(Claim::Kept(side6.address)) }.boxed_local(),
            None => claim(net, settings, uplink, prefix).boxed_local(),
        });
    }

    /// There is an address for what is wanted: build with it, or move to it, and open.
    async fn claimed(&mut self, claimed: Claim) -> Result<(), Failure> {
        let Some(pref64) = self.wanted else {
            return Ok(());
        };
        let (address, responder) = match claimed {
            Claim::Made(address, responder) => (address, responder),
            Claim::Kept(address) => (address, None),
            Claim::NotYet(why) if self.finder.is_search() => {
                self.strand(&why.to_string()).await;
                return Ok(());
            }
            Claim::NotYet(why) => return Err(why),
        };
        let side6 = Side6 { pref64, address };
        let done = match &mut self.isthmus {
            Some(isthmus) if isthmus.side6 == side6 => Ok(()),
            Some(isthmus) => isthmus.move_to(self.site, side6).await,
            None => Isthmus::build(self.site, side6).await.map(|built| {
                self.isthmus = Some(built);
            }),
        };
        match done {
            // What the network says does not fit what the operator says.
            Err(failure) if failure.kind == Kind::Usage && self.finder.is_search() => {
                let why = format!("the prefix {pref64} cannot be used, {failure}");
                self.close(&why).await;
                return Ok(());
            }
            done => done?,
        }
        self.stranded = false;
        if let Some(responder) = responder.map(Rc::new) {
            self.answering = async move { responder.answer().await }.boxed_local();
        }
        self.routes_settle = Some(Instant::now());
        self.open(side6).await
    }

    async fn open(&mut self, side6: Side6) -> Result<(), Failure> {
        let Some(isthmus) = &mut self.isthmus else {
            return Ok(());
        };
        isthmus.open(self.site).await?;
        tracing::info!(
            "ready: {} <-> {} on {}, prefix {}, datapath {}",
            self.site.settings.clat.v4,
            side6.address,
            self.site.uplink.name,
            side6.pref64,
            accelerate::datapath(isthmus.fast.as_deref())
        );
        Ok(())
    }

    /// Takes the IPv4 routes away until there is something to open for.
    async fn close(&mut self, why: &str) {
        let was_open = self.isthmus.as_ref().is_some_and(|isthmus| isthmus.is_open);
        if let Some(isthmus) = &mut self.isthmus {
            isthmus.close(self.site).await;
        }
        let what = match was_open {
            true => "the IPv4 routes are taken away until that changes",
            false => "waiting until that changes",
        };
        tracing::warn!("{why}: {what}");
    }

    /// There is no address to translate to until the uplink has another prefix.
    async fn strand(&mut self, why: &str) {
        self.stranded = true;
        // Whoever tries the address out again must not hear from us that it is taken.
        self.answering = std::future::pending().boxed_local();
        self.close(why).await;
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        let uplink = self.site.uplink;
        let tun = self.isthmus.as_ref().map(|isthmus| isthmus.index);
        match event {
            Event::LinkGone(index) if index == uplink.index => {
                return Err(Failure::run_time(format!(
                    "the uplink {} is gone",
                    uplink.name
                )));
            }
            Event::LinkChanged(link) if link.index == uplink.index && link.mtu != uplink.mtu => {
                return Err(Failure::run_time(format!(
                    "the MTU of the uplink {} changed from {} to {}: start again to follow it",
                    uplink.name, uplink.mtu, link.mtu
                )));
            }
            Event::LinkChanged(link) if link.index == uplink.index => {
                let was_running = std::mem::replace(&mut self.attachment.1, link.running);
                if link.running && !was_running {
                    self.finder.attached();
                }
            }
            Event::LinkGone(index) if Some(index) == tun => {
                return Err(Failure::run_time(format!(
                    "the TUN device {} is gone",
                    self.site.settings.translator.device
                )));
            }
            // A link that goes loses its addresses first; that it is gone is the better news.
            Event::AddressesChanged => self.addresses_settle = Some(Instant::now() + SETTLE),
            Event::RoutesChanged => {
                if let Some(isthmus) = &mut self.isthmus {
                    isthmus.next_hop(uplink, None);
                }
                self.routes_settle = Some(Instant::now() + SETTLE);
            }
            Event::LinkGone(_) | Event::LinkChanged(_) => {}
        }
        Ok(())
    }

    /// Once addresses have settled: does the CLAT's still fit, and is this the same network?
    async fn look_at_addresses(&mut self) -> Result<(), Failure> {
        if let Some(address) = self.isthmus.as_ref().map(|isthmus| isthmus.side6.address) {
            if !self.still_has(address).await? && !self.stranded {
                let why = format!(
                    "{} has no address any more in the prefix of {address}",
                    self.site.uplink.name
                );
                if !self.finder.is_search() {
                    return Err(Failure::run_time(format!(
                        "{why}: start again to take another"
                    )));
                }
                self.strand(&why).await;
            }
        }
        if let (true, Some(prefix), None) = (self.stranded, self.wanted, &self.claiming) {
            self.set_out(prefix);
        }
        if self.finder.is_search() {
            let prefixes = self
                .site
                .net
                .global_prefixes(self.site.uplink.index)
                .await?;
            let before = std::mem::replace(&mut self.attachment.0, prefixes);
            let now = &self.attachment.0;
            if !before.is_empty() && !before.iter().any(|prefix| now.contains(prefix)) {
                self.finder.attached();
            } else if before != *now {
                self.finder.look_again();
            }
        }
        Ok(())
    }

    /// False when the prefix is gone from which the CLAT's address was made: nobody would answer to it any more.
    async fn still_has(&self, address: Ipv6Addr) -> Result<bool, Failure> {
        if self.site.settings.clat.v6 != V6Address::Auto {
            return Ok(true);
        }
        let index = self.site.uplink.index;
        self.site.net.is_in_prefix_of(index, address).await
    }

    /// Once routes have settled: is there one router behind the prefix?
    async fn look_at_routes(&mut self) {
        let (net, uplink) = (self.site.net, self.site.uplink);
        if let Some(isthmus) = &mut self.isthmus {
            let router = net.sole_router(isthmus.side6.pref64, uplink.index).await;
            isthmus.next_hop(uplink, router);
        }
    }
}

/// What comes of trying an address out, or never.
async fn made(
    claiming: &mut Option<LocalBoxFuture<'_, Result<Claim, Failure>>>,
) -> Result<Claim, Failure> {
    match claiming {
        Some(claiming) => claiming.await,
        None => std::future::pending().await,
    }
}

/// When a reader of the TUN device has failed, or never.
async fn failed(isthmus: &Option<Isthmus>) {
    match isthmus {
        Some(isthmus) => isthmus.slow.failed().await,
        None => std::future::pending().await,
    }
}

/// A moment, or never.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
