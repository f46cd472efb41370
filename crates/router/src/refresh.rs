// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the programs up to date about the interfaces, which may change at run time: addresses, VRFs, and the abilities
//! of drivers.

use diolkos_fastpath::{Abilities, FastPath, Inline, Port};
use diolkos_sys::ethtool;
use diolkos_sys::namespace;

use super::drivers::{choose_now, examine};
use super::gateway::Gateway;
use super::vrf::{vrf, warn_of_vrfs};
use diolkos_kernel::net::{Event, Link, Net};
use diolkos_service::failure::Failure;

/// Returns true if a driver can now do what the program does not know, or the reverse. It is cheap: no link is listed.
/// The kernel reports a change of offloads, but nothing of it can be seen in a link.
fn has_moved(inline: &[Inline]) -> bool {
    let mut ports = inline.iter().filter_map(|inline| inline.driver);
    ports.any(|port| {
        let name = namespace::interface_name(port.card);
        let driver = name.and_then(|name| ethtool::driver(&name).ok());
        let now = Abilities::of(port.card, &driver.unwrap_or_default());
        port.takes && now.is_ok_and(|now| now.sends != port.sends)
            || hides_tags(port.card).is_some_and(|hides| hides != port.hides_tags)
    })
}

/// Returns true if a card takes tags off the frames that it receives. None if it does not tell, or is gone.
fn hides_tags(card: u32) -> Option<bool> {
    let name = namespace::interface_name(card)?;
    let hides = ethtool::is_on(&name, ethtool::RX_VLAN).ok()?;
    // A card that does not know this feature does not do it.
    Some(hides || ethtool::is_on(&name, ethtool::RX_SERVICE_VLAN).unwrap_or(false))
}

fn is_ours(known: &[Inline], index: u32) -> bool {
    known.iter().any(|inline| {
        inline.ifindex == index || inline.driver.is_some_and(|port| port.card == index)
    })
}

impl Gateway {
    /// Returns true if drivers translate.
    pub fn has_drivers(&self) -> bool {
        self.translation.fast().is_some() && self.known.iter().any(|inline| inline.driver.is_some())
    }

    /// Returns true if one of our interfaces, its card, or a link on top of it has changed: its address, its VRF, its
    /// VLANs.
    pub fn concerns_programs(&self, event: &Event) -> bool {
        match event {
            Event::LinkChanged(link) => {
                is_ours(&self.known, link.index)
                    || link.lower.is_some_and(|lower| is_ours(&self.known, lower))
            }
            Event::LinkGone(index) => {
                let mut ports = self.known.iter().filter_map(|inline| inline.driver);
                // It may have been the VLAN that was the obstacle; and a VLAN of ours ends while its card goes on.
                ports.any(|port| !port.takes || (port.vlan.is_some() && port.ifindex == *index))
            }
            _ => false,
        }
    }

    /// Checks the drivers from time to time: some send only while they have a program, and a peer may stop polling.
    pub async fn look_at_drivers(&mut self, net: &Net) -> Result<(), Failure> {
        if !self.has_drivers() {
            return Ok(());
        }
        self.report_used_hops(net).await;
        match has_moved(&self.known) {
            true => self.refresh(net).await,
            false => Ok(()),
        }
    }

    /// Reports to the kernel which neighbours drivers send to. The program leaves unreported next hops to tc.
    async fn report_used_hops(&self, net: &Net) {
        let Some(hops) = self.translation.fast().and_then(FastPath::used_hops) else {
            return;
        };
        for hop in hops.all().unwrap_or_default() {
            let told = net.use_neighbour(hop.ifindex, hop.address).await;
            if let Err(failure) = told.map(|()| hops.mark_reported(&hop)) {
                tracing::debug!("{failure}");
            }
        }
    }

    /// Tells the programs the current state of the interfaces: addresses, VRFs, and what their drivers send.
    pub async fn refresh(&mut self, net: &Net) -> Result<(), Failure> {
        if !self.settings.translator.placement.sends() || self.translation.fast().is_none() {
            return Ok(());
        }
        let all = net.links().await?;
        let of = |inline: &Inline| {
            all.iter()
                .find(|link| link.index == inline.ifindex)
                .cloned()
        };
        let links: Vec<Link> = self.known.iter().filter_map(of).collect();
        let mut known = self.known.clone();
        for inline in &mut known {
            inline.vrf = of(inline).and_then(|link| vrf(&link, &all).map(|vrf| vrf.index));
        }
        let has_moved = known != self.known;
        let said = match self.has_drivers() {
            true => look_again(&mut known, &links, &all),
            false => String::new(),
        };
        if known == self.known {
            return Ok(());
        }
        let settings = &self.settings;
        let next = self
            .translation
            .prepare(settings, self.found, self.index, &known)?;
        self.translation
            .commit(self.controller.as_ref(), settings, next, &self.slow)?;
        self.known = known;
        if has_moved {
            warn_of_vrfs(&self.known, &links, &all);
        }
        if !said.is_empty() {
            tracing::info!("{said}");
        }
        Ok(())
    }
}

/// Notes what drivers can do now, and describes it.
fn look_again(known: &mut [Inline], links: &[Link], all: &[Link]) -> String {
    let (ports, said) = choose_now(&examine(links, all));
    let ports: Vec<Port> = ports.into_iter().flatten().collect();
    for inline in known {
        let port = ports.iter().find(|port| port.ifindex == inline.ifindex);
        inline.driver = inline.driver.map(|old| {
            let idle = Port {
                takes: false,
                hides_tags: hides_tags(old.card).unwrap_or(old.hides_tags),
                ..old
            };
            port.copied().unwrap_or(idle)
        });
    }
    said
}
