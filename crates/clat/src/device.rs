// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TUN device of a CLAT and what translates on it: built with the first prefix, opened and closed by its IPv4
//! routes, and moved to another prefix while packets pass.
//!
//! What applications depend on (the device, its IPv4 address, their sockets) stays from the first prefix to the end.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use diolkos_fastpath::{ClatPath, WayOut};
use diolkos_xlat::Translator;
use ipnet::Ipv6Net;

use super::error::ClatError;
use diolkos_config::Settings;
use diolkos_datapath::accept_local;
use diolkos_datapath::labels::Labels;
use diolkos_datapath::slowpath::{self, SlowPath};
use diolkos_datapath::{choice, DatapathError};
use diolkos_kernel::error::KernelError;
use diolkos_kernel::forwarding::Forwarding;
use diolkos_kernel::net::{
    DeviceConfig, ExitRoute, Link, Masquerade, Medium, Net, Route4, Route6, Way,
};
use diolkos_service::failure::Failure;
use diolkos_service::random::random;
use diolkos_service::supervise::Watch;

use super::gate::Gate;
use super::others;
use super::rules::{self, Side6};

/// Added to the metrics of IPv4 routes while nothing can pass, so that any other IPv4 default route is preferred.
const BEHIND: u32 = 1 << 20;

/// The growth of the header, with the Fragment header that an IPv4 fragment needs in addition (RFC 7915 section 4.1).
const GROWTH: u32 = 28;

/// The environment of the device.
#[derive(Clone)]
pub struct Site {
    /// The kernel.
    pub net: Arc<Net>,
    /// The settings.
    pub settings: Arc<Settings>,
    /// The current interface to the IPv6 network.
    pub uplink: Link,
    /// Prefixes of the uplink that belong to a network that it has left.
    pub left: Vec<Ipv6Net>,
}

/// The way of outgoing packets, through the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The way of most packets.
    pub way: Way,
    /// True if it is not the way of all: the kernel chooses for each packet, and every choice leads through the uplink.
    pub varies: bool,
}

/// The TUN device and what translates on it. When this is dropped, the device is removed with all its routes.
pub struct ClatDevice {
    /// Index of the device.
    pub index: u32,
    /// The IPv6 side of the translation.
    pub side6: Side6,
    /// True if IPv4 routes lead to it.
    pub is_open: bool,
    /// True if these routes are behind all others.
    is_behind: bool,
    /// The current configuration of the device.
    pub(super) own: DeviceConfig,
    /// The way of its packets, if there is one.
    pub(super) passage: Option<Passage>,
    /// When its exit was last renewed in the kernel.
    pub(super) renewed: Instant,
    /// The reason why that has failed, as last logged.
    pub(super) refusal: String,
    /// Whether the slow path sends.
    pub(super) gate: Gate,
    /// The way of the fast path, as last set.
    pub(super) told: Option<WayOut>,
    /// The current MTUs of the TUN device and of the IPv6 side, in bytes.
    mtus: [u32; 2],
    // In the order in which they must end: the fast path must not lead to a device that is gone.
    /// The fast path, unless there is only the TUN device.
    pub fast: Option<ClatPath>,
    /// Lets marks survive the slow path.
    pub labels: Labels,
    /// IPv6 forwarding, where packets cross the TUN device.
    forwarding: Option<Forwarding>,
    /// The masquerading, if the CLAT shares the host's address.
    sharing: Option<Masquerade>,
    /// Translates what the fast path leaves.
    pub slow: SlowPath,
}

