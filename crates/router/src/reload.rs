// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another configuration for a running gateway, completely or not at all.

use super::error::RouterError;
use diolkos_sys::memory;

use super::gateway::{own, Gateway};
use super::routes::Routes;
use super::survey::{look_around, warn_of_narrow_links};
use super::{addresses, interfaces, loops, rivals};
use crate::announce::{self, Announcer};
use diolkos_config::{fixed_keys, AutoValues, Settings};
use diolkos_datapath::accept_local;
use diolkos_kernel::net::{shown, Net};
use diolkos_service::failure::Failure;
use diolkos_service::signals::Came;
use diolkos_service::supervise::Watch;

impl Gateway {
    /// Applies another configuration, completely or not at all. A packet is translated by the old one or by the new
    /// one.
    pub async fn reload(
        &mut self,
        net: &Net,
        mut new: Settings,
        came: &Came,
        watch: &Watch,
    ) -> Result<(), Failure> {
        if let Some(refusal) = fixed_keys::refusal(&self.settings, &new) {
            return Err(RouterError::FixedKey(refusal).into());
        }
        let found = AutoValues {
            // The tables follow it afterwards, and end what belongs to another one.
            outside: self.found.outside,
            ..look_around(net, &new).await?
        };
        addresses::check(net, &new).await?;
        rivals::check(net, &new).await?;
        warn_of_narrow_links(net, &new).await?;
        let plans = announce::plan(net, &new).await?;
        new.siit.loops4 = loops::find(net, &new, self.index).await;
        let names = &new.translator.interfaces;
        let inline = interfaces::find(net, &new, names, self.may_have_drivers())
            .await?
            .log();
        let next = self.translation.prepare(&new, found, self.index, &inline)?;
        // Loading programs takes long, and another change of them would be in vain.
        if came.already() {
            return Err(RouterError::Ending.into());
        }
        let routes = Routes {
            yields: self.routes.yields,
            ..Routes::of(&new)
        };
        // Rules that the kernel refuses have changed nothing yet.
        if let Err(failure) = self.share_ahead(net, &new).await {
            self.share_as_before(net).await;
            return Err(failure);
        }
        let (old_own, own) = (self.own(), own(self.index, &new, found, &routes));
        let commit = async {
            accept_local::admit(net, &new, &[]).await?;
            let controller = self.controller.as_ref();
            self.translation.commit(controller, &new, next, &self.slow)
        };
        if let Err(failure) = net.change(&old_own, &own, commit).await {
            if let Err(other) = accept_local::admit(net, &self.settings, &[]).await {
                tracing::warn!("{other}");
            }
            self.share_as_before(net).await;
            return Err(failure);
        }
        (self.settings, self.found, self.routes) = (new, found, routes);
        // The kernel has taken the rules. If it does not take the address now, there is an obstacle until it does.
        if let Err(failure) = self.share(net).await {
            tracing::warn!("{failure}");
        }
        loops::report(&self.settings);
        self.known.clone_from(&inline);
        if plans.is_empty() {
            self.release_answers();
        }
        let announcer = &mut self.announcer;
        if let Err(failure) = Announcer::follow(announcer, plans, net, &self.settings, watch).await
        {
            tracing::warn!("{failure}");
        }
        self.stay_at_new_places();
        // An interface may have come back unnoticed. The new configuration is in force whether this succeeds or not.
        if let Err(failure) = self.widen(&inline) {
            tracing::warn!("{failure}");
        }
        if let Err(failure) = self.restore(net).await {
            tracing::warn!("{failure}");
        }
        if let Some(stateful) = self.translation.stateful() {
            stateful.write_soon();
        }
        // Two tables existed for a while, and one may have 100 000 mappings.
        memory::give_back();
        self.announce("reloaded");
        Ok(())
    }

    /// After a reload that was refused, the kernel shares the address as the settings in force say.
    async fn share_as_before(&mut self, net: &Net) {
        if let Err(failure) = self.share(net).await {
            tracing::warn!("{failure}");
        }
    }

    /// Restores what other programs may have removed; the operator tries a reload in that case.
    pub async fn restore(&mut self, net: &Net) -> Result<(), Failure> {
        let own = self.own();
        net.set_tun_mtu(own.index, own.mtu).await?;
        let restored = net.restore(&own).await?.unwrap_or_default();
        if !restored.is_empty() {
            let device = &self.settings.translator.device;
            tracing::warn!("{device} had lost {}: restored", shown(&restored));
        }
        if self.forwarding.switch_on()? {
            tracing::warn!("forwarding was switched off: switching it on again");
        }
        Ok(())
    }
}
