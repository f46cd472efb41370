// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the values of the settings with `auto` from the machine, and contradictions that follow.

use diolkos_xlat::ConfigError;

use super::error::RouterError;
use super::outside;
use diolkos_config::{self as config, AutoValues, Settings};
use diolkos_kernel::net::{Link, Net};
use diolkos_service::failure::Failure;

/// What every IPv4 host receives (RFC 791 section 3.1), in bytes.
const IPV4_MINIMUM_MTU: u32 = 576;
/// RFC 8200 section 5, in bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;
/// Maximum size of an IPv4 packet, and so the largest MTU of a TUN device, in bytes.
const LARGEST_MTU: u32 = 65535;

/// Determines what the settings leave to the program: as MTU that of the largest interface from which or to which
/// packets go, so that the kernel's own limits decide; and an address of the router for ICMPv6 errors.
pub async fn look_around(net: &Net, settings: &Settings) -> Result<AutoValues, Failure> {
    let t = &settings.translator;
    let links = net.links().await?;
    for name in &t.interfaces {
        net.link(name).await?;
    }
    let among = |name: &String| match t.interfaces.is_empty() {
        true => name != "lo" && *name != t.device,
        false => t.interfaces.contains(name),
    };
    let ours: Vec<&Link> = links.iter().filter(|link| among(&link.name)).collect();
    let mtu = ours
        .iter()
        .map(|link| link.mtu)
        .max()
        .unwrap_or(AutoValues::OFFLINE_MTU)
        .clamp(IPV6_MINIMUM_MTU, LARGEST_MTU);
    // Without a list of interfaces, those that are down do not count, nor those that are too narrow for IPv4, such as a
    // CAN bus.
    let counts =
        |link: &&&Link| !t.interfaces.is_empty() || (link.running && link.mtu >= IPV4_MINIMUM_MTU);
    let [narrowest4, narrowest6] = narrowest(ours.iter().filter(counts).copied());
    let found = AutoValues {
        mtu4: mtu,
        mtu6: mtu,
        narrowest4: narrowest4.unwrap_or(mtu),
        narrowest6: narrowest6.unwrap_or(mtu),
        address6: net.global_address6().await?,
        outside: outside::found(net, settings).await?,
    };
    Ok(found)
}

/// The least MTU of these interfaces for each family, in bytes. One below the minimum MTU of IPv6 carries no IPv6 (RFC
/// 8200 section 5).
fn narrowest<'a>(links: impl Iterator<Item = &'a Link> + Clone) -> [Option<u32>; 2] {
    let for6 = links.clone().map(|link| link.mtu6);
    [
        links.map(|link| link.mtu).min(),
        for6.filter(|mtu| *mtu >= IPV6_MINIMUM_MTU).min(),
    ]
}

/// Warns of interfaces that are too narrow, now that they are known.
pub async fn warn_of_narrow_links(net: &Net, settings: &Settings) -> Result<(), Failure> {
    let t = &settings.translator;
    let links = net.links().await?;
    let among = links.iter().filter(|link| match t.interfaces.is_empty() {
        true => link.running && link.name != "lo" && link.name != t.device,
        false => t.interfaces.contains(&link.name),
    });
    for warning in settings.narrow_links(among.map(|link| (link.name.as_str(), link.mtu6))) {
        config::warn(&warning);
    }
    Ok(())
}

/// Describes contradictions now that the machine is known.
pub fn misconfigured(settings: &Settings, source: ConfigError) -> RouterError {
    let problems = source.problems.iter();
    let sentences: Vec<String> = problems
        .map(|problem| format!("{}: {}", settings.key(&problem.key), problem.message))
        .collect();
    RouterError::Contradiction {
        sentences: sentences.join("\n"),
        source,
    }
}

/// Returns the MTU of the device, which fits what either side can send.
pub fn device_mtu(settings: &Settings, found: AutoValues) -> u32 {
    let t = &settings.translator;
    t.mtu4
        .or(found.mtu4)
        .max(t.mtu6.or(found.mtu6))
        .max(IPV6_MINIMUM_MTU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_interface_counts_where_it_carries_the_family() {
        let link = |mtu, mtu6| Link {
            mtu6,
            ..Link::ethernet(2, mtu)
        };
        let [wide, tunnel, announced, thin] =
            [(1500, 1500), (1480, 1480), (1500, 1400), (1000, 1000)]
                .map(|(mtu, mtu6)| link(mtu, mtu6));
        let of = |links: &[&Link]| narrowest(links.iter().copied());
        assert_eq!(of(&[]), [None, None]);
        assert_eq!(of(&[&wide, &tunnel]), [Some(1480), Some(1480)]);
        assert_eq!(of(&[&tunnel, &announced]), [Some(1480), Some(1400)]);
        assert_eq!(of(&[&wide, &thin]), [Some(1000), Some(1500)]);
    }
}
