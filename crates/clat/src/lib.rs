// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the examination of the uplink to the cleanup of the machine.
//!
//! choose the uplink and a place beside other CLATs → find the prefix → claim an address for it → build, or move →
//! open, once packets can pass → serve → leave. With a configured prefix, each stage is passed once; with a discovered
//! prefix, as often as that changes.
//!
//! This crate knows the uplink, the translation prefix and the host's addresses, but not sessions or pools. Call
//! [`run`] to run a CLAT.

mod address;
mod answers;
mod arrival;
mod circle;
mod claim;
mod device;
mod doubts;
mod error;
mod exit;
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

use diolkos_config::Settings;
use diolkos_control::metrics::Metrics;
use diolkos_control::service::{self, Host};
use diolkos_control::translator;
use diolkos_datapath::expiry::{self, Expiry};
use diolkos_kernel::handover;
use diolkos_kernel::net::{Link, PolicyNews};
use diolkos_service::failure::{Exit, Failure};

use diolkos_service::privilege::{self, NET_ADMIN, NET_RAW};
use diolkos_service::supervise::Supervision;
use diolkos_service::supervise::{Task, Watch};
use error::ClatError;

use arrival::Arrival;
use circle::Circle;
use claim::Claim;
use device::{ClatDevice, Site};
use doubts::Doubts;
use finder::Finder;
use place::{check_metric, Reservation};
use router::Router;
use rules::Side6;
use unanswered::Unanswered;

/// RFC 8200 section 5, in bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

/// Runs until a signal arrives (then it succeeds) or the uplink is removed (then it fails, if the operator has named
/// it). `read` reads the configuration again.
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
    let mut control = translator::listen(
        "clat",
        &settings.translator.device,
        &settings.control.group,
        &host.watch,
    )?;

    handover::clear(&net, &settings.translator.device).await?;
    check_metric(&net, &settings).await.map_err(as_usage)?;
    let mut place = Reservation::default();
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

/// The failure of a start: unless a retry may succeed, the next start will have it too.
fn as_usage(failure: Failure) -> Failure {
    match failure.exit() {
        Exit::RunTime if !failure.is_transient() => ClatError::AsConfigured(failure).into(),
        _ => failure,
    }
}

/// Returns true if the MTU is large enough for IPv6.
fn large_enough(uplink: &Link) -> Result<(), ClatError> {
    match uplink.mtu6 < IPV6_MINIMUM_MTU {
        false => Ok(()),
        true => Err(ClatError::SmallMtu {
            name: uplink.name.clone(),
            mtu: uplink.mtu6,
            minimum: IPV6_MINIMUM_MTU,
        }),
    }
}

/// Returns a link with the properties that the operator has configured.
fn as_configured(mut uplink: Link, settings: &Settings) -> Link {
    uplink.mtu6 = settings.translator.mtu6.or(uplink.mtu6);
    uplink
}

/// Reads the configuration.
type Read = Box<dyn Fn() -> Result<Settings, Failure>>;

/// A CLAT on its way from a prefix to translation, and from that to the next.
struct Clat {
    /// Reads the configuration again.
    read: Read,
    /// Its IPv4 address and metric.
    place: Reservation,
    /// True if the operator has named no uplink: it is that of the default route.
    chooses_uplink: bool,
    /// True if it ends because another uplink has the default route now.
    moves: bool,
    /// Until then the prefix in force stays, although none is known: the search has only just begun.
    holds: Option<Instant>,
    site: Site,
    finder: Finder,
    watch: Watch,
    /// The prefix that was last chosen.
    wanted: Option<Ipv6Net>,
    /// The pending claim of an address for the wanted prefix.
    claiming: Option<BoxFuture<'static, Result<Claim, Failure>>>,
    /// How often in a row the kernel could not say whether there is an address.
    failures: u32,
    /// True if the uplink had no prefix for an address: the claim is retried when that changes.
    stranded: bool,
    /// Built with the first prefix.
    device: Option<ClatDevice>,
    /// The source of the device's address.
    origin: String,
    /// True if it lies in a prefix of the uplink. After a reload, the configuration may already describe the next
    /// address.
    is_of_uplink: bool,
    /// Answers for the address.
    answering: Option<Task>,
    /// Receives a report that another host has the address, while it is tentative.
    duplicate: Option<oneshot::Receiver<()>>,
    /// The uplink's prefixes, which distinguish networks.
    prefixes: Vec<Ipv6Net>,
    /// When the uplink last came up.
    arrival: Arrival,
    /// Changes of the uplink's MTU.
    mtus: mtu::Changes,
    /// The address and prefix that were last announced as ready.
    ready: Option<Side6>,
    /// Why nothing can pass, as last logged.
    obstacle: Option<String>,
    /// True if the obstacle will end in a moment, and is not worth logging.
    is_pending: bool,
    /// The router on the uplink.
    router: Router,
    /// True if the kernel chooses the way for each packet.
    varies: bool,
    /// True if routes have changed since the exit was last renewed.
    may_have_changed: bool,
    /// When the kernel was asked for the way, and when it is asked again.
    asked: Option<Instant>,
    asks: Option<Instant>,
    /// Reasons why answers may not come back.
    doubts: Doubts,
    /// Packets without an answer.
    unanswered: Unanswered,
    /// Packets that ran out of hops, and when to check for more.
    expiry: Expiry,
    loops_next: Instant,
    /// Packets that loop through an uplink that wraps them.
    circle: Circle,
    /// IPsec policies, which the fast path bypasses.
    policies: Option<PolicyNews>,
    /// The server of metrics.
    metrics: Option<Metrics>,
    /// True if the operator has ended it for good.
    ends: bool,
    /// Another program's CLAT on this host, in words.
    other: Option<String>,
}

impl Clat {
    fn new(site: Site, finder: Finder, watch: Watch, read: Read, place: Reservation) -> Clat {
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

    /// Returns the prefix in force, or the configured one.
    fn shown_prefix(&self) -> Option<Ipv6Net> {
        self.in_force().or(self.finder.fixed())
    }

    /// Returns the prefix with which packets are translated now.
    fn in_force(&self) -> Option<Ipv6Net> {
        let open = self.device.as_ref().filter(|device| device.is_open);
        open.map(|device| device.side6.pref64)
    }
}
