// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a gateway: checks, TUN device, translation, forwarding, labels, slow path.

use super::error::RouterError;
use diolkos_datapath::choice;
use diolkos_fastpath::{FastPath, ForwardPath, Pins};

use super::gateway::Gateway;
use super::routes::Routes;
use super::stateful::Past;
use super::survey::{device_mtu, look_around, warn_of_narrow_links};
use super::translation::{Built, Translation};
use super::{addresses, cluster, interfaces, loops, rivals};
use crate::announce;
use diolkos_config::{Placement, Settings};
use diolkos_control::service::Host;
use diolkos_datapath::accept_local;
use diolkos_datapath::labels::Labels;
use diolkos_datapath::slowpath::{self, SlowPath};
use diolkos_kernel::forwarding::Forwarding;
use diolkos_kernel::net::shown;
use diolkos_service::failure::Failure;

/// What has become of the programs.
struct Outcome {
    /// There is a fast path.
    has_programs: bool,
    /// A driver has not accepted what it was chosen for.
    is_refused: bool,
}

impl Outcome {
    /// Returns the line for the log about the chosen placement, as it has turned out; None if the driver's refusal, which is
    /// logged where it happens, has said it.
    fn correct(&self, placement: Placement, said: String) -> Option<String> {
        match (placement, self.has_programs) {
            (Placement::Auto, false) => {
                Some("placement auto: device: there is no fast path".to_owned())
            }
            (Placement::Auto, true) if self.is_refused => None,
            _ => Some(said),
        }
    }
}

impl Gateway {
    /// Builds the gateway. With `pins`, on what an earlier run has left; otherwise from a clean state.
    pub async fn build(
        host: &Host,
        mut settings: Settings,
        pins: Option<&Pins>,
    ) -> Result<Gateway, Failure> {
        let net = &*host.net;
        let t = &settings.translator.clone();
        let found = look_around(net, &settings).await?;
        addresses::check(net, &settings).await?;
        rivals::check(net, &settings).await?;
        warn_of_narrow_links(net, &settings).await?;
        // Contradictions are refused before anything is changed.
        announce::plan(net, &settings).await?;
        let own = &net.addresses4().await?;
        let queues = slowpath::readers(t.queues);
        let (tun, index) = match pins {
            Some(_) => net.adopt_tun(&t.device, queues).await?,
            None => net.create_tun(&t.device, queues).await?,
        };
        settings.siit.loops4 = loops::find(net, &settings, index).await;
        let mtu = device_mtu(&settings, found);
        if pins.is_none() {
            net.prepare_tun(&t.device, index, mtu).await?;
        }
        let unusable = |source| RouterError::Device {
            device: t.device.clone(),
            source,
        };
        let queue = || {
            tun.queues[0]
                .try_clone()
                .map_err(unusable)
                .map_err(Failure::from)
        };
        let interfaces::Found { mut inline, said } =
            interfaces::find(net, &settings, &t.interfaces, t.placement.has_drivers()).await?;
        let came = &host.signals.came();
        let past = Past { pins, own, came };
        let device = queue()?;
        let Built {
            translation,
            controller,
            engine,
        } = Translation::build(&settings, found, index, &inline, queue, past, &host.watch)?;
        let has_used_hops = translation.fast().and_then(FastPath::used_hops).is_some();
        let hoped = inline.iter().any(|inline| inline.driver.is_some());
        let outcome = Outcome {
            has_programs: translation.fast().is_some(),
            is_refused: hoped && !has_used_hops,
        };
        if let Some(said) = said.and_then(|said| outcome.correct(t.placement, said)) {
            tracing::info!("{said}");
        }
        if !has_used_hops {
            // A driver did not accept what it was chosen for.
            inline.iter_mut().for_each(|inline| inline.driver = None);
        }
        if pins.is_some() {
            // Not before: errors until here leave the device as it is.
            net.prepare_tun(&t.device, index, mtu).await?;
        }
        accept_local::admit(net, &settings, &[]).await?;
        if translation.fast().is_some() {
            // Any received packet may be routed to the device.
            let links = net.links().await?;
            choice::warn_of_lists(links.iter().map(|link| link.name.as_str()));
        }
        let inherits = pins.is_some();
        let forwarding =
            Forwarding::both(&cluster::forwarding_between(&settings), &t.device, inherits)?;
        if forwarding.changed() {
            tracing::info!("switching forwarding on while diolkos runs");
        }
        if !forwarding.made_routers().is_empty() {
            tracing::info!(
                "neighbours see an IPv6 router on {} while diolkos runs (net.ipv6.conf.INTERFACE.forwarding)",
                shown(forwarding.made_routers())
            );
        }
        loops::report(&settings);
        let forward = cluster::forward(&settings, &translation, index)?;
        let to_gateways = forward.as_ref().map(ForwardPath::forwarding);
        let labels = Labels::start(t, index, tun.queues.len(), to_gateways.as_deref());
        if let (Some(why), Some(_)) = (labels.trouble(), &forward) {
            return Err(RouterError::ClusterWithoutLabels(why.to_string()).into());
        }
        let slots = labels.slots();
        let slow = SlowPath::start(&t.device, tun.queues, slots, engine, &host.watch)?;
        Ok(Gateway {
            index,
            found,
            routes: Routes::of(&settings),
            settings,
            cluster: None,
            forward,
            announcer: None,
            outside: None,
            translation,
            controller,
            labels,
            inline: inline.iter().map(|inline| inline.ifindex).collect(),
            known: inline,
            forwarding,
            slow,
            device,
            stays: pins.is_some(),
            ends: false,
            next: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placement_is_said_as_it_has_turned_out() {
        let said = |placement, has_programs, is_refused| {
            let outcome = Outcome {
                has_programs,
                is_refused,
            };
            outcome.correct(placement, "chosen".to_owned())
        };
        let (auto, xdp) = (Placement::Auto, Placement::Xdp);
        let chosen = Some("chosen".to_owned());
        assert_eq!(said(auto, true, false), chosen);
        assert_eq!(said(auto, true, true), None);
        for is_refused in [false, true] {
            let instead = said(auto, false, is_refused).expect("a line");
            assert!(instead.starts_with("placement auto: device: "));
            assert_eq!(said(xdp, true, is_refused), chosen);
        }
    }
}