impl ClatDevice {
    /// Builds everything except the IPv4 side.
    pub async fn build(site: &Site, side6: Side6, watch: &Watch) -> Result<ClatDevice, Failure> {
        let (net, uplink) = (&site.net, &site.uplink);
        let t = &site.settings.translator;
        let translator = translator(site, side6)?;
        let queues = slowpath::readers(t.queues);
        let (tun, index) = net.create_tun(&t.device, queues).await?;
        net.prepare_tun(&t.device, index, rules::tun_mtu(uplink))
            .await?;
        accept_local::admit(net, &site.settings, &[site.settings.clat.v4()]).await?;

        let sharing = shared(side6, &t.device, uplink)?;
        let fast = match sharing {
            // Conntrack would see only one direction.
            Some(_) => None,
            None => {
                let left = others::program_at(uplink);
                if let Some(name) = &left {
                    tracing::info!(
                        "{name}, a BPF program of another CLAT, is attached to {}: that of diolkos goes in front of it",
                        uplink.name
                    );
                }
                // The IPv4 address identifies another CLAT where this process cannot see the names of programs.
                let in_front =
                    left.is_some() || others::other(net, &site.settings).await?.is_some();
                start_fast_path(site, side6, index, in_front)?
            }
        };
        if fast.is_some() {
            // Also those of networks behind the host.
            let links = net.links().await?;
            choice::warn_of_lists(links.iter().map(|link| link.name.as_str()));
            choice::warn_of_routes();
        }
        let forwarding = match fast {
            Some(_) => None,
            None => Some(Forwarding::ipv6(&uplink.name, &t.device)?),
        };
        if forwarding.as_ref().is_some_and(Forwarding::changed) {
            tracing::info!(
                "switching IPv6 forwarding on for {} and {} while diolkos runs",
                uplink.name,
                t.device
            );
        }
        let gate = Gate::shut();
        let engine = gate.before(translator);
        let labels = Labels::start(t, index, tun.queues.len(), None);
        let slow = SlowPath::start(&t.device, tun.queues, labels.slots(), engine, watch)?;
        let mut device = ClatDevice {
            index,
            side6,
            is_open: false,
            is_behind: false,
            own: DeviceConfig {
                index,
                mtu: rules::tun_mtu(uplink),
                ..DeviceConfig::default()
            },
            passage: None,
            renewed: Instant::now(),
            refusal: String::new(),
            gate,
            told: None,
            mtus: mtus(uplink),
            fast,
            labels,
            forwarding,
            sharing,
            slow,
        };
        device.lay(site, false).await?;
        Ok(device)
    }

    /// Returns the forwarding, if packets pass only with the kernel's forwarding.
    pub fn forwarding(&mut self) -> Option<&mut Forwarding> {
        self.forwarding.as_mut()
    }

    /// See [`Forwarding::is_unforced`]; false if packets do not need it.
    pub fn lacks_forwarding(&self) -> bool {
        let forwarding = self.forwarding.as_ref();
        forwarding.is_some_and(Forwarding::is_unforced)
    }

    /// Describes where forwarding has been switched off, if anywhere.
    pub fn obstacle(&self) -> Option<String> {
        self.forwarding.as_ref()?.obstacles().into_iter().next()
    }

    /// Describes what of another CLAT keeps packets from the fast path.
    pub fn loses_packets(&self, uplink: &Link) -> Option<String> {
        others::keeps_packets(self.fast.as_ref()?, uplink)
    }

    /// Leads IPv4 to the translator, as the last step.
    pub async fn open(&mut self, site: &Site) -> Result<(), Failure> {
        match self.is_open {
            true => Ok(()),
            false => self.lay(site, true).await,
        }
    }

    /// Removes the IPv4 routes: applications learn at once that there is no way, or take another.
    pub async fn close(&mut self, site: &Site) {
        if let Err(failure) = self.lay(site, false).await {
            tracing::warn!("{failure}");
        }
    }

    /// Moves the IPv4 routes behind those of others, which may have a way, or back.
    pub async fn stand_behind(&mut self, site: &Site, is_behind: bool) {
        let before = std::mem::replace(&mut self.is_behind, is_behind);
        if before == is_behind || !self.is_open {
            return;
        }
        let done = self.lay(site, true).await;
        if done.is_err() {
            self.is_behind = before;
        }
        self.renewed_by(done, true);
    }

    pub(super) async fn lay(&mut self, site: &Site, is_open: bool) -> Result<(), Failure> {
        let own = self.layout(site, self.side6, self.mtus, is_open);
        let nothing = ready(Ok::<_, KernelError>(()));
        site.net.change(&self.own, &own, nothing).await?;
        (self.own, self.is_open) = (own, is_open);
        Ok(())
    }

