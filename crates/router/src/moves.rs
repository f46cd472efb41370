// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the address of an interface that nodes share.
//!
//! The kernel replaces the address ([`Sharing`]). Its rules know the address that is in force here, and drop packets with
//! another one. So sessions of an old address end before the new one is used.

use std::net::Ipv4Addr;

use super::gateway::Gateway;
use super::outside::{share, Outside};
use diolkos_kernel::net::{Net, Sharing};
use diolkos_service::counted::{agreeing, counted};
use diolkos_service::failure::Failure;

impl Gateway {
    /// Shares the address of the interface that the settings name, if they name one.
    pub async fn share(&mut self, net: &Net) -> Result<(), Failure> {
        let Some(wan) = self.settings.wan() else {
            self.outside = None;
            return Ok(());
        };
        let share = share(&wan, &self.settings.translator.device);
        let now = net.primary_address4(&wan.interface).await?;
        match &mut self.outside {
            Some(outside) if outside.wan == wan => {}
            Some(outside) => {
                let stays = (&outside.wan.interface, outside.wan.inside, outside.now)
                    == (&wan.interface, wan.inside, now);
                // Of another interface, nothing passes until the tables have followed.
                let shared = now.filter(|_| stays);
                outside.sharing.follow(share, shared)?;
                (outside.wan, outside.now) = (wan, shared);
            }
            none => {
                let sharing = Sharing::begin(&self.settings.translator.device, share, None)?;
                *none = Some(Outside {
                    sharing,
                    wan,
                    now: None,
                });
            }
        }
        self.follow_outside(net).await
    }

    /// Follows the address of the interface. Nothing happens if it is the same.
    pub async fn follow_outside(&mut self, net: &Net) -> Result<(), Failure> {
        let Some(outside) = &self.outside else {
            return Ok(());
        };
        let now = net.primary_address4(&outside.wan.interface).await?;
        match now == outside.now {
            true => Ok(()),
            false => self.move_outside(now),
        }
    }

    /// Ends what belongs to another address, and then shares this one. Sessions outlive a time without any.
    fn move_outside(&mut self, now: Option<Ipv4Addr>) -> Result<(), Failure> {
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        let (interface, inside) = (&outside.wan.interface, outside.wan.inside);
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
        let share = share(&outside.wan, &self.settings.translator.device);
        outside.sharing.follow(share, now)?;
        outside.now = now;
        if let Some(now) = now {
            tracing::info!("nodes share {now} with this router, the address of {interface}");
        }
        Ok(())
    }
}
