// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Start and end of a router: it starts from a clean state and leaves nothing; or, with a state file and a fast path,
//! it starts from what an earlier run has left in the kernel, and leaves that again.

use diolkos_fastpath::{Heirs, Pins};

use super::error::RouterError;
use super::gateway::Gateway;
use super::stateful;
use diolkos_config::{Datapath, Mode, Settings};
use diolkos_control::service::{End, Host};
use diolkos_kernel::forwarding;
use diolkos_kernel::handover;
use diolkos_kernel::net::Net;
use diolkos_service::failure::{Exit, Failure};
use diolkos_service::instance::Instance;
use diolkos_service::privilege::{self, NET_ADMIN, SYS_ADMIN};
use diolkos_service::supervise;

/// Builds the gateway. A wrong configuration changes nothing: what runs in the kernel continues.
pub(super) async fn begin(host: &Host, settings: Settings) -> Result<Gateway, Failure> {
    let net = &*host.net;
    let device = settings.translator.device.clone();
    if may_stay(&settings) && handover::find(net, &device).await?.is_some() {
        match take_over(host, &device, settings.clone()).await {
            Ok(gateway) => return Ok(gateway),
            Err(failure) if failure.exit() == Exit::Usage => return Err(failure),
            Err(failure) if host.signals.came().already() => return Err(failure),
            Err(failure) => {
                // What cannot be replaced must not be removed.
                stateful::check_file(&settings)?;
                tracing::warn!(
                    "cannot take over the programs of an earlier run; using the state file: {failure}"
                );
            }
        }
    }
    handover::clear(net, &device).await?;
    Gateway::build(host, settings, None).await
}

async fn take_over(host: &Host, device: &str, settings: Settings) -> Result<Gateway, Failure> {
    let pins = pins(device)?;
    let gateway = Gateway::build(host, settings, Some(&pins)).await?;
    Pins::remove_dead();
    let heirs = Heirs {
        fast: gateway.translation.fast(),
        labels: gateway.labels.path(),
    };
    handover::take_off(&host.net, device, heirs).await?;
    Ok(gateway)
}

/// Removes what an ended run has left.
pub async fn clear(device: String) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN])?;
    let (watch, _alarm) = supervise::pair();
    let (net, _news) = Net::connect(&watch).await?;
    // This prevents another start meanwhile.
    let _instance = Instance::claim(&device)?;
    if !handover::clear(&net, &device).await? {
        tracing::info!(
            "no diolkos runs with the device {device}, and none has left anything behind"
        );
    }
    Ok(())
}

fn may_stay(settings: &Settings) -> bool {
    let t = &settings.translator;
    let has_programs = !matches!(t.datapath, Datapath::Tun | Datapath::P4);
    t.mode == Mode::Nat64 && settings.nat64.state().is_some() && has_programs
}

fn pins(device: &str) -> Result<Pins, RouterError> {
    Pins::of(device).map_err(RouterError::NamespaceNumber)
}

impl Gateway {
    /// Has known sessions continue in the kernel when this ends for whatever reason, if the settings say so.
    pub(super) async fn stay(&mut self, net: &Net) {
        if !may_stay(&self.settings) || self.translation.fast().is_none() {
            return;
        }
        match self.try_stay(net).await {
            Ok(()) => self.stays = true,
            Err(failure) => {
                self.go(net).await;
                tracing::warn!("no packet will pass while diolkos does not run, because only the state file is kept: {failure}");
            }
        }
    }

    async fn try_stay(&mut self, net: &Net) -> Result<(), Failure> {
        let t = &self.settings.translator;
        if let [missing, ..] = privilege::missing(&[SYS_ADMIN])[..] {
            return Err(RouterError::CannotReturn(missing).into());
        }
        let pins = pins(&t.device)?;
        if let Some(stateful) = self.translation.stateful_mut() {
            stateful.keep(&pins)?;
        }
        if let Some(announcer) = &mut self.announcer {
            announcer.keep(&pins)?;
        }
        if forwarding::ignores_without_carrier(&t.device) {
            tracing::warn!(
                "net.ipv4.conf.all.ignore_routes_with_linkdown is on: while no diolkos runs, {} has no carrier, and its \
                 routes are ignored; set it to 0",
                t.device
            );
        }
        handover::mark(net, self.index).await?;
        let kept = self.device.set_persistent(true);
        kept.map_err(|source| {
            let device = t.device.clone();
            RouterError::DeviceNotKept { device, source }.into()
        })
    }

    /// Keeps programs at places that are new.
    pub(super) fn stay_at_new_places(&mut self) {
        if !self.stays {
            return;
        }
        let pins = pins(&self.settings.translator.device);
        let kept = pins.map_err(Failure::from).and_then(|pins| {
            if let Some(stateful) = self.translation.stateful_mut() {
                stateful.keep(&pins)?;
            }
            match &mut self.announcer {
                Some(announcer) => announcer.keep(&pins),
                None => Ok(()),
            }
        });
        if let Err(failure) = kept {
            tracing::warn!("not all programs will stay in the kernel when diolkos ends: {failure}");
        }
    }

    /// Ends the answers to neighbours when this ends.
    pub(super) fn release_answers(&mut self) {
        let pins = pins(&self.settings.translator.device);
        if let (Some(announcer), Ok(pins)) = (&mut self.announcer, pins) {
            announcer.release(&pins);
        }
    }

    /// Reverses [`Gateway::stay`].
    async fn go(&mut self, net: &Net) {
        self.release_answers();
        let device = &self.settings.translator.device;
        if let (Some(stateful), Ok(pins)) = (self.translation.stateful_mut(), pins(device)) {
            stateful.release(&pins);
        }
        if let Err(error) = self.device.set_persistent(false) {
            // It is gone already.
            tracing::debug!("{device}: {error}");
        }
        handover::unmark(net, self.index).await;
        self.stays = false;
    }

    /// Ends. Leaves only what the next run takes over.
    pub(super) async fn leave(
        mut self,
        net: &Net,
        served: Result<End, Failure>,
    ) -> Result<(), Failure> {
        self.leave_cluster(net).await;
        // Its threads end, and from then on no packet changes the state.
        self.slow.stop();
        let written = self.finish_tables();
        if let (Err(_), Err(failure)) = (&served, &written) {
            // The cause of the end is logged last; this error would not be logged at all.
            tracing::error!("{failure}");
        }
        let device = self.settings.translator.device.clone();
        let is_there = handover::find(net, &device)
            .await
            .is_ok_and(|found| found.is_some());
        if self.stays && is_there && !matches!(served, Ok(End::ForGood)) {
            tracing::info!(
                "the kernel continues to translate known sessions; `diolkos stop --device {device}` ends them"
            );
            return served.and(written);
        }
        if self.stays {
            self.go(net).await;
        }
        if let Some(announcer) = self.announcer.take() {
            announcer.leave();
        }
        served.and(written)
    }
}
