// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses packets to ask the kernel whether translated packets have a route to the networks behind this router.

use std::net::{IpAddr, Ipv4Addr};

use diolkos_xlat::addr::rfc6052::Pref64;

use diolkos_config::{Mode, Settings};
use diolkos_kernel::net::Sample;

/// Three of the root servers of the DNS: every host that reaches the Internet has a route to them. Nothing is sent
/// there.
const FAR: [Ipv4Addr; 3] = [
    Ipv4Addr::new(198, 41, 0, 4),
    Ipv4Addr::new(193, 0, 14, 129),
    Ipv4Addr::new(202, 12, 27, 33),
];
/// Maximum number of nodes of a SIIT that are checked.
const MOST_NODES: usize = 8;

/// Returns packets from a destination that leads to the translator, like answers: by IPv4 to the Internet; by IPv6 to
/// the nodes of a SIIT, and to the Internet in its translation prefix if that leads elsewhere. The nodes of a NAT64 may
/// be on its links only.
pub fn samples(settings: &Settings) -> Vec<Sample> {
    let mut samples = Vec::new();
    // The network address is not a source: 0.0.0.0 is invalid, and it may be a broadcast address.
    let from4 = settings.led4().iter().find_map(|net| net.hosts().next());
    let is_source = |from: &Ipv4Addr| from.octets()[0] != 0;
    if let Some(from) = from4.filter(is_source) {
        samples.push(Sample::new(from.into(), FAR.map(IpAddr::V4).into()));
    }
    if settings.translator.mode != Mode::Nat64 {
        let nodes = settings.eam.iter().take(MOST_NODES);
        let nodes = nodes.map(|eam| IpAddr::V6(eam.v6.network()));
        let prefix = settings.translator.pref64.given().first();
        let far = prefix.into_iter().flat_map(|prefix| {
            let prefix = Pref64::new(*prefix);
            FAR.map(|far| IpAddr::V6(prefix.embed(far)))
        });
        let from6 = settings.led6();
        if let Some(from) = from6.first() {
            let to = nodes.chain(far).collect();
            samples.push(Sample::new(from.network().into(), to));
        }
    }
    samples
}
