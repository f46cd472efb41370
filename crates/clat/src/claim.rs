// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses of a CLAT: chosen, tested for duplicates, and answered for.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::Ipv6Net;

use super::error::ClatError;
use diolkos_config::{Prefix, V6Address};
use diolkos_kernel::net::{Link, Medium};
use diolkos_service::failure::Failure;

use super::address::{self, Recipe};
use super::device::Site;
use super::rules::Side6;
use super::shared;
use diolkos_kernel::neighbour::Responder;

/// Number of addresses that are tried if all of them are taken (RFC 7217 section 6, IDGEN_RETRIES).
const ADDRESS_RETRIES: u8 = 3;

/// An address that belongs to the CLAT.
pub struct Made {
    pub address: Ipv6Addr,
    /// Answers for it, where neighbours ask.
    pub responder: Option<Responder>,
    /// True if duplicate address detection has still to be done.
    pub is_tentative: bool,
    /// True if it is internal: the CLAT shares the host's own address.
    pub is_shared: bool,
    /// Where it is from and whether neighbours are answered, for people.
    pub origin: String,
}

/// The result of a claim.
pub enum Claim {
    /// There is an address.
    Made(Made),
    /// The existing address stays.
    Kept(Side6),
    /// The uplink has no prefix to make an address from; it may get one. The failure is transient if it has no address
    /// at all, as at the start of a host.
    NotYet(Failure),
    /// All addresses that were tried are taken: another node has them, or claims to. The prefix may work later.
    Taken(Failure),
}

/// When duplicates of an address are detected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// Before it is used (RFC 4862 section 5.4).
    First,
    /// While it is used, if the program made it, so that a duplicate is very unlikely (RFC 4429 section 3.1).
    Optimistic,
}

/// Finds an unused IPv6 address for a translation prefix, and begins to answer for it. An error says nothing about the
/// prefix: the kernel did not answer.
pub async fn claim(site: &Site, pref64: Ipv6Net, detection: Detection) -> Result<Claim, Failure> {
    let Site {
        net,
        settings,
        uplink,
        ..
    } = site;
    let Candidates {
        addresses,
        is_shared,
        from,
    } = match candidates(site, pref64).await? {
        Ok(found) => found,
        Err(not_yet) => return Ok(Claim::NotYet(not_yet)),
    };
    let mut taken = String::new();
    for address in addresses {
        if let Some(index) = net.holder_of(IpAddr::V6(address)).await? {
            let name = net.name_of(index).await?;
            let name = name.as_deref().unwrap_or("another interface");
            taken = format!("{address} is already the address of {name} on this host");
            continue;
        }
        let made = |responder, is_tentative, neighbours: &str| {
            Ok(Claim::Made(Made {
                address,
                responder,
                is_tentative,
                is_shared,
                origin: format!("{from}; {neighbours}"),
            }))
        };
        let name = &uplink.name;
        if is_shared {
            return made(None, false, "no neighbour ever sees it");
        }
        if uplink.medium != Medium::Ethernet {
            return made(
                None,
                false,
                &format!("{name} has no neighbours that could ask for it"),
            );
        }
        let is_routed = settings.clat.v6_prefix.fixed().is_some();
        if is_routed && !net.is_on_link(address, uplink.index).await? {
            return made(
                None,
                false,
                "the network routes it here, so no neighbour is answered",
            );
        }
        let unheard = |source| ClatError::PacketSocket {
            name: name.clone(),
            source,
        };
        let responder = Responder::open(uplink.index, &uplink.address, address).map_err(unheard)?;
        let unanswered = |source| ClatError::Undetected {
            name: name.clone(),
            address,
            source,
        };
        let is_asked = asks_for_duplicates(&uplink.name);
        let is_ours = settings.clat.v6.fixed().is_none();
        let is_tentative = is_asked && is_ours && detection == Detection::Optimistic;
        if is_tentative || !is_asked || responder.is_unique().await.map_err(unanswered)? {
            let answered = format!("diolkos answers neighbours on {name} for it");
            return made(Some(responder), is_tentative, &answered);
        }
        taken = format!(
            "{address} is already the address of another host on {}",
            uplink.name
        );
    }
    Ok(Claim::Taken(ClatError::V6Taken { last: taken }.into()))
}

/// Returns true if the kernel itself would look for duplicates on this interface (`dad_transmits`,
/// RFC 4862 section 5.1).
fn asks_for_duplicates(uplink: &str) -> bool {
    let setting =
        std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{uplink}/dad_transmits"));
    setting.map_or(true, |text| text.trim() != "0")
}

