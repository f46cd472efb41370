// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another program's CLAT on the same host, such as NetworkManager's (`ipv4.clat`, 1.58 and later): who has the host's IPv4.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use crate::config::{OtherClat, Settings};
use crate::failure::Failure;
use crate::instance;
use crate::net::Net;

use super::Clat;

/// What only the ends of translators and tunnels to IPv4 have on a host (RFC 7335 section 3).
const CONTINUITY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 29);
/// How the devices of diolkos are called unless somebody names them.
const OURS: &str = "diolkos";

impl Clat {
    /// Looks for another program's CLAT. True if ours steps aside: then its IPv4 routes are gone, and the status says who has
    /// the CLAT. Also one that serves no default route: the other one's programs may keep packets from ours.
    pub(super) async fn steps_aside(&mut self) -> Result<bool, Failure> {
        let settings = self.site.settings.clone();
        let found = other(&self.site.net, &settings).await?;
        let before = std::mem::replace(&mut self.other, found);
        match (&self.other, settings.clat.other_clat) {
            (None, _) => Ok(false),
            (Some(other), OtherClat::TakeOver) => {
                if before.as_ref() != Some(other) {
                    tracing::warn!(
                        "{other}, and clat.other_clat = \"take-over\": where both have an IPv4 route, that with the lower \
                         metric wins; ours is {}",
                        settings.clat.metric()
                    );
                }
                Ok(false)
            }
            (Some(other), OtherClat::Yield) => {
                let why = format!("{other}, so this one steps aside (clat.other_clat)");
                if self.obstacle.as_ref() != Some(&why) {
                    self.close(&why).await;
                    self.obstacle = Some(why);
                }
                Ok(true)
            }
        }
    }
}

/// That there is another program's CLAT, in words.
pub(super) async fn other(net: &Net, settings: &Settings) -> Result<Option<String>, Failure> {
    for (index, address) in net.all_held().await? {
        let IpAddr::V4(address) = address else {
            continue;
        };
        if !CONTINUITY.contains(&address) {
            continue;
        }
        let name = net.name_of(index).await;
        let is_ours = name == settings.translator.device
            || name.starts_with(OURS)
            || instance::is_running(&name);
        if !is_ours {
            return Ok(Some(format!(
                "another CLAT serves this host: {name} has {address}"
            )));
        }
    }
    Ok(None)
}
