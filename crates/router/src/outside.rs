// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool with ports of the address of an interface: what the kernel is told of it, and what prevents or disturbs the
//! sharing.

use std::fs;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::RouterError;
use super::vrf::vrf;
use diolkos_config::Settings;
use diolkos_control::translator::{Finding, Reason};
use diolkos_kernel::net::{Link, Net, Share, Sharing};
use diolkos_nat64::config::{Protocol, Wan};
use diolkos_service::failure::Failure;

/// Time between two attempts to have the kernel take rules that it has refused.
const RETRY: Duration = Duration::from_secs(5);

/// The shared address of an interface.
pub struct Outside {
    pub sharing: Sharing,
    /// What the kernel's rules are for.
    pub wan: Wan,
    /// The address that is shared; None while the interface has none.
    pub now: Option<Ipv4Addr>,
    /// Why the kernel has not the rules that it should have, and when it is asked again.
    pub refusal: Option<(String, Instant)>,
    /// True once it was logged that entries of conntrack cannot be deleted.
    pub has_said: Arc<AtomicBool>,
}

impl Outside {
    /// The rules have no address yet.
    pub fn new(sharing: Sharing, wan: Wan) -> Outside {
        Outside {
            sharing,
            wan,
            now: None,
            refusal: None,
            has_said: Arc::default(),
        }
    }

    /// Returns true if the kernel has these rules.
    pub fn has(&self, wan: &Wan, now: Option<Ipv4Addr>) -> bool {
        self.refusal.is_none() && (&self.wan, self.now) == (wan, now)
    }

    /// The kernel has refused rules.
    pub fn refuse(&mut self, refusal: String) {
        self.refusal = Some((refusal, Instant::now() + RETRY));
    }

    /// The next attempt is not before some time, whatever comes of this one.
    pub fn retries(&mut self) {
        if let Some((_, at)) = &mut self.refusal {
            *at = Instant::now() + RETRY;
        }
    }

    /// Returns when the kernel is asked again, if it has refused rules.
    pub fn retry(&self) -> Option<Instant> {
        Some(self.refusal.as_ref()?.1)
    }

    /// Returns what prevents or disturbs the sharing.
    pub fn findings(&self) -> Vec<Finding> {
        let interface = &self.wan.interface;
        let without = self.now.is_none().then(|| {
            let text = format!(
                "{interface} has no IPv4 address, which nodes share: packets pass when it has one; does a DHCP client or pppd run?"
            );
            Finding::obstacle(Reason::Way, text)
        });
        let refused = self.refusal.as_ref().map(|(refusal, _)| {
            let text = format!("{refusal}: trying again every {} s", RETRY.as_secs());
            Finding::obstacle(Reason::Way, text)
        });
        let read = |name| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let ephemeral = read("ip_local_port_range").unwrap_or_default();
        let reserved = read("ip_local_reserved_ports").unwrap_or_default();
        let common = common(&self.wan, &ephemeral, &reserved).map(|ports| {
            let all: Vec<String> = reserved_with(&reserved, &self.wan);
            let text = format!(
                "this router may use ports {}-{} of {interface} for its own connections, and packets of nodes are dropped where both \
                 use a port with the same peer: run sysctl -w net.ipv4.ip_local_reserved_ports={}",
                ports.start(),
                ports.end(),
                all.join(",")
            );
            Finding::trouble(Reason::Ports, text)
        });
        without.into_iter().chain(refused).chain(common).collect()
    }
}

/// Returns what the kernel shares.
pub fn share(wan: &Wan, device: &str) -> Share {
    let numbers = [(Protocol::Tcp, 6), (Protocol::Udp, 17)];
    let of = |(ports, protocols): &(RangeInclusive<u16>, Vec<Protocol>)| {
        let its = numbers
            .into_iter()
            .filter(|(its, _)| protocols.contains(its));
        its.map(|(_, number)| (number, ports.clone()))
            .collect::<Vec<_>>()
    };
    Share {
        interface: wan.interface.clone(),
        device: device.to_owned(),
        inside: wan.inside,
        ports: wan.ports.iter().flat_map(of).collect(),
    }
}

/// Returns the first ports of the pool that the kernel may choose for connections of this host. Both texts are those of
/// sysctls: two numbers, and a list of numbers and ranges.
fn common(wan: &Wan, ephemeral: &str, reserved: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = ephemeral.split_whitespace().map(str::parse::<u16>);
    let chosen = numbers.next()?.ok()?..=numbers.next()?.ok()?;
    let reserved: Vec<RangeInclusive<u16>> = reserved.trim().split(',').filter_map(range).collect();
    let ports = wan.ports.iter().map(|(ports, _)| ports.clone());
    let free = |port: &u16| chosen.contains(port) && !reserved.iter().any(|its| its.contains(port));
    ports.into_iter().find_map(|ports| {
        let first = ports.clone().find(free)?;
        let last = ports.rev().find(free)?;
        Some(first..=last)
    })
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// What is reserved already, and the ports of the pool.
fn reserved_with(reserved: &str, wan: &Wan) -> Vec<String> {
    let already = reserved.trim().split(',').filter(|its| !its.is_empty());
    let ports = wan.ports.iter();
    let ports = ports.map(|(ports, _)| format!("{}-{}", ports.start(), ports.end()));
    let mut all: Vec<String> = already.map(str::to_owned).collect();
    all.extend(ports);
    all.dedup();
    all
}

/// Refuses an interface of another routing domain than that of nodes.
pub fn refuse_vrf(interface: &str, links: &[Link]) -> Result<(), RouterError> {
    let link = links.iter().find(|link| link.name == interface);
    match link.and_then(|link| vrf(link, links)) {
        None => Ok(()),
        Some(vrf) => Err(RouterError::SharedInVrf {
            interface: interface.to_owned(),
            vrf: vrf.name.clone(),
        }),
    }
}

/// Returns the address of the interface that shares it, as the machine has it now.
pub async fn found(net: &Net, settings: &Settings) -> Result<Option<Ipv4Addr>, Failure> {
    match settings.wan() {
        Some(wan) => Ok(net.outward_address4(&wan.interface).await?),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wan() -> Wan {
        Wan {
            interface: "wan0".to_owned(),
            inside: Ipv4Addr::new(192, 168, 64, 1),
            ports: vec![
                (40000..=49999, vec![Protocol::Udp, Protocol::Icmp]),
                (50000..=59999, vec![Protocol::Tcp]),
            ],
        }
    }

    #[test]
    fn ports_that_the_kernel_chooses_are_found() {
        let common = |ephemeral, reserved| common(&wan(), ephemeral, reserved);
        assert_eq!(common("32768\t60999\n", "\n"), Some(40000..=49999));
        assert_eq!(common("32768 39999", ""), None);
        assert_eq!(common("32768 40000", ""), Some(40000..=40000));
        assert_eq!(common("32768 60999", "22,40000-59999"), None);
        assert_eq!(common("32768 60999", "40000-49990"), Some(49991..=49999));
        assert_eq!(common("32768 60999", "40000-49999"), Some(50000..=59999));
        assert_eq!(common("", ""), None);
        let all = reserved_with("22,80\n", &wan());
        assert_eq!(all.join(","), "22,80,40000-49999,50000-59999");
    }

    #[test]
    fn only_protocols_with_ports_have_rules() {
        let ports = share(&wan(), "nat64").ports;
        assert_eq!(ports, [(17, 40000..=49999), (6, 50000..=59999)]);
    }
}
