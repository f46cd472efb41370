// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the first look at the uplink to the clean machine after it.
//!
//! choose the uplink and a place beside other CLATs → find the prefix → claim an address for it → build, or move → open, once something can pass → serve → leave. With a
//! prefix that the operator has said, each stage is passed once; with one that the network says, as often as that changes.

mod address;
mod answers;
mod arrival;
mod circle;
mod claim;
mod device;
mod doubts;
mod finder;
mod gate;
mod mtu;
mod opening;
mod others;
mod place;
mod prefix;
mod reload;
mod router;
mod rules;
mod serving;
mod shared;
mod unanswered;
mod uplink;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use ipnet::Ipv6Net;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::companion::Supervision;
use crate::control;
use crate::expiry::{self, Expiry};
use crate::metrics::Metrics;
use crate::service::{self, Host};
use diolkos_config::Settings;
use diolkos_kernel::handover;
use diolkos_kernel::net::{Link, PolicyNews};
use diolkos_service::failure::{Failure, Kind};
use diolkos_service::privilege::{self, NET_ADMIN, NET_RAW};
use diolkos_service::supervise::{Task, Watch};

use arrival::Arrival;
use circle::Circle;
use claim::Claim;
use device::{ClatDevice, Site};
use doubts::Doubts;
use finder::Finder;
use place::{check_metric, Place};
use router::Router;
use rules::Side6;
use unanswered::Unanswered;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

/// Runs until a signal comes (then it succeeds) or the uplink goes (then it fails, if the operator has named it).
/// `read`: reads the configuration again.
pub async fn run(
    mut settings: Settings,
    read: impl Fn() -> Result<Settings, Failure> + 'static,
    supervision: Supervision,
) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN, NET_RAW])?;
    let mut host = Host::new(supervision).await?;
    let net = host.net.clone();
    let chooses_uplink = settings.translator.interfaces.is_empty();
    if let [uplink] = &settings.translator.interfaces[..] {
        large_enough(&as_configured(net.link(uplink).await?, &settings))?;
    }
    let mut control = control::listen(
        "clat",
        &settings.translator.device,
        &settings.control.group,
        &host.watch,
    )?;

    handover::clear(&net, &settings.translator.device).await?;
    check_metric(&net, &settings).await.map_err(as_usage)?;
    let mut place = Place::default();
    let is_given = settings.clat.v4.fixed().is_some();
    let settled = service::wait_for(&mut host, &mut control, "clat", async || {
        place.settle(&net, &mut settings).await
    });
    let settled = settled.await.map_err(|failure| match is_given {
        true => as_usage(failure),
        false => failure,
    })?;
    if settled.is_none() {
        return Ok(());
    }

    let mut read: Read = Box::new(read);
    let mut metrics = None;
    let mut policies = Some(PolicyNews::begin(&host.watch).await);
    loop {
        if chooses_uplink {
            let chosen = service::wait_for(&mut host, &mut control, "clat", async || {
                uplink::choose(&net).await
            });
            let Some(chosen) = chosen.await? else {
                return Ok(());
            };
            settings.translator.interfaces = vec![chosen.name];
        }
        let uplink = net.link(&settings.translator.interfaces[0]).await?;
        let uplink = as_configured(uplink, &settings);
        large_enough(&uplink)?;
        let finder = Finder::new(&settings, &uplink)?;
        let site = Site {
            net: net.clone(),
            settings: Arc::new(settings),
            uplink,
            left: Vec::new(),
        };
        let mut clat = Clat::new(site, finder, host.watch.clone(), read, place);
        clat.chooses_uplink = chooses_uplink;
        (clat.metrics, clat.policies) = (metrics, policies);
        let served = async {
            clat.begin().await?;
            if clat.metrics.is_none() {
                let started = Metrics::start(&clat.site.settings, control.asker(), &host.watch);
                clat.metrics = Some(started);
            }
            service::work(&mut clat, &mut host, &mut control).await
        }
        .await;
        if let Some(device) = &clat.device {
            device.leave(&net).await;
        }
        if !clat.moves {
            host.manager.stopping();
            return served.map(|_| ());
        }
        settings = Settings::clone(&clat.site.settings);
        (read, place) = (clat.read, clat.place);
        (metrics, policies) = (clat.metrics, clat.policies);
    }
}

/// What the operator says is taken by somebody else, and is so at the next start: a supervisor need not try.
fn as_usage(failure: Failure) -> Failure {
    match failure.kind {
        Kind::RunTime if !failure.is_transient => Failure::usage(failure.to_string()),
        _ => failure,
    }
}

/// IPv6 needs some room.
fn large_enough(uplink: &Link) -> Result<(), Failure> {
    match uplink.mtu6 < IPV6_MINIMUM_MTU {
        false => Ok(()),
        true => Err(Failure::run_time(format!(
            "the MTU of {} is {} bytes, and IPv6 needs {IPV6_MINIMUM_MTU}",
            uplink.name, uplink.mtu6
        ))),
    }
}