/// The addresses to try.
struct Candidates {
    addresses: Vec<Ipv6Addr>,
    is_shared: bool,
    /// Where they are from, in words.
    from: String,
}

/// Returns the addresses to try, or the reason why there are none yet.
async fn candidates(site: &Site, pref64: Ipv6Net) -> Result<Result<Candidates, Failure>, Failure> {
    let Site {
        net,
        settings,
        uplink,
        left,
    } = site;
    let clat = &settings.clat;
    if let V6Address::Fixed(address) = clat.v6 {
        return Ok(Ok(Candidates {
            addresses: vec![address],
            is_shared: false,
            from: "clat.v6 sets it".to_owned(),
        }));
    }
    let (prefix, from, is_shared) = match clat.v6_prefix {
        Prefix::Fixed(prefix) => (prefix, format!("made from clat.v6_prefix, {prefix}"), false),
        Prefix::Auto => {
            let mut prefixes = net.global_prefixes(uplink.index).await?;
            prefixes.retain(|prefix| !left.contains(prefix));
            let wants_shared = clat.v6 == V6Address::Shared;
            match uplink_prefix(uplink, &prefixes) {
                Ok((prefix, from)) if !wants_shared => (prefix, from, false),
                own => match shared::prefix(site).await? {
                    Some((prefix, from)) => (prefix, from, true),
                    None => {
                        return Ok(Err(shared::not_yet(
                            settings,
                            uplink,
                            own.err().map(Failure::from),
                        )))
                    }
                },
            }
        }
    };
    let recipe = Recipe {
        prefix,
        pref64,
        v4: clat.v4(),
        uplink: &uplink.name,
        secret: &address::host_secret(&uplink.address),
    };
    let addresses = (0..=ADDRESS_RETRIES).map(|collisions| recipe.address(collisions));
    Ok(Ok(Candidates {
        addresses: addresses.collect(),
        is_shared,
        from,
    }))
}

/// Returns a /64 of the uplink with a description of the choice, or the reason why there is none. `prefixes` are those
/// of the uplink, the best first.
fn uplink_prefix(uplink: &Link, prefixes: &[Ipv6Net]) -> Result<(Ipv6Net, String), ClatError> {
    let name = &uplink.name;
    let fit: Vec<&Ipv6Net> = prefixes.iter().filter(|p| p.prefix_len() == 64).collect();
    if let [prefix, ref others @ ..] = fit[..] {
        let which = match others.len() {
            0 => "the /64".to_owned(),
            more => format!("one of {} /64s (unique local ones come last)", more + 1),
        };
        return Ok((*prefix, format!("made from {prefix}, {which} of {name}")));
    }
    let name = name.clone();
    let has = match prefixes.first() {
        None if uplink.may_get_addresses() => return Err(ClatError::NoPrefixYet(name)),
        None => "no global IPv6 address".to_owned(),
        Some(only) if only.prefix_len() == 128 => {
            format!(
                "only the address {}, which is the host's, and no /64",
                only.addr()
            )
        }
        Some(only) => format!("only {only} and no /64"),
    };
    Err(ClatError::NoPrefix { name, has })
}

#[cfg(test)]
mod tests {
    use diolkos_service::failure::Classified;

    use super::*;

    #[test]
    fn what_was_chosen_is_said() {
        let said = |prefixes: &[&str]| {
            let parsed = prefixes.iter().map(|p| p.parse().expect("a prefix"));
            match uplink_prefix(&Link::ethernet(2, 1500), &parsed.collect::<Vec<_>>()) {
                Ok((prefix, from)) => format!("{prefix}: {from}"),
                Err(failure) => failure.to_string(),
            }
        };
        assert_eq!(
            said(&["2001:db8::5/128", "2001:db8:1::/64"]),
            "2001:db8:1::/64: made from 2001:db8:1::/64, the /64 of eth0"
        );
        assert!(said(&["2001:db8::/64", "fd00::/64"]).contains("one of 2 /64s"));
        assert!(said(&[]).starts_with("eth0 has no global IPv6 address, so"));
        let is_transient = |prefixes: &[Ipv6Net]| {
            let found = uplink_prefix(&Link::ethernet(2, 1500), prefixes);
            found.expect_err("no /64").is_transient()
        };
        assert!(is_transient(&[]));
        assert!(!is_transient(&["2001:db8::5/128"
            .parse()
            .expect("a prefix")]));
        assert!(said(&["2001:db8::5/128"])
            .starts_with("eth0 has only the address 2001:db8::5, which is the host's, and no /64"));
        assert!(said(&["2001:db8::/112"]).starts_with("eth0 has only 2001:db8::/112 and no /64"));
    }
}
