// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A translator for a router, stateless (RFC 7915) or stateful (RFC 6146), from the first look at the
//! machine to the clean machine after it: build → lead → serve (→ reload) → leave.

mod addresses;
mod crossing;
mod reload;
mod routes;
mod rules;
mod stateful;
mod stateless;

use diolkos_core::config::nat64::Endpoint4;
use diolkos_core::ConfigError;
use diolkos_sys::fastpath::{self, FastPath, Inline};
use diolkos_sys::memory;
use diolkos_sys::tun::Tun;
use futures_util::stream::BoxStream;
use futures_util::StreamExt;
use tokio::net::UnixListener;

use crate::accelerate;
use crate::config::{Found, Mode, Mtu, Placement, Settings, V6Address};
use crate::control::{self, Answer, Request};
use crate::counters;
use crate::failure::{Failure, Kind};
use crate::forwarding::{self, Forwarding};
use crate::nat64::{self, Controller};
use crate::net::{Event, Medium, Net};
use crate::privilege::{self, NET_ADMIN};
use crate::signals::Signals;
use crate::slowpath::{self, SlowPath};

use crossing::Crossing;
use routes::Routes;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;
/// What an IPv4 packet can hold, and with it the greatest MTU of a TUN device, bytes.
const LARGEST_MTU: u32 = 65535;

/// Runs until a signal comes (then it succeeds) or the device goes (then it fails). `read` reads the configuration again.
pub async fn run(
    settings: Settings,
    read: impl Fn() -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN])?;
    let mut signals = Signals::new()?;
    let (mut net, news) = Net::connect()?;
    let control = control::listen(&settings.translator.device)?;
    forwarding::restore_leftovers(&settings.translator.device);

    clear_leftovers(&mut net, &settings).await?;

    let mut isthmus = Isthmus::build(&net, settings).await?;
    let served = async {
        let metric = Routes::metric(&isthmus.settings);
        isthmus.routes.add(&net, isthmus.index, metric).await?;
        isthmus.announce("ready");
        serve(&net, &mut isthmus, &read, &control, news, &mut signals).await
    }
    .await;
    let fast = isthmus.crossing.fast();
    let qdiscs = fast.map(FastPath::made_qdiscs).unwrap_or_default();
    drop(isthmus);
    for index in qdiscs {
        net.remove_unused_clsact(index).await;
    }
    served
}

/// The TUN device and what translates on it. Dropped, it is gone with all its routes.
struct Isthmus {
    index: u32,
    settings: Settings,
    found: Found,
    routes: Routes,
    // In the order in which they must end: nothing is led to a device that is gone.
    crossing: Crossing,
    /// Indices of the interfaces at which packets are translated before any routing.
    inline: Vec<u32>,
    _forwarding: Forwarding,
    slow: SlowPath,
}

impl Isthmus {
    async fn build(net: &Net, settings: Settings) -> Result<Isthmus, Failure> {
        let t = &settings.translator;
        let found = look_around(net, &settings).await?;
        addresses::check(net, &settings).await?;
        let tun = Tun::create(&t.device, slowpath::readers(t.queues))?;
        let index = net.link(&t.device).await?.index;
        net.prepare_tun(index, device_mtu(&settings, found)).await?;
        let unusable = |e| Failure::run_time(format!("cannot use {}: {e}", t.device));
        let queue = || tun.queues[0].try_clone().map_err(unusable);
        let inline = inline(net, &settings).await?;
        let (crossing, engine) = Crossing::build(&settings, found, index, &inline, queue)?;
        let forwarding = Forwarding::both(&t.interfaces, &t.device)?;
        if forwarding.changed() {
            tracing::info!("forwarding is switched on while this runs");
        }
        let slow = SlowPath::start(tun.queues, engine).map_err(|e| {
            Failure::run_time(format!("cannot start the readers of {}: {e}", t.device))
        })?;
        Ok(Isthmus {
            index,
            found,
            routes: Routes::of(&settings),
            settings,
            crossing,
            inline: inline.iter().map(|inline| inline.ifindex).collect(),
            _forwarding: forwarding,
            slow,
        })
    }

    /// Takes another configuration: whole, or not at all. A packet is translated by the old one or by the new one.
    async fn reload(&mut self, net: &Net, new: Settings) -> Result<(), Failure> {
        if let Some(refusal) = reload::refusal(&self.settings, &new) {
            return Err(Failure::run_time(refusal));
        }
        let found = look_around(net, &new).await?;
        addresses::check(net, &new).await?;
        let next = self.crossing.prepare(&new, found, self.index)?;
        let routes = Routes::of(&new);
        let metric = Routes::metric(&new);
        let added = routes.without(&self.routes);
        // A larger device first, a smaller one last: no packet meets one that is too small for it.
        let (old_mtu, new_mtu) = (
            device_mtu(&self.settings, self.found),
            device_mtu(&new, found),
        );
        if new_mtu > old_mtu {
            net.set_tun_mtu(self.index, new_mtu).await?;
        }
        added.add(net, self.index, metric).await?;
        if let Err(failure) = self.crossing.commit(&new, next, &self.slow) {
            added.remove(net, self.index, metric).await;
            return Err(failure);
        }
        let removed = self.routes.without(&routes);
        removed.remove(net, self.index, metric).await;
        (self.settings, self.found, self.routes) = (new, found, routes);
        if new_mtu < old_mtu {
            if let Err(failure) = net.set_tun_mtu(self.index, new_mtu).await {
                tracing::warn!("{failure}");
            }
        }
        // Two tables were there for a while, and one may have 100 000 mappings.
        memory::give_back();
        self.announce("reloaded");
        Ok(())
    }

