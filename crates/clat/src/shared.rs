// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT that shares the host's own IPv6 address, for networks that give a host single addresses and no /64.
//!
//! IPv4 is translated to an internal address that never appears on the link: the kernel masquerades it
//! ([`diolkos_kernel::net::Masquerade`]), and conntrack keeps the CLAT's ports apart from the host's own. So every
//! packet crosses the TUN device and the kernel's forwarding; the fast path would bypass conntrack.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::device::Site;
use super::error::ClatError;
use super::Clat;
use diolkos_config::{Datapath, Settings, V6Address};
use diolkos_kernel::net::Link;
use diolkos_service::failure::Failure;

/// The prefix of internal addresses: unique local ones (RFC 4193), with all bits after the first eight chosen, so that
/// no network uses them.
const INTERNAL: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8);

/// Returns the prefix of internal addresses, and a description of the host's address that is shared. `None`: there is
/// none, or the datapath does not support it.
pub async fn prefix(site: &Site) -> Result<Option<(Ipv6Net, String)>, Failure> {
    if site.settings.translator.datapath == Datapath::Tc {
        return Ok(None);
    }
    let Some(host) = site.net.global_address6_of(site.uplink.index).await? else {
        return Ok(None);
    };
    Ok(Some((INTERNAL, shares(&site.settings, &site.uplink, host))))
}

fn shares(settings: &Settings, uplink: &Link, host: Ipv6Addr) -> String {
    let why = match settings.clat.v6 {
        V6Address::Shared => "clat.v6 says so".to_owned(),
        _ => format!("{} has no /64", uplink.name),
    };
    format!("shares {host} with this host ({why}): the kernel masquerades this internal address")
}

/// Explains why nothing can be shared. `lacks` is what else the uplink lacks.
pub fn not_yet(settings: &Settings, uplink: &Link, lacks: Option<Failure>) -> Failure {
    match (lacks, settings.translator.datapath) {
        // Without any address it is not known yet whether one would have to be shared.
        (Some(lacks), Datapath::Tc) if !lacks.is_transient() => {
            ClatError::NotShareable(lacks).into()
        }
        (Some(lacks), _) => lacks,
        (None, _) if uplink.may_get_addresses() => {
            ClatError::NothingToShareYet(uplink.name.clone()).into()
        }
        (None, _) => ClatError::NothingToShare(uplink.name.clone()).into(),
    }
}

impl Clat {
    /// Checks that the host still has an address to share, and that the network has no better one for the CLAT by now.
    /// Returns the reason, if not.
    pub(super) async fn look_at_shared_address(&mut self) -> Result<Option<String>, Failure> {
        let (net, uplink) = (&self.site.net, &self.site.uplink);
        let Some(host) = net.global_address6_of(uplink.index).await? else {
            return Ok(Some(format!(
                "{} no longer has an address that could be shared",
                uplink.name
            )));
        };
        let prefixes = net.global_prefixes(uplink.index).await?;
        let own = prefixes.iter().find(|prefix| prefix.prefix_len() == 64);
        let may_leave = self.site.settings.clat.follows_uplink() && self.claiming.is_none();
        if let (Some(own), true, Some(wanted)) = (own, may_leave, self.wanted) {
            tracing::info!(
                "{} has the prefix {own} now: moving to an address of the CLAT's own",
                uplink.name
            );
            self.set_out(wanted, false, std::time::Duration::ZERO);
            return Ok(None);
        }
        let origin = format!(
            "{}; no neighbour ever sees it",
            shares(&self.site.settings, uplink, host)
        );
        if origin != self.origin {
            tracing::info!("the CLAT now {origin}");
            self.origin = origin;
        }
        Ok(None)
    }
}
