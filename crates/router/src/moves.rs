// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the address of an interface that nodes share.
//!
//! The kernel replaces the address ([`Sharing`]). Its rules know the address that is in force here, and drop packets with
//! another one. So sessions of an old address end before the new one is used. Flows that conntrack knew before the rules
//! changed are deleted from it afterwards.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use tokio::task::spawn_blocking;

use super::gateway::Gateway;
use super::outside::{self, share, Outside};
use diolkos_config::Settings;
use diolkos_kernel::net::{Net, Sharing, Stale};
use diolkos_nat64::config::Wan;
use diolkos_service::counted::{agreeing, counted};
use diolkos_service::failure::Failure;

impl Gateway {
    /// Shares the address of the interface that the settings name, if they name one.
    pub async fn share(&mut self, net: &Net) -> Result<(), Failure> {
        match self.settings.wan() {
            Some(wan) => self.may_share(net, &wan).await?,
            None => self.outside = None,
        }
        self.follow_outside(net).await
    }

    /// Has the kernel take the rules of other settings, before these are in force: if it refuses, nothing has changed.
    /// [`Gateway::share`] follows, whichever settings are in force then.
    pub async fn share_ahead(&mut self, net: &Net, new: &Settings) -> Result<(), Failure> {
        let Some(wan) = new.wan() else {
            return Ok(());
        };
        self.may_share(net, &wan).await?;
        let now = net.outward_address4(&wan.interface).await?;
        let inside = self.settings.wan().map(|wan| wan.inside);
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        // Of another address, nothing passes until the tables have followed.
        let stays = self.found.outside == now && inside == Some(wan.inside);
        outside.lay(wan, now.filter(|_| stays), &self.settings.translator.device)
    }

    async fn may_share(&mut self, net: &Net, wan: &Wan) -> Result<(), Failure> {
        outside::refuse_vrf(&wan.interface, &net.links().await?)?;
        if self.outside.is_none() {
            let device = &self.settings.translator.device;
            let sharing = Sharing::begin(device, &share(wan, device))?;
            self.outside = Some(Outside::new(sharing, wan.clone()));
        }
        Ok(())
    }

    /// Follows the address of the interface, and the settings. Nothing happens if the kernel has both already.
    pub async fn follow_outside(&mut self, net: &Net) -> Result<(), Failure> {
        let Some(wan) = self.settings.wan().filter(|_| self.outside.is_some()) else {
            return Ok(());
        };
        if let Some(outside) = &mut self.outside {
            outside.retries();
        }
        let now = net.outward_address4(&wan.interface).await?;
        self.move_outside(wan, now)
    }

    /// Ends what belongs to another address, and then shares this one. Sessions outlive a time without any.
    fn move_outside(&mut self, wan: Wan, now: Option<Ipv4Addr>) -> Result<(), Failure> {
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        if outside.has(&wan, now) {
            return Ok(());
        }
        let (interface, inside) = (&wan.interface, wan.inside);
        if let (Some(new), Some(controller)) = (now, &self.controller) {
            let old = self.found.outside.filter(|old| *old != new);
            if self.found.outside != Some(new) {
                let ended = controller.move_outside(inside, new);
                self.found.outside = Some(new);
                if let Some(old) = old {
                    let sessions = counted(ended.sessions as usize, "session");
                    let has = agreeing(ended.sessions, "has", "have");
                    tracing::warn!(
                        "{interface} has {new} in place of {old}: {sessions} of {old} {has} ended (address_changed)"
                    );
                }
            }
        }
        outside.lay(wan, now, &self.settings.translator.device)
    }
}

impl Outside {
    /// Has the kernel share this address. If it refuses, it has the rules of before, and [`Outside::has`] is false.
    fn lay(&mut self, wan: Wan, now: Option<Ipv4Addr>, device: &str) -> Result<(), Failure> {
        if self.has(&wan, now) {
            return Ok(());
        }
        match self.sharing.follow(&share(&wan, device), now) {
            Ok(stale) => {
                (self.wan, self.now, self.refusal) = (wan, now, None);
                if let Some((stale, now)) = stale.zip(now) {
                    self.delete(stale, now);
                }
                Ok(())
            }
            Err(refusal) => {
                self.refuse(refusal.to_string());
                Err(refusal.into())
            }
        }
    }

    /// Deletes entries of conntrack that contradict the rules, in a thread of its own: there may be a million entries. Then
    /// every flow passes.
    fn delete(&self, stale: Stale, now: Ipv4Addr) {
        let has_said = self.has_said.clone();
        let interface = self.wan.interface.clone();
        spawn_blocking(move || {
            match stale.delete() {
                Ok(0) => {}
                Ok(deleted) => {
                    let flows = counted(deleted, "flow");
                    tracing::info!("{flows} from before deleted from conntrack");
                }
                Err(failure) if !has_said.swap(true, Ordering::Relaxed) => {
                    tracing::warn!("{failure}");
                }
                Err(failure) => tracing::debug!("{failure}"),
            }
            if stale.is_current() {
                tracing::info!("nodes share {now} with this router, the address of {interface}");
            }
        });
    }
}
