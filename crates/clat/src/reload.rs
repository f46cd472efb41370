// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies another configuration to a running CLAT. Device, IPv4 address and routes stay, unless they are what changes,
//! so the connections of applications survive.
//!
//! read → refuse → move (programs, translator, routes: all or none) → find another prefix, claim another address

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::device::Site;
use super::error::ClatError;
use super::finder::Finder;
use super::{as_configured, Clat, IPV6_MINIMUM_MTU};
use diolkos_config::fixed_keys;
use diolkos_config::{Networks, Settings};
use diolkos_control::translator::Answer;
use diolkos_datapath::accept_local;
use diolkos_service::failure::{Exit, Failure};

/// Time for which the prefix in force stays while the first one is being discovered.
const SEARCH: Duration = Duration::from_secs(15);

impl Clat {
    /// Reads the configuration again, and applies it.
    pub(super) async fn reload(&mut self) -> Answer {
        let done = match (self.read)() {
            Ok(new) => self.take(new).await,
            Err(failure) => Err(failure),
        };
        let Err(failure) = done else {
            return Answer::Reloaded;
        };
        // The address in force is reserved, whatever the refused settings have requested.
        let mut old = Settings::clone(&self.site.settings);
        let _ = self.place.settle(&self.site.net, &mut old).await;
        match failure.exit() {
            Exit::Usage => Answer::Misconfigured(failure.to_string()),
            _ => Answer::Failed(failure.to_string()),
        }
    }

    /// Applies new settings. On an error nothing has changed.
    async fn take(&mut self, mut new: Settings) -> Result<(), Failure> {
        let old = self.site.settings.clone();
        if self.chooses_uplink && new.translator.interfaces.is_empty() {
            new.translator
                .interfaces
                .clone_from(&old.translator.interfaces);
        }
        if let Some(refusal) = fixed_keys::refusal(&old, &new) {
            return Err(ClatError::FixedKey(refusal).into());
        }
        let settled = self.place.settle(&self.site.net, &mut new).await?;
        settled?;
        let site = self.site_of(new).await?;
        let new = site.settings.clone();
        let net = &site.net;
        let (before, after) = (&old.translator.pref64, &new.translator.pref64);
        let finder = match before == after {
            true => None,
            false => Some(Finder::new(&new, &site.uplink)?),
        };
        if let Some(device) = &mut self.device {
            accept_local::admit(net, &new, &[new.clat.v4()]).await?;
            if let Err(failure) = device.move_to(&site, device.side6).await {
                if let Err(other) = accept_local::admit(net, &old, &[old.clat.v4()]).await {
                    tracing::warn!("{other}");
                }
                return Err(failure);
            }
        }
        // From here on the new configuration is in force, whatever the result of the rest.
        let prefixes = match &finder {
            Some(finder) if finder.is_search() => net.global_prefixes(site.uplink.index).await.ok(),
            _ => None,
        };
        self.site = site;
        tracing::info!("reloaded");
        match finder {
            Some(finder) => {
                self.holds = (*after == Networks::Auto).then(|| Instant::now() + SEARCH);
                self.finder = finder;
                self.prefixes = prefixes.unwrap_or_default();
            }
            None => self.finder.ask_others(&new),
        }
        let sources = |settings: &Settings| (settings.clat.v6, settings.clat.v6_prefix);
        self.readdress(sources(&new) != sources(&old)).await;
        if let Err(failure) = self.look_at_way().await {
            tracing::warn!("{failure}");
        }
        self.doubt().await;
        if let Some(metrics) = &mut self.metrics {
            metrics.follow(&new);
        }
        Ok(())
    }

    /// Returns the environment of the new settings: the current uplink, with their values for it.
    async fn site_of(&self, new: Settings) -> Result<Site, Failure> {
        let Site { net, uplink, .. } = &self.site;
        let Some(link) = net.link_at(uplink.index).await? else {
            return Err(ClatError::UplinkGone(uplink.name.clone()).into());
        };
        let link = as_configured(link, &new);
        if link.mtu6 < IPV6_MINIMUM_MTU {
            return Err(ClatError::SmallConfiguredMtu {
                name: link.name,
                mtu: link.mtu6,
                minimum: IPV6_MINIMUM_MTU,
            }
            .into());
        }
        Ok(Site {
            net: net.clone(),
            settings: Arc::new(new),
            uplink: link,
            left: self.site.left.clone(),
        })
    }

    /// Starts the change to another prefix or address, if the new settings require one.
    async fn readdress(&mut self, is_other: bool) {
        let before = self.wanted;
        let was_claiming = self.claiming.is_some();
        self.follow().await;
        let is_under_way = self.wanted != before;
        if let (Some(wanted), false) = (self.wanted, is_under_way) {
            // The pending attempt uses the old settings.
            if is_other || was_claiming || self.stranded {
                self.stranded = false;
                self.set_out(wanted, !is_other, Duration::ZERO);
            }
        }
    }
}
