// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the first look at the uplink to the clean machine after it.
//!
//! find the prefix → claim an address for it → build, or move → open, once something can pass → serve → leave. With a
//! prefix that the operator has said, each stage is passed once; with one that the network says, as often as that changes.

mod address;
mod answers;
mod claim;
mod device;
mod doubts;
mod finder;
mod mtu;
pub mod neighbour;
mod opening;
mod prefix;
mod reload;
mod rules;
mod serving;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use ipnet::Ipv6Net;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::Settings;
use crate::control;
use crate::failure::Failure;
use crate::handover;
use crate::metrics::Metrics;
use crate::net::{Link, PolicyNews};
use crate::privilege::{self, NET_ADMIN, NET_RAW};
use crate::service::{self, Host};
use crate::supervise::{Supervision, Task, Watch};

use claim::{check_v4, Claim};
use device::{ClatDevice, Site};
use doubts::Doubts;
use finder::Finder;
use rules::Side6;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

/// Runs until a signal comes (then it succeeds) or the uplink goes (then it fails).
/// `read`: reads the configuration again.
pub async fn run(
    settings: Settings,
    read: impl Fn() -> Result<Settings, Failure> + 'static,
    supervision: Supervision,
) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN, NET_RAW])?;
    let mut host = Host::new(supervision).await?;
    let net = host.net.clone();
    let uplink = net.link(&settings.translator.interfaces[0]).await?;
    let uplink = as_configured(uplink, &settings);
    if uplink.mtu6 < IPV6_MINIMUM_MTU {
        return Err(Failure::run_time(format!(
            "the MTU of {} is {} bytes, and IPv6 needs {IPV6_MINIMUM_MTU}",
            uplink.name, uplink.mtu6
        )));
    }
    let mut control = control::listen(
        "clat",
        &settings.translator.device,
        &settings.control.group,
        &host.watch,
    )?;

    handover::clear(&net, &settings.translator.device).await?;
    check_v4(&net, &settings).await?;
    let finder = Finder::new(&settings, &uplink)?;
    let site = Site {
        net: net.clone(),
        settings: Arc::new(settings),
        uplink,
    };
    let mut clat = Clat::new(site, finder, host.watch.clone(), Box::new(read));
    clat.policies = Some(PolicyNews::begin(&host.watch).await);
    let served = async {
        clat.begin().await?;
        let metrics = Metrics::start(&clat.site.settings, control.asker(), &host.watch);
        clat.metrics = Some(metrics);
        service::serve(&mut clat, &mut host, &mut control).await
    }
    .await;
    served.map(|_| ())
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
    /// Of the uplink's MTU.
    mtus: mtu::Changes,
    /// That it is ready was said last of this.
    ready: Option<Side6>,
    /// Why nothing can pass, as it was said last.
    obstacle: Option<String>,
    /// Why answers may not come back.
    doubts: Doubts,
    /// IPsec policies, which the fast path bypasses.
    policies: Option<PolicyNews>,
    /// Where figures are served.
    metrics: Option<Metrics>,
}

impl Clat {
    fn new(site: Site, finder: Finder, watch: Watch, read: Read) -> Clat {
        Clat {
            read,
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
            mtus: mtu::Changes::default(),
            ready: None,
            obstacle: None,
            doubts: Doubts::default(),
            policies: None,
            metrics: None,
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
