// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is ours on the TUN device: its MTU, its settings, its address, its routes. Others may take them away; then they are put back.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::{Added, Net, Route4, Route6};
use crate::failure::Failure;

/// Everything that a translator has put on its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The device's.
    pub index: u32,
    /// Bytes.
    pub mtu: u32,
    /// IPv4 address of the device.
    pub address: Option<Ipv4Addr>,
    /// IPv4 routes through it.
    pub routes4: Vec<Route4>,
    /// IPv6 routes through it.
    pub routes6: Vec<Route6>,
}

impl Own {
    /// Where the routes lead.
    pub fn destinations(&self) -> impl Iterator<Item = IpNet> + '_ {
        let v4 = self.routes4.iter().map(|route| route.to.into());
        v4.chain(self.routes6.iter().map(|route| route.to.into()))
    }
}

impl Net {
    /// Puts back what is missing, and says what that was. `None`: the device is down, and holds nothing.
    pub async fn put_back(&self, own: &Own) -> Result<Option<Vec<String>>, Failure> {
        let mut restored = Vec::new();
        let Some(link) = self.link_at(own.index).await? else {
            return Err(Failure::run_time("the TUN device is gone"));
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
        let is_there = |route: &Route4| {
            let same = |other: &Route4| (other.to, other.metric) == (route.to, route.metric);
            there.iter().any(same)
        };
        for route in own.routes4.iter().filter(|route| !is_there(route)) {
            if self.add_route4(route).await? == Added::DeviceIsDown {
                return Ok(None);
            }
            restored.push(format!("the route to {}", route.to));
        }
        let there = self.routes6(own.index).await?;
        let is_there = |route: &Route6| {
            let metric = |other: &Route6| route.metric.is_none() || other.metric == route.metric;
            there
                .iter()
                .any(|other| other.to == route.to && metric(other))
        };
        for route in own.routes6.iter().filter(|route| !is_there(route)) {
            if self.add_route6(route).await? == Added::DeviceIsDown {
                return Ok(None);
            }
            restored.push(format!("the route to {}", route.to));
        }
        Ok(Some(restored))
    }
}

/// A list for a log line, which a configuration with 100 000 mappings must not make endless.
pub fn shown(items: &[String]) -> String {
    const MOST: usize = 8;
    let mut list = items[..items.len().min(MOST)].join(", ");
    if items.len() > MOST {
        list += &format!(" and {} more", items.len() - MOST);
    }
    list
}