/// A link with what the operator says of it.
fn as_configured(mut uplink: Link, settings: &Settings) -> Link {
    uplink.mtu6 = settings.translator.mtu6.or(uplink.mtu6);
    uplink
}

/// What reads the configuration.
type Read = Box<dyn Fn() -> Result<Settings, Failure>>;

/// A CLAT on its way from a prefix to translation, and from that to the next.
struct Clat {
    /// Reads the configuration again.
    read: Read,
    /// Its IPv4 address and metric.
    place: Place,
    /// The operator has named no uplink: it is that of the default route.
    chooses_uplink: bool,
    /// It ends, because another uplink has the default route now.
    moves: bool,
    /// Until then the prefix in force stays, although none is known: the search has only just begun.
    holds: Option<Instant>,
    site: Site,
    finder: Finder,
    watch: Watch,
    /// The prefix that was chosen last.
    wanted: Option<Ipv6Net>,
    /// For what is wanted: an address that is tried out.
    claiming: Option<BoxFuture<'static, Result<Claim, Failure>>>,
    /// How often in a row the kernel could not say whether there is an address.
    failures: u32,
    /// There was no prefix of the uplink's for an address: it is tried again when that changes.
    stranded: bool,
    /// Built with the first prefix.
    device: Option<ClatDevice>,
    /// Where the address of the device is from.
    origin: String,
    /// It lies in a prefix of the uplink's. After a reload, the configuration may speak of the next address already.
    is_of_uplink: bool,
    /// Answers for the address.
    answering: Option<Task>,
    /// Hears that another host has the address, while it is tentative.
    duplicate: Option<oneshot::Receiver<()>>,
    /// The uplink's prefixes: what tells one network from another.
    prefixes: Vec<Ipv6Net>,
    /// When the uplink came up last.
    arrival: Arrival,
    /// Of the uplink's MTU.
    mtus: mtu::Changes,
    /// That it is ready was said last of this.
    ready: Option<Side6>,
    /// Why nothing can pass, as it was said last.
    obstacle: Option<String>,
    /// It is only a matter of moments: nobody has to hear of it.
    is_pending: bool,
    /// The router on the uplink.
    router: Router,
    /// The kernel chooses the way for each packet.
    varies: bool,
    /// Since the exit was renewed last, routes have changed.
    may_have_changed: bool,
    /// When the kernel was asked for the way, and when it is asked again.
    asked: Option<Instant>,
    asks: Option<Instant>,
    /// Why answers may not come back.
    doubts: Doubts,
    /// Packets that no answer came to.
    unanswered: Unanswered,
    /// Packets that ran out of hops, and when to look for more.
    expiry: Expiry,
    loops_next: Instant,
    /// The same through an uplink that wraps them.
    circle: Circle,
    /// IPsec policies, which the fast path bypasses.
    policies: Option<PolicyNews>,
    /// Where figures are served.
    metrics: Option<Metrics>,
    /// The operator has ended it for good.
    ends: bool,
    /// Another program's CLAT on this host, in words.
    other: Option<String>,
}

impl Clat {
    fn new(site: Site, finder: Finder, watch: Watch, read: Read, place: Place) -> Clat {
        Clat {
            read,
            place,
            chooses_uplink: false,
            moves: false,
            holds: None,
            site,
            finder,
            watch,
            wanted: None,
            claiming: None,
            failures: 0,
            stranded: false,
            device: None,
            origin: String::new(),
            is_of_uplink: false,
            answering: None,
            duplicate: None,
            prefixes: Vec::new(),
            arrival: Arrival::default(),
            mtus: mtu::Changes::default(),
            ready: None,
            obstacle: None,
            is_pending: false,
            router: Router::default(),
            varies: false,
            may_have_changed: false,
            asked: None,
            asks: None,
            doubts: Doubts::default(),
            unanswered: Unanswered::default(),
            expiry: Expiry::new(&[]),
            loops_next: Instant::now() + expiry::LOOK,
            circle: Circle::default(),
            policies: None,
            metrics: None,
            ends: false,
            other: None,
        }
    }

    async fn begin(&mut self) -> Result<(), Failure> {
        if self.finder.is_search() {
            let uplink = &self.site.uplink;
            self.prefixes = self.site.net.global_prefixes(uplink.index).await?;
            tracing::info!(
                "waiting for a translation prefix: soliciting routers on {} (RFC 8781), asking resolvers (RFC 7050)",
                uplink.name
            );
        }
        self.follow().await;
        Ok(())
    }

    /// The prefix in force, or the one that the operator wants.
    fn shown_prefix(&self) -> Option<Ipv6Net> {
        self.in_force().or(self.finder.fixed())
    }

    /// The prefix with which packets are translated now.
    fn in_force(&self) -> Option<Ipv6Net> {
        let open = self.device.as_ref().filter(|device| device.is_open);
        open.map(|device| device.side6.pref64)
    }
}
