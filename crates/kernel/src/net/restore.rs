// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a translator's TUN device: MTU, settings, address, routes. Parts that others remove are restored.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::{Added, ExitRoute, Net, Route4, Route6};
use crate::error::KernelError;

/// Everything that a translator has configured on its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Index of the device.
    pub index: u32,
    /// MTU of the device, bytes.
    pub mtu: u32,
    /// IPv4 address of the device.
    pub address: Option<Ipv4Addr>,
    /// IPv4 routes through it.
    pub routes4: Vec<Route4>,
    /// IPv6 routes through it.
    pub routes6: Vec<Route6>,
    /// The exit route of a CLAT's packets, where the kernel forwards them. It does not disappear with the device.
    pub exit: Option<ExitRoute>,
}

impl DeviceConfig {
    /// The destinations of the routes.
    pub fn destinations(&self) -> impl Iterator<Item = IpNet> + '_ {
        let v4 = self.routes4.iter().map(|route| route.to.into());
        v4.chain(self.routes6.iter().map(|route| route.to.into()))
    }
}

impl Net {
    /// Restores the missing parts, and returns their descriptions. `None`: the device is down, and holds no configuration.
    pub async fn restore(&self, own: &DeviceConfig) -> Result<Option<Vec<String>>, KernelError> {
        let mut restored = Vec::new();
        let Some(link) = self.link_at(own.index).await? else {
            return Err(KernelError::OwnTunGone);
        };
        if !link.is_up {
            return Ok(None);
        }
        if link.mtu != own.mtu {
            self.set_mtu(own.index, own.mtu).await?;
            restored.push(format!("the MTU of {} bytes", own.mtu));
        }
        if self.remind(&link).await {
            restored.push("its IPv6 settings".to_owned());
        }
        if let Some(address) = own.address {
            let all = self.all_addresses().await?;
            let is_there = |a: &super::address::Address| {
                (a.index, a.address) == (own.index, IpAddr::V4(address))
            };
            if !all.iter().any(is_there) {
                self.add_address4(own.index, address).await?;
                restored.push(format!("the address {address}"));
            }
        }
        let there = self.routes4(own.index).await?;
        let there = there.iter().map(|route| (route.to, route.metric));
        for route in missing(&own.routes4, there, |route| (route.to, route.metric)) {
            if self.add_route4(route).await? == Added::DeviceIsDown {
                return Ok(None);
            }
            restored.push(format!("the route to {}", route.to));
        }
        let there = self.routes6(own.index).await?;
        // A wanted route without a metric matches every route to its destination.
        let there = there
            .iter()
            .flat_map(|r| [(r.to, r.metric, r.is_first), (r.to, None, r.is_first)]);
        let key = |route: &Route6| (route.to, route.metric, route.is_first);
        for route in missing(&own.routes6, there, key) {
            if self.add_route6(route).await? == Added::DeviceIsDown {
                return Ok(None);
            }
            restored.push(format!("the route to {}", route.to));
        }
        Ok(Some(restored))
    }
}

/// The items of a list whose keys are not in `there`. Both may have a million entries.
fn missing<R, K: Hash + Eq>(
    wanted: &[R],
    there: impl Iterator<Item = K>,
    key: impl Fn(&R) -> K,
) -> Vec<&R> {
    let there: HashSet<K> = there.collect();
    let is_missing = |route: &&R| !there.contains(&key(route));
    wanted.iter().filter(is_missing).collect()
}

/// A list for a log line, shortened: a configuration may have 100 000 mappings.
pub fn shown(items: &[String]) -> String {
    const MOST: usize = 8;
    let mut list = items[..items.len().min(MOST)].join(", ");
    if items.len() > MOST {
        list += &format!(" and {} more", items.len() - MOST);
    }
    list
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static COMPARED: AtomicUsize = AtomicUsize::new(0);

    /// Counts the comparisons.
    struct Counted(u32);

    impl PartialEq for Counted {
        fn eq(&self, other: &Counted) -> bool {
            COMPARED.fetch_add(1, Ordering::Relaxed);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    /// With as many routes as a table may have mappings, the number of comparisons must not grow with their square.
    #[test]
    fn each_route_is_looked_up_once() {
        let wanted: Vec<u32> = (0..2000).collect();
        let there = (0..2000).filter(|n| n % 500 != 7).map(Counted);
        let gone = missing(&wanted, there, |n| Counted(*n));
        assert_eq!(gone, [&7, &507, &1007, &1507]);
        // A few hashes may collide.
        let compared = COMPARED.load(Ordering::Relaxed);
        assert!(compared <= 4 * wanted.len(), "{compared}");
    }
}
