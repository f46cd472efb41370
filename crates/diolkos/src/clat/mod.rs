// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the first look at the uplink to the clean machine
//! after it: find → claim → build → open → serve → leave.

mod address;
mod claim;
pub mod neighbour;
mod rules;

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_core::Translator;
use diolkos_sys::fastpath;
use diolkos_sys::fastpath::ClatPath;
use diolkos_sys::tun::Tun;
use futures_util::stream::BoxStream;
use futures_util::StreamExt;
use tokio::net::UnixListener;
use tokio::time::Instant;

use crate::accelerate;
use crate::config::{Settings, V6Address};
use crate::control::{self, Answer, Request};
use crate::counters;
use crate::failure::Failure;
use crate::forwarding::{self, Forwarding};
use crate::net::{Event, Link, Medium, Net, Route4, Route6};
use crate::privilege::{self, NET_ADMIN, NET_RAW};
use crate::random::random;
use crate::signals::Signals;
use crate::slowpath::{self, SlowPath};

use claim::claim;
use neighbour::Responder;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;
/// What the header grows by, and the Fragment header that an IPv4 fragment needs besides (RFC 7915 section 4.1).
const GROWTH: u32 = 28;
/// Routes come and go in groups; while they do, the fast path looks each packet's route up.
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
    let control = control::listen(&settings.translator.device)?;

    forwarding::restore_leftovers(&settings.translator.device);
    if fastpath::take_off_leftovers(uplink.index, &settings.translator.device) {
        tracing::info!(
            "took the programs off {} that a killed run left",
            uplink.name
        );
        net.remove_unused_clsact(uplink.index).await;
    }
    let (address, responder) = tokio::select! {
        claimed = claim(&net, &settings, &uplink) => claimed?,
        () = signals.any() => return Ok(()),
    };
    let mut isthmus = Isthmus::build(&net, &settings, &uplink, address).await?;
    let served = async {
        open(&net, &settings, &uplink, &isthmus).await?;
        tracing::info!(
            "ready: {} <-> {} on {}, prefix {}, datapath {}",
            settings.clat.v4,
            address,
            uplink.name,
            settings.translator.pref64[0],
            accelerate::datapath(isthmus.fast.as_deref())
        );
        let world = World {
            net: &net,
            settings: &settings,
            uplink: &uplink,
            control: &control,
        };
        serve(world, &mut isthmus, responder.as_ref(), news, &mut signals).await
    }
    .await;
    let qdiscs = isthmus
        .fast
        .as_ref()
        .map(|fast| fast.made_qdiscs())
        .unwrap_or_default();
    drop(isthmus);
    for index in qdiscs {
        net.remove_unused_clsact(index).await;
    }
    served
}

/// The TUN device and what translates on it. Dropped, it is gone with all its routes.
struct Isthmus {
    index: u32,
    address: Ipv6Addr,
    // In the order in which they must end: the fast path must not lead to a device that is gone.
    fast: Option<ClatPath>,
    _forwarding: Option<Forwarding>,
    slow: SlowPath,
}

impl Isthmus {
    async fn build(
        net: &Net,
        settings: &Settings,
        uplink: &Link,
        address: Ipv6Addr,
    ) -> Result<Isthmus, Failure> {
        let t = &settings.translator;
        let translator = Translator::new(&rules::translation(settings, uplink, address))
            .map_err(|e| Failure::usage(format!("the configuration contradicts itself: {e}")))?;
        let tun = Tun::create(&t.device, slowpath::readers(t.queues))?;
        let index = net.link(&t.device).await?.index;
        net.prepare_tun(index, rules::tun_mtu(uplink)).await?;

        let fast = start_fast_path(settings, uplink, address, index)?;
        let forwarding = match fast {
            Some(_) => None,
            None => {
                let route = Route6 {
                    to: address.into(),
                    index,
                    metric: None,
                };
                net.add_route6(&route).await?;
                Some(Forwarding::ipv6(&uplink.name, &t.device)?)
            }
        };
        if forwarding.as_ref().is_some_and(Forwarding::changed) {
            tracing::info!(
                "IPv6 forwarding is switched on for {} and {} while this runs",
                uplink.name,
                t.device
            );
        }
        let slow = SlowPath::start(tun.queues, Arc::new(translator)).map_err(|e| {
            Failure::run_time(format!("cannot start the readers of {}: {e}", t.device))
        })?;
        Ok(Isthmus {
            index,
            address,
            fast,
            _forwarding: forwarding,
            slow,
        })
    }

    /// Tells the fast path the one router behind the prefix, or that it must look the route up.
    fn next_hop(&mut self, world: &World<'_>, router: Option<Ipv6Addr>) {
        let Some(fast) = &mut self.fast else { return };
        // A link without neighbours has no use for it.
        let router = router.filter(|_| world.uplink.medium == Medium::Ethernet);
        tracing::debug!(
            "next hop to the prefix: {}",
            router.map_or("by route".to_owned(), |r| r.to_string())
        );
        if let Err(error) = fast.set_next_hop(router) {
            tracing::warn!("the next hop cannot be told to the fast path: {error}");
        }
    }
}

