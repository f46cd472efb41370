// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a translation without state (RFC 7915): explicit mappings, prefixes, and what must be declined between them.
//!
//! An address is mapped as `xlat::addr` maps it: explicit mappings first, by longest match, then prefixes. The switch
//! declines each packet that `xlat` refuses or sends back to IPv6, so it needs no reasons.

use std::net::Ipv4Addr;

use diolkos_xlat::addr::rfc6052::Pref64;
use diolkos_xlat::{Config, TrafficClass};
use ipnet::{Ipv4Net, Ipv6Net};

use crate::embedding::Embedding;
use crate::entry::{decline_embedded, from4, from6, settings, End, Entry, Mode};

/// The lowest number wins. For a mapping, the number of bits after its prefix is added, at most 128.
const UNROUTABLE: u32 = 0;
const MAPPING: u32 = 100;
const EXCEPTION: u32 = 300;
const PREFIX: u32 = 400;

const ENDS: [End; 2] = [End::Source, End::Destination];

const fn net4(octets: [u8; 4], len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(
        Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]),
        len,
    )
}

/// No packet that is translated has such an address (`xlat::addr::special`).
const UNROUTABLE4: [Ipv4Net; 5] = [
    net4([0, 0, 0, 0], 8),
    net4([127, 0, 0, 0], 8),
    net4([169, 254, 0, 0], 16),
    net4([224, 0, 0, 0], 4),
    net4([255, 255, 255, 255], 32),
];
/// `::` and `::1`, IPv4-mapped, link-local, multicast.
const UNROUTABLE6: [&str; 4] = ["::/127", "::ffff:0:0/96", "fe80::/10", "ff00::/8"];

/// 64:ff9b::/96 must not represent these (RFC 6052 section 3.1). Some of their addresses are globally reachable.
const NOT_GLOBAL: [Ipv4Net; 12] = [
    net4([0, 0, 0, 0], 8),
    net4([10, 0, 0, 0], 8),
    net4([100, 64, 0, 0], 10),
    net4([127, 0, 0, 0], 8),
    net4([169, 254, 0, 0], 16),
    net4([172, 16, 0, 0], 12),
    net4([192, 0, 0, 0], 22),
    net4([192, 168, 0, 0], 16),
    net4([198, 18, 0, 0], 15),
    net4([198, 51, 100, 0], 24),
    net4([203, 0, 113, 0], 24),
    net4([224, 0, 0, 0], 3),
];

/// The settings and entries of a configuration. `None`: a prefix has a length that the switch does not know.
pub fn entries(config: &Config) -> Option<Vec<Entry>> {
    let prefixes = config
        .pref64
        .iter()
        .map(|&prefix| Some((prefix, Embedding::of_prefix(prefix)?)));
    let prefixes = prefixes.collect::<Option<Vec<_>>>()?;
    let lowest = u16::try_from(config.lowest_ipv6_mtu).unwrap_or(u16::MAX);
    let copies = config.traffic_class == TrafficClass::Copy;
    // The switch does not walk the options of TCP: SYNs are left to what lowers their maximum segment size.
    let mode = match config.tcp_mss {
        Some(_) => Mode::StatelessWithoutSyn,
        None => Mode::Stateless,
    };
    let mut all = vec![settings(mode, copies, lowest)];
    for end in ENDS {
        for net in UNROUTABLE4 {
            all.push(from4(end, UNROUTABLE, net, None));
        }
        for net in UNROUTABLE6.iter().filter_map(|net| net.parse().ok()) {
            all.push(from6(end, UNROUTABLE, net, None));
        }
        for eam in &config.eam {
            let by = Embedding::of_mapping(eam.v4, eam.v6);
            let by = by.as_ref().filter(|_| !is_unroutable(eam.v4));
            let after4 = u32::from(32 - eam.v4.prefix_len());
            let after6 = u32::from(128 - eam.v6.prefix_len());
            all.push(from4(end, MAPPING + after4, eam.v4, by));
            all.push(from6(end, MAPPING + after6, eam.v6, by));
        }
        for net in &config.loops4 {
            all.push(from4(end, EXCEPTION, *net, None));
        }
        for (at, prefix) in prefixes.iter().enumerate() {
            if at == 0 {
                let refused = refused_by(prefix.0, config);
                all.extend(refused.map(|net| from4(end, EXCEPTION, net, None)));
                all.push(from4(end, PREFIX, Ipv4Net::default(), Some(&prefix.1)));
            }
            let embedded = exceptions(end, prefix.0, config);
            all.extend(
                embedded.map(|net| decline_embedded(end, EXCEPTION, prefix.0, &prefix.1, net)),
            );
            let priority = PREFIX + at as u32;
            all.push(from6(end, priority, prefix.0, Some(&prefix.1)));
        }
    }
    // Several reasons may decline the same addresses.
    all.sort_by_key(|entry| entry.place);
    all.dedup_by_key(|entry| entry.place);
    Some(all)
}

/// The IPv4 networks that are declined within a prefix.
fn exceptions(
    end: End,
    prefix: Ipv6Net,
    config: &Config,
) -> impl Iterator<Item = Ipv4Net> + use<'_> {
    // A packet to a mapped address turns back to IPv6 (RFC 7757 section 4.2).
    let mapped = config.eam.iter().filter(move |_| end == End::Destination);
    UNROUTABLE4
        .into_iter()
        .chain(refused_by(prefix, config))
        .chain(config.loops4.iter().copied())
        .chain(mapped.map(|eam| eam.v4))
}

fn refused_by(prefix: Ipv6Net, config: &Config) -> impl Iterator<Item = Ipv4Net> + use<> {
    let well_known = Pref64::new(prefix).is_well_known();
    let refuses = well_known && !config.allow_private_with_wkp;
    NOT_GLOBAL.into_iter().filter(move |_| refuses)
}

fn is_unroutable(net: Ipv4Net) -> bool {
    let overlaps = |other: &Ipv4Net| other.contains(&net) || net.contains(other);
    UNROUTABLE4.iter().any(overlaps)
}

#[cfg(test)]
mod tests;
