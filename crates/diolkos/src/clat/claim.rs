// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses of a CLAT: looked for, tested, and answered for.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::Ipv6Net;

use crate::config::{Settings, V6Address};
use crate::failure::Failure;
use crate::net::{Link, Medium, Net};

use super::address::{self, Recipe};
use super::device::Site;
use super::neighbour::Responder;

/// How many addresses are tried when all of them are taken (RFC 7217 section 6, IDGEN_RETRIES).
const ADDRESS_RETRIES: u8 = 3;

/// What came of it.
pub enum Claim {
    /// An address that is answered for, where the link has neighbours.
    Made(Ipv6Addr, Option<Responder>),
    /// The one that there is.
    Kept(Ipv6Addr),
    /// The uplink has no prefix from which one could be made; it may get one.
    NotYet(Failure),
    /// All that were tried are taken: somebody has them, or says so. The prefix may work later.
    Taken(Failure),
}

/// Fails if another interface has the CLAT's IPv4 address.
pub async fn check_v4(net: &Net, settings: &Settings) -> Result<(), Failure> {
    let v4 = settings.clat.v4;
    let Some(index) = net.holder_of(IpAddr::V4(v4)).await? else {
        return Ok(());
    };
    let name = name_of(net, index).await;
    Err(Failure::run_time(format!(
        "{v4} is already the address of {name}: choose another with --v4, for example 192.0.0.2"
    )))
}

/// Finds an IPv6 address for a translation prefix that nobody has, and begins to answer for it. An error says nothing of
/// the prefix: the kernel did not answer.
pub async fn claim(site: &Site, pref64: Ipv6Net) -> Result<Claim, Failure> {
    let Site {
        net,
        settings,
        uplink,
    } = site;
    let candidates: Vec<Ipv6Addr> = match settings.clat.v6 {
        V6Address::Fixed(address) => vec![address],
        V6Address::Auto => {
            let prefix = match uplink_prefix(net, uplink).await? {
                Ok(prefix) => prefix,
                Err(not_yet) => return Ok(Claim::NotYet(not_yet)),
            };
            let recipe = Recipe {
                prefix,
                pref64,
                v4: settings.clat.v4,
                uplink: &uplink.name,
                secret: &address::host_secret(&uplink.address),
            };
            (0..=ADDRESS_RETRIES)
                .map(|collisions| recipe.address(collisions))
                .collect()
        }
    };
    let mut taken = String::new();
    for address in candidates {
        if let Some(index) = net.holder_of(IpAddr::V6(address)).await? {
            taken = format!(
                "{address} is already the address of {} on this host",
                name_of(net, index).await
            );
            continue;
        }
        if uplink.medium != Medium::Ethernet {
            return Ok(Claim::Made(address, None));
        }
        let unheard = |e| {
            Failure::missing(format!(
                "no packet socket on {}: {e} (CAP_NET_RAW is needed)",
                uplink.name
            ))
        };
        let responder = Responder::open(uplink.index, &uplink.address, address).map_err(unheard)?;
        let unanswered = |e| {
            Failure::transient(format!(
                "cannot run Duplicate Address Detection on {} for {address}: {e}",
                uplink.name
            ))
        };
        if !asks_for_duplicates(&uplink.name) || responder.is_unique().await.map_err(unanswered)? {
            return Ok(Claim::Made(address, Some(responder)));
        }
        taken = format!(
            "{address} is already the address of another host on {}",
            uplink.name
        );
    }
    Ok(Claim::Taken(Failure::run_time(format!(
        "{taken}: choose another with --v6"
    ))))
}

/// Whether the kernel itself would look for duplicates on this interface (`dad_transmits`, RFC 4862 section 5.1).
fn asks_for_duplicates(uplink: &str) -> bool {
    let setting =
        std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{uplink}/dad_transmits"));
    setting.map_or(true, |text| text.trim() != "0")
}

/// A /64 of the uplink's, or why there is none.
async fn uplink_prefix(net: &Net, uplink: &Link) -> Result<Result<Ipv6Net, Failure>, Failure> {
    let prefixes = net.global_prefixes(uplink.index).await?;
    let fit = prefixes.iter().find(|prefix| prefix.prefix_len() == 64);
    Ok(fit.copied().ok_or_else(|| {
        let what = match prefixes.first() {
            None => "no global IPv6 address".to_owned(),
            Some(prefix) => format!("only a /{} and no /64", prefix.prefix_len()),
        };
        Failure::run_time(format!(
            "{} has {what}, so the CLAT has no address: set one with --v6",
            uplink.name
        ))
    }))
}

async fn name_of(net: &Net, index: u32) -> String {
    let links = net.links().await.unwrap_or_default();
    links
        .into_iter()
        .find(|link| link.index == index)
        .map_or_else(|| "another interface".to_owned(), |l| l.name)
}