    fn announce(&self, event: &str) {
        let t = &self.settings.translator;
        let list = |of: Vec<String>| match of.is_empty() {
            true => "none".to_owned(),
            false => of.join(", "),
        };
        let prefixes = list(t.pref64.iter().map(ToString::to_string).collect());
        let what = match t.mode {
            Mode::Nat64 => {
                let pool = self.settings.nat64.pool4.iter();
                let pool = pool.map(|part| String::from(part.address)).collect();
                format!(
                    "nat64 on {}, prefixes {prefixes}, pool {}",
                    t.device,
                    list(pool)
                )
            }
            Mode::Clat | Mode::Siit => format!(
                "siit on {}, prefixes {prefixes}, {} mappings",
                t.device,
                self.settings.eam.len()
            ),
        };
        let inline = match (t.placement, self.crossing.fast()) {
            (Placement::Inline, Some(_)) => format!(", inline at {}", t.interfaces.join(", ")),
            _ => String::new(),
        };
        tracing::info!(
            "{event}: {what}, MTU {} (IPv4) and {} (IPv6), datapath {}",
            t.mtu4.or(self.found.mtu4),
            t.mtu6.or(self.found.mtu6),
            accelerate::datapath(self.crossing.fast()) + &inline,
        );
        let section = Routes::section(&self.settings);
        for (family, number, empty) in [
            (4, "routes4", self.routes.v4.is_empty()),
            (6, "routes6", self.routes.v6.is_empty()),
        ] {
            if empty {
                tracing::warn!(
                    "no IPv{family} route leads to {}: give {section}.{number}, or add routes yourself",
                    t.device
                );
            }
        }
    }

    async fn reply(
        &mut self,
        net: &Net,
        read: &impl Fn() -> Result<Settings, Failure>,
        request: Request,
    ) -> Answer {
        match request {
            Request::Hello => Answer::Hello {
                pid: std::process::id(),
            },
            Request::Counters => self.counters(),
            Request::Sessions => self.of_state(|state| Answer::Sessions(nat64::sessions(state))),
            Request::Bindings => self.of_state(|state| Answer::Bindings(nat64::bindings(state))),
            Request::Bind(binding) => {
                let device = &self.settings.translator.device;
                let address = *binding.v4.ip();
                let fit = addresses::check_bound(net, device, &self.routes, address).await;
                self.of_state(|state| match fit.map(|()| state.bind(binding.into())) {
                    Ok(Ok(())) => Answer::Done,
                    Ok(Err(error)) => Answer::Misconfigured(format!("not bound: {error}")),
                    Err(failure) => refused(&failure),
                })
            }
            Request::Unbind { protocol, v4 } => self.of_state(|state| {
                let v4 = Endpoint4 {
                    addr: *v4.ip(),
                    port: v4.port(),
                };
                match state.unbind(protocol.into(), v4) {
                    Ok(_) => Answer::Done,
                    Err(error) => Answer::Misconfigured(format!("{v4}: {error}")),
                }
            }),
            Request::Config => match self.in_force().canonical() {
                Ok(text) => Answer::Config(text),
                Err(failure) => Answer::Failed(failure.to_string()),
            },
            Request::Reload => {
                let done = match read() {
                    Ok(new) => self.reload(net, new).await,
                    Err(failure) => Err(failure),
                };
                let Err(failure) = done else {
                    return Answer::Reloaded;
                };
                tracing::warn!("not reloaded, the old configuration stays in force: {failure}");
                refused(&failure)
            }
        }
    }

    fn counters(&self) -> Answer {
        let mut tallies = self.slow.tallies.clone();
        tallies.extend(self.crossing.tally());
        match counters::read(self.crossing.fast(), &tallies) {
            Ok(mut counters) => {
                if let Some(controller) = self.crossing.controller() {
                    counters.extend(counters::of_state(
                        &controller.counts(),
                        controller.refused(),
                    ));
                }
                Answer::Counters(counters)
            }
            Err(error) => Answer::Failed(format!("the counters cannot be read: {error}")),
        }
    }

    fn of_state(&self, answer: impl FnOnce(&Controller) -> Answer) -> Answer {
        match self.crossing.controller() {
            Some(controller) => answer(controller),
            None => {
                Answer::Failed("a stateless translator has no bindings and sessions".to_owned())
            }
        }
    }

