// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces at which a router's packets are translated before any routing: found at start and at a reload, and
//! used again when they return after a removal.

use diolkos_fastpath::{Inline, Media};

use super::drivers;
use super::error::RouterError;
use super::gateway::Gateway;
use super::vrf::{vrf, warn_of_vrfs};
use diolkos_config::{Placement, Settings};
use diolkos_kernel::forwarding;
use diolkos_kernel::net::{Event, Link, Medium, Net};
use diolkos_service::failure::Failure;

/// The interfaces, and a line for the log about the choice of their drivers.
#[derive(Default)]
pub struct Found {
    pub inline: Vec<Inline>,
    /// None if drivers were not considered.
    pub said: Option<String>,
}

impl Found {
    /// Returns the interfaces, and logs the line.
    pub fn log(self) -> Vec<Inline> {
        if let Some(said) = self.said {
            tracing::info!("{said}");
        }
        self.inline
    }
}

/// Returns the interfaces with these names; none with the placement `device`. With `may_have_drivers`, checks whether
/// their drivers should translate.
pub async fn find(
    net: &Net,
    settings: &Settings,
    names: &[String],
    may_have_drivers: bool,
) -> Result<Found, Failure> {
    let t = &settings.translator;
    let (mut inline, mut named) = (Vec::new(), Vec::new());
    let mut said = None;
    if t.placement == Placement::Device {
        return Ok(Found::default());
    }
    for name in names {
        let link = net.link(name).await?;
        named.push(link.clone());
        inline.push(Inline {
            ifindex: link.index,
            is_ethernet: match link.medium {
                Medium::Ethernet => true,
                Medium::BareIp => false,
                Medium::Other => return Err(RouterError::LinkLayer(name.clone()).into()),
            },
            vrf: None,
            driver: None,
        });
        if forwarding::has_strict_filter(name) {
            tracing::warn!(
                "net.ipv4.conf.{name}.rp_filter is strict and drops what is translated there and forwarded by the \
                 kernel: set it, or that of `all`, to 2"
            );
        }
    }
    if t.placement.sends() {
        let all = net.links().await?;
        for (inline, link) in inline.iter_mut().zip(&named) {
            inline.vrf = vrf(link, &all).map(|vrf| vrf.index);
        }
        // Drivers translate echo requests before they can be answered here.
        let answers = t.placement == Placement::Auto
            && settings.announce.iter().any(|one| !one.echo.is_empty());
        if may_have_drivers && answers {
            let why = "placement auto: direct: drivers would translate what [[announce]] answers (`echo`)";
            said = Some(why.to_owned());
        } else if may_have_drivers {
            let candidates = drivers::examine(&named, &all);
            let (ports, why) = drivers::choose(t.placement, &candidates)?;
            said = Some(why).filter(|why| !why.is_empty());
            for (inline, port) in inline.iter_mut().zip(ports) {
                inline.driver = port;
            }
        }
        warn_of_vrfs(&inline, &named, &all);
    }
    Ok(Found { inline, said })
}

impl Gateway {
    /// Returns true if drivers are asked for their abilities. If `auto` has chosen at the start to do without them,
    /// that stays.
    pub fn may_have_drivers(&self) -> bool {
        match self.settings.translator.placement {
            Placement::Xdp => true,
            Placement::Auto => self.has_drivers(),
            Placement::Device | Placement::Inline | Placement::Direct => false,
        }
    }

    /// Handles an interface that has come back: its packets are translated there as before, and sent out of it.
    pub async fn take_up(&mut self, net: &Net, name: &str) -> Result<(), Failure> {
        let links = net.links().await?;
        let names = self.settings.translator.interfaces.iter();
        let there: Vec<String> = names
            .filter(|name| links.iter().any(|link| link.name == **name))
            .cloned()
            .collect();
        let inline = find(net, &self.settings, &there, self.may_have_drivers())
            .await?
            .log();
        let settings = &self.settings;
        let media = [&inline, &self.known].map(|interfaces| Media::of(interfaces));
        if settings.translator.placement.sends() || media[0] != media[1] {
            // The programs know the exits by their indices, and not all are loaded.
            let translation = &mut self.translation;
            let next = translation.prepare(settings, self.found, self.index, &inline)?;
            translation.commit(self.controller.as_ref(), settings, next, &self.slow)?;
        }
        self.known.clone_from(&inline);
        self.widen(&inline)?;
        self.look_at_drivers(net).await?;
        tracing::info!("{name} is back, and its packets are translated there again");
        Ok(())
    }

    /// Attaches programs to the interfaces that are new. One at which that fails still counts as missing, so that it is
    /// retried.
    pub fn widen(&mut self, inline: &[Inline]) -> Result<(), Failure> {
        let is_named = |index: &u32| inline.iter().any(|inline| inline.ifindex == *index);
        self.inline.retain(is_named);
        let is_new = |inline: &&Inline| !self.inline.contains(&inline.ifindex);
        let new: Vec<Inline> = inline.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut done = Ok(());
        for inline in new {
            match self.translation.widen(&self.settings, &[inline]) {
                Ok(()) => self.inline.push(inline.ifindex),
                Err(failure) => done = done.and(Err(failure)),
            }
        }
        self.stay_at_new_places();
        done
    }

    /// Answers neighbours at an interface that has come, or has another link-layer address.
    pub async fn follow_announced(&mut self, event: &Event, net: &Net) {
        let Some(announcer) = &mut self.announcer else {
            return;
        };
        if announcer.link(event, net, &self.settings).await {
            self.stay_at_new_places();
        }
    }

    /// Returns true if packets should be translated at this interface, and are not yet.
    pub fn misses(&self, link: &Link) -> bool {
        let t = &self.settings.translator;
        t.placement != Placement::Device
            && self.translation.fast().is_some()
            && t.interfaces.contains(&link.name)
            && !self.inline.contains(&link.index)
    }
}
