// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses: which are taken, which prefixes an uplink has, and giving the TUN device its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use ipnet::Ipv6Net;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};

use super::{refused, Net};
use crate::failure::Failure;

impl Net {
    async fn addresses(&self) -> Result<Vec<AddressMessage>, Failure> {
        self.handle
            .address()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(|e| refused("list the addresses", &e))
    }

    /// The index of the interface that has this address already.
    pub async fn holder_of(&self, address: IpAddr) -> Result<Option<u32>, Failure> {
        let all = self.addresses().await?;
        Ok(all
            .iter()
            .find(|m| own(m) == Some(address))
            .map(|m| m.header.index))
    }

    /// The global prefixes in which the interface has an address that is fit for use, the routable ones first.
    pub async fn global_prefixes(&self, index: u32) -> Result<Vec<Ipv6Net>, Failure> {
        let mut prefixes: Vec<Ipv6Net> = Vec::new();
        for message in self.addresses().await? {
            if message.header.index != index
                || message.header.scope != AddressScope::Universe
                || unfit(&message)
            {
                continue;
            }
            let Some(IpAddr::V6(address)) = own(&message) else {
                continue;
            };
            if let Ok(net) = Ipv6Net::new(address, message.header.prefix_len) {
                prefixes.push(net.trunc());
            }
        }
        // Unique local addresses (RFC 4193) are the last choice: a NAT64 is more likely to know the others.
        prefixes.sort_by_key(|net| (is_unique_local(net.addr()), *net));
        prefixes.dedup();
        Ok(prefixes)
    }

    /// A global IPv6 address of this host that is fit for use, a routable one rather than a unique local one (RFC 4193).
    pub async fn global_address6(&self) -> Result<Option<Ipv6Addr>, Failure> {
        let mut found: Vec<Ipv6Addr> = Vec::new();
        for message in self.addresses().await? {
            if let (AddressScope::Universe, false, Some(IpAddr::V6(address))) =
                (message.header.scope, unfit(&message), own(&message))
            {
                found.push(address);
            }
        }
        found.sort_by_key(|address| (is_unique_local(*address), *address));
        Ok(found.first().copied())
    }

    /// The IPv4 addresses of this host.
    pub async fn addresses4(&self) -> Result<Vec<Ipv4Addr>, Failure> {
        let all = self.addresses().await?;
        let own = all.iter().filter_map(|message| match own(message) {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        });
        Ok(own.collect())
    }

    /// Whether the interface has an address, fit for use or not, whose prefix holds this one.
    pub async fn is_in_prefix_of(&self, index: u32, address: Ipv6Addr) -> Result<bool, Failure> {
        let all = self.addresses().await?;
        Ok(all
            .iter()
            .filter(|m| m.header.index == index)
            .any(|m| match own(m) {
                Some(IpAddr::V6(held)) => {
                    Ipv6Net::new(held, m.header.prefix_len).is_ok_and(|net| net.contains(&address))
                }
                _ => false,
            }))
    }

    /// Gives an interface one IPv4 address.
    pub async fn add_address4(&self, index: u32, address: Ipv4Addr) -> Result<(), Failure> {
        self.handle
            .address()
            .add(index, IpAddr::V4(address), 32)
            .execute()
            .await
            .map_err(|e| refused(format_args!("give {address} to the TUN device"), &e))
    }
}

fn is_unique_local(address: Ipv6Addr) -> bool {
    address.octets()[0] & 0xfe == 0xfc
}

fn own(message: &AddressMessage) -> Option<IpAddr> {
    // On a point-to-point interface `Address` is the peer and `Local` is ours.
    let find = |local: bool| {
        message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                AddressAttribute::Local(address) if local => Some(*address),
                AddressAttribute::Address(address) if !local => Some(*address),
                _ => None,
            })
    };
    find(true).or_else(|| find(false))
}

fn unfit(message: &AddressMessage) -> bool {
    message.attributes.iter().any(|attribute| match attribute {
        AddressAttribute::Flags(flags) => flags.intersects(
            AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated,
        ),
        _ => false,
    })
}