    /// Translates with another prefix, or to another address, from the next packet on.
    pub async fn move_to(&mut self, site: &Site, side6: Side6) -> Result<(), Failure> {
        let engine = self.gate.before(translator(site, side6)?);
        let mtus = mtus(&site.uplink);
        let own = self.layout(site, side6, mtus, self.is_open);
        let rules = rules::of(&site.settings, &site.uplink, side6, self.index);
        let (fast, slow, sharing) = (&mut self.fast, &self.slow, &mut self.sharing);
        let commit = async {
            if let Some(sharing) = sharing {
                sharing.change(side6.address, site.uplink.index)?;
            }
            if let Some(fast) = fast {
                fast.swap(&rules).map_err(DatapathError::from)?;
            }
            slow.swap(engine);
            Ok::<_, Failure>(())
        };
        site.net.change(&self.own, &own, commit).await?;
        (self.own, self.side6, self.mtus) = (own, side6, mtus);
        Ok(())
    }

    /// Applies the uplink's MTU; returns false if it has not changed. A device that is down stays down.
    pub async fn resize(&mut self, site: &Site) -> Result<bool, Failure> {
        if self.mtus == mtus(&site.uplink) {
            return Ok(false);
        }
        self.move_to(site, self.side6).await?;
        Ok(true)
    }

    /// Returns the required configuration of the device. Once it was open, its address stays.
    fn layout(&self, site: &Site, side6: Side6, mtus: [u32; 2], is_open: bool) -> DeviceConfig {
        let [mtu, mtu6] = mtus;
        let has_address = is_open || self.own.address.is_some();
        let routes4 = routes4(self.index, site, mtu6, self.is_behind).filter(|_| is_open);
        DeviceConfig {
            index: self.index,
            mtu,
            address: has_address.then_some(site.settings.clat.v4()),
            routes4: routes4.collect(),
            routes6: match self.fast {
                Some(_) => Vec::new(),
                None => vec![route6(self.index, side6)],
            },
            exit: self.exit(site, side6),
        }
    }

    /// Returns what has to stay on the device.
    pub fn own(&self) -> DeviceConfig {
        self.own.clone()
    }

    /// Returns the route of what the kernel forwards from the device.
    pub(super) fn exit(&self, site: &Site, side6: Side6) -> Option<ExitRoute> {
        let passage = self.passage.filter(|passage| !passage.varies)?;
        self.fast.is_none().then_some(ExitRoute {
            to: side6.pref64,
            from: side6.address,
            uplink: site.uplink.index,
            router: passage.way.router,
        })
    }
}

fn mtus(uplink: &Link) -> [u32; 2] {
    [rules::tun_mtu(uplink), rules::mtu6(uplink)]
}

/// Returns the translator of the slow path; the error describes how the prefix contradicts the configuration.
fn translator(site: &Site, side6: Side6) -> Result<Translator, ClatError> {
    let config = rules::translation(&site.settings, &site.uplink, side6);
    Translator::new(&config).map_err(ClatError::from)
}

fn start_fast_path(
    site: &Site,
    side6: Side6,
    tun_ifindex: u32,
    in_front: bool,
) -> Result<Option<ClatPath>, Failure> {
    let t = &site.settings.translator;
    let rules = rules::of(&site.settings, &site.uplink, side6, tun_ifindex);
    choice::start(t, |attach| match site.uplink.medium {
        Medium::Other => Err(ClatError::LinkLayer(site.uplink.name.clone()).into()),
        _ => ClatPath::start(&rules, attach, in_front, &t.device, random())
            .map_err(|e| DatapathError::from(e).into()),
    })
}

fn shared(side6: Side6, device: &str, uplink: &Link) -> Result<Option<Masquerade>, KernelError> {
    let sharing = side6
        .is_shared
        .then(|| Masquerade::begin(device, side6.address, uplink.index));
    sharing.transpose()
}

/// Returns the route that leads packets for the CLAT's address to the device, where no program does.
fn route6(index: u32, side6: Side6) -> Route6 {
    Route6 {
        to: side6.address.into(),
        index,
        metric: None,
        is_first: true,
    }
}

fn routes4(
    index: u32,
    site: &Site,
    mtu6: u32,
    is_behind: bool,
) -> impl Iterator<Item = Route4> + '_ {
    let clat = &site.settings.clat;
    let metric = match is_behind {
        true => clat.metric().saturating_add(BEHIND),
        false => clat.metric(),
    };
    let mtu = mtu6 - GROWTH;
    clat.routes.iter().map(move |to| Route4 {
        to: *to,
        index,
        source: Some(clat.v4()),
        metric,
        mtu: Some(mtu),
    })
}