fn start_fast_path(
    settings: &Settings,
    uplink: &Link,
    address: Ipv6Addr,
    tun_ifindex: u32,
) -> Result<Option<ClatPath>, Failure> {
    let t = &settings.translator;
    let rules = rules::of(settings, uplink, address, tun_ifindex);
    accelerate::start(t, |attach| match uplink.medium {
        Medium::Other => Err(Failure::missing(format!(
            "the fast path does not know the link layer of {}",
            uplink.name
        ))),
        _ => ClatPath::start(&rules, attach, &t.device, random()).map_err(accelerate::failure),
    })
}

/// Last of all, leads IPv4 to the translator.
async fn open(
    net: &Net,
    settings: &Settings,
    uplink: &Link,
    isthmus: &Isthmus,
) -> Result<(), Failure> {
    net.add_address4(isthmus.index, settings.clat.v4).await?;
    for to in &settings.clat.routes {
        let route = Route4 {
            to: *to,
            index: isthmus.index,
            source: Some(settings.clat.v4),
            metric: settings.clat.metric,
            mtu: Some(rules::mtu6(uplink) - GROWTH),
        };
        net.add_route4(&route).await?;
    }
    Ok(())
}

/// What stays the same while it serves.
struct World<'a> {
    net: &'a Net,
    settings: &'a Settings,
    uplink: &'a Link,
    control: &'a UnixListener,
}

impl World<'_> {
    /// Fails when the prefix is gone from which the CLAT's address was made: nobody would answer to it any more.
    async fn still_has(&self, address: Ipv6Addr) -> Result<(), Failure> {
        if self.settings.clat.v6 != V6Address::Auto {
            return Ok(());
        }
        if self.net.is_in_prefix_of(self.uplink.index, address).await? {
            return Ok(());
        }
        Err(Failure::run_time(format!(
            "{} has no address any more in the prefix of {address}: start again to take another",
            self.uplink.name
        )))
    }
}

/// Answers whoever asks, and follows the routes, until it is time to leave.
async fn serve(
    world: World<'_>,
    isthmus: &mut Isthmus,
    responder: Option<&Responder>,
    mut news: BoxStream<'static, Event>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let uplink = world.uplink;
    let gone = || Failure::run_time(format!("the uplink {} is gone", uplink.name));
    let device = &world.settings.translator.device;
    let device_gone = || Failure::run_time(format!("the TUN device {device} is gone"));
    let answering = async {
        match responder {
            Some(responder) => responder.answer().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(answering);
    let mut routes_settle = Some(Instant::now());
    let mut addresses_settle = None;
    loop {
        tokio::select! {
            () = signals.any() => {
                tracing::info!("stopped by a signal");
                return Ok(());
            }
            event = news.next() => match event {
                Some(Event::LinkGone(index)) if index == uplink.index => return Err(gone()),
                Some(Event::LinkChanged(link)) if link.index == uplink.index && link.mtu != uplink.mtu => {
                    return Err(Failure::run_time(format!(
                        "the MTU of the uplink {} changed from {} to {}: start again to follow it",
                        uplink.name, uplink.mtu, link.mtu
                    )));
                }
                Some(Event::LinkGone(index)) if index == isthmus.index => return Err(device_gone()),
                // A link that goes loses its addresses first; that it is gone is the better news.
                Some(Event::AddressesChanged) => addresses_settle = Some(Instant::now() + SETTLE),
                Some(Event::RoutesChanged) => {
                    isthmus.next_hop(&world, None);
                    routes_settle = Some(Instant::now() + SETTLE);
                }
                Some(Event::LinkGone(_) | Event::LinkChanged(_)) => {}
                None => return Err(Failure::run_time("the kernel closed the netlink connection")),
            },
            () = isthmus.slow.failed() => return Err(device_gone()),
            () = until(addresses_settle) => {
                addresses_settle = None;
                world.still_has(isthmus.address).await?;
            }
            () = until(routes_settle) => {
                routes_settle = None;
                let router = world.net.sole_router(world.settings.translator.pref64[0], uplink.index).await;
                isthmus.next_hop(&world, router);
            }
            never = &mut answering => match never {},
            accepted = world.control.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if let Err(error) = control::serve(stream, async |request| reply(world.settings, isthmus, request)).await {
                    tracing::debug!("a control request failed: {error}");
                }
            }
        }
    }
}

/// A moment, or never.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn reply(settings: &Settings, isthmus: &Isthmus, request: Request) -> Answer {
    match request {
        Request::Hello => Answer::Hello {
            pid: std::process::id(),
        },
        Request::Counters => match counters::read(isthmus.fast.as_deref(), &isthmus.slow.tallies) {
            Ok(counters) => Answer::Counters(counters),
            Err(error) => Answer::Failed(format!("the counters cannot be read: {error}")),
        },
        Request::Config => {
            let mut settings = settings.clone();
            settings.clat.v6 = V6Address::Fixed(isthmus.address);
            match settings.canonical() {
                Ok(text) => Answer::Config(text),
                Err(error) => Answer::Failed(error.to_string()),
            }
        }
        Request::Sessions | Request::Bindings | Request::Bind(_) | Request::Unbind { .. } => {
            Answer::Failed("a CLAT has no bindings and sessions".to_owned())
        }
        Request::Reload => Answer::Failed(
            "a CLAT does not reload: its addresses are part of its eBPF programs; stop it and start it again".to_owned(),
        ),
    }
}