    /// The settings with what was found in place of `auto`.
    fn in_force(&self) -> Settings {
        let mut settings = self.settings.clone();
        let translation = settings.translation(self.found);
        settings.translator.mtu4 = Mtu::Bytes(translation.mtu4);
        settings.translator.mtu6 = Mtu::Bytes(translation.mtu6);
        if let Some(address) = translation.icmp.address6 {
            settings.icmp.address6 = V6Address::Fixed(address);
        }
        settings
    }
}

fn refused(failure: &Failure) -> Answer {
    match failure.kind {
        Kind::Usage => Answer::Misconfigured(failure.to_string()),
        _ => Answer::Failed(failure.to_string()),
    }
}

/// Finds what the settings leave to the program: as MTU that of the largest interface, from which or to which packets go,
/// so that the kernel's own limits decide; and an address of the router's for ICMPv6 errors.
async fn look_around(net: &Net, settings: &Settings) -> Result<Found, Failure> {
    let t = &settings.translator;
    let links = net.links().await?;
    for name in &t.interfaces {
        net.link(name).await?;
    }
    let among = |name: &String| match t.interfaces.is_empty() {
        true => name != "lo" && *name != t.device,
        false => t.interfaces.contains(name),
    };
    let mtu = links
        .iter()
        .filter(|link| among(&link.name))
        .map(|link| link.mtu)
        .max()
        .unwrap_or(Found::OFFLINE_MTU)
        .clamp(IPV6_MINIMUM_MTU, LARGEST_MTU);
    let found = Found {
        mtu4: mtu,
        mtu6: mtu,
        address6: net.global_address6().await?,
    };
    Ok(found)
}

/// The interfaces at which packets are translated before any routing.
async fn inline(net: &Net, settings: &Settings) -> Result<Vec<Inline>, Failure> {
    let t = &settings.translator;
    let mut inline = Vec::new();
    if t.placement != Placement::Inline {
        return Ok(inline);
    }
    for name in &t.interfaces {
        let link = net.link(name).await?;
        inline.push(Inline {
            ifindex: link.index,
            is_ethernet: match link.medium {
                Medium::Ethernet => true,
                Medium::BareIp => false,
                Medium::Other => {
                    return Err(Failure::missing(format!(
                        "the fast path does not know the link layer of {name}"
                    )))
                }
            },
        });
        if forwarding::has_strict_filter(name) {
            tracing::warn!(
                "net.ipv4.conf.{name}.rp_filter is strict and drops what is translated inline there: set it, or that of \
                 `all`, to 2"
            );
        }
    }
    Ok(inline)
}

/// Takes off what a killed run left at the interfaces.
/// They need not be those of this configuration.
async fn clear_leftovers(net: &mut Net, settings: &Settings) -> Result<(), Failure> {
    for link in net.links().await? {
        if fastpath::take_off_leftovers(link.index, &settings.translator.device) {
            tracing::info!("took the programs off {} that a killed run left", link.name);
            net.remove_unused_clsact(link.index).await;
        }
    }
    Ok(())
}

/// What contradicts itself now that the machine is known.
fn misconfigured(settings: &Settings, error: ConfigError) -> Failure {
    let problems = error.problems.iter();
    let sentences: Vec<String> = problems
        .map(|problem| format!("{}: {}", settings.key(&problem.key), problem.message))
        .collect();
    Failure::usage(sentences.join("\n"))
}

/// The device holds what either side can send.
fn device_mtu(settings: &Settings, found: Found) -> u32 {
    let t = &settings.translator;
    t.mtu4
        .or(found.mtu4)
        .max(t.mtu6.or(found.mtu6))
        .max(IPV6_MINIMUM_MTU)
}

/// Answers whoever asks, until it is time to leave.
async fn serve(
    net: &Net,
    isthmus: &mut Isthmus,
    read: &impl Fn() -> Result<Settings, Failure>,
    control: &UnixListener,
    mut news: BoxStream<'static, Event>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            () = signals.any() => {
                tracing::info!("stopped by a signal");
                return Ok(());
            }
            event = news.next() => match event {
                Some(Event::LinkGone(index)) if index == isthmus.index => {
                    let device = &isthmus.settings.translator.device;
                    return Err(Failure::run_time(format!("the device {device} is gone")));
                }
                Some(Event::LinkGone(index)) if isthmus.inline.contains(&index) => tracing::warn!(
                    "an interface is gone at which packets were translated inline: should it come again, its packets take \
                     the device {} until this is started again",
                    isthmus.settings.translator.device
                ),
                Some(Event::LinkGone(_) | Event::LinkChanged(_) | Event::RoutesChanged | Event::AddressesChanged) => {}
                None => return Err(Failure::run_time("the kernel closed the netlink connection")),
            },
            () = isthmus.slow.failed() => {
                let device = &isthmus.settings.translator.device;
                return Err(Failure::run_time(format!("the device {device} is gone")));
            }
            accepted = control.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let answer = async |request| isthmus.reply(net, read, request).await;
                if let Err(error) = control::serve(stream, answer).await {
                    tracing::debug!("a control request failed: {error}");
                }
            }
        }
    }
}
