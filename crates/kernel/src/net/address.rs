// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of this host: lists them and the prefixes of an uplink, and gives the TUN device its own address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::AddressFamily;

use super::{in_time, Net};
use crate::error::KernelError;

/// The properties of an address of this host that the crate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Index of the interface that has the address.
    pub index: u32,
    pub address: IpAddr,
    pub prefix_len: u8,
    pub is_global: bool,
    /// The kernel may choose the address for new connections: it has passed duplicate address detection and is not deprecated.
    pub is_fit: bool,
    /// The kernel does not choose the address: another one of its network was there before.
    pub is_secondary: bool,
    /// The preferred lifetime of the address is over (RFC 4862 section 5.5.4).
    pub is_deprecated: bool,
    /// Time at which its lifetimes were last set, for example by a router advertisement; hundredths of a second of the kernel's
    /// clock. `None` for an address that never expires, and for a temporary address (RFC 8981), which the host itself makes.
    pub confirmed: Option<u32>,
}

/// How the uplink's own addresses relate to the prefix of the CLAT's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The uplink has an address in the prefix whose preferred lifetime is not over.
    Held,
    /// All addresses of the uplink in the prefix are deprecated: the network is about to withdraw the prefix.
    Deprecated,
    /// The uplink has no address in the prefix.
    Gone,
}

impl Address {
    pub(super) fn from_message(message: &AddressMessage) -> Option<Address> {
        let flags = message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                AddressAttribute::Flags(flags) => Some(*flags),
                _ => None,
            });
        let flags = flags.unwrap_or(AddressFlags::empty());
        let lifetimes = message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                AddressAttribute::CacheInfo(info) => Some(*info),
                _ => None,
            });
        let from_network = lifetimes
            .filter(|info| info.ifa_valid != u32::MAX && !flags.contains(AddressFlags::Secondary));
        let unfit = AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated;
        Some(Address {
            index: message.header.index,
            address: own(message)?,
            prefix_len: message.header.prefix_len,
            is_global: message.header.scope == AddressScope::Universe,
            is_fit: !flags.intersects(unfit),
            is_secondary: flags.contains(AddressFlags::Secondary),
            is_deprecated: flags.contains(AddressFlags::Deprecated),
            confirmed: from_network.map(|info| info.tstamp),
        })
    }

    fn net6(&self) -> Option<Ipv6Net> {
        match self.address {
            IpAddr::V6(address) => Ipv6Net::new(address, self.prefix_len).ok(),
            IpAddr::V4(_) => None,
        }
    }
}

impl Net {
    pub(super) async fn all_addresses(&self) -> Result<Vec<Address>, KernelError> {
        let ask = |handle: &rtnetlink::Handle| handle.address().get().execute();
        let all: Vec<AddressMessage> = self.list("list the addresses", ask).await?;
        Ok(all.iter().filter_map(Address::from_message).collect())
    }

    /// The index of the interface that already has this address, if one has.
    pub async fn holder_of(&self, address: IpAddr) -> Result<Option<u32>, KernelError> {
        let all = self.all_addresses().await?;
        Ok(all.iter().find(|a| a.address == address).map(|a| a.index))
    }

    /// The global prefixes in which the interface has a usable address; unique local prefixes (RFC 4193) come last.
    pub async fn global_prefixes(&self, index: u32) -> Result<Vec<Ipv6Net>, KernelError> {
        let all = self.all_addresses().await?.into_iter();
        let fit = all.filter(|a| a.index == index && a.is_global && a.is_fit);
        let mut prefixes: Vec<Ipv6Net> = fit
            .filter_map(|a| a.net6())
            .map(|net| net.trunc())
            .collect();
        // Unique local addresses (RFC 4193) are the last choice: a NAT64 is more likely to know the others.
        prefixes.sort_by_key(|net| (is_unique_local(net.addr()), *net));
        prefixes.dedup();
        Ok(prefixes)
    }

    /// The global prefixes of the interface whose addresses have a limited lifetime from the network, each with the time at
    /// which the network last confirmed it (`Address::confirmed`).
    pub async fn confirmations(&self, index: u32) -> Result<Vec<(Ipv6Net, u32)>, KernelError> {
        let all = self.all_addresses().await?.into_iter();
        let its = all.filter(|a| a.index == index && a.is_global && a.is_fit);
        Ok(its
            .filter_map(|a| Some((a.net6()?.trunc(), a.confirmed?)))
            .collect())
    }

    /// A usable global IPv6 address of this host; a unique local address (RFC 4193) only if it has no other.
    pub async fn global_address6(&self) -> Result<Option<Ipv6Addr>, KernelError> {
        let all = self.all_addresses().await?.into_iter();
        let fit = all.filter(|a| a.is_global && a.is_fit);
        let found = fit.filter_map(|a| a.net6()).map(|net| net.addr());
        Ok(found.min_by_key(|address| (is_unique_local(*address), *address)))
    }

    /// A usable global IPv6 address of one interface, chosen as in [`Net::global_address6`].
    pub async fn global_address6_of(&self, index: u32) -> Result<Option<Ipv6Addr>, KernelError> {
        let all = self.all_addresses().await?.into_iter();
        let fit = all.filter(|a| a.index == index && a.is_global && a.is_fit);
        let found = fit.filter_map(|a| a.net6()).map(|net| net.addr());
        Ok(found.min_by_key(|address| (is_unique_local(*address), *address)))
    }

    /// The addresses of this host, each with the index of its interface.
    pub async fn all_held(&self) -> Result<Vec<(u32, IpAddr)>, KernelError> {
        let all = self.all_addresses().await?;
        Ok(all.iter().map(|a| (a.index, a.address)).collect())
    }

    /// The addresses of this host.
    pub async fn addresses(&self) -> Result<Vec<IpAddr>, KernelError> {
        let all = self.all_addresses().await?;
        Ok(all.iter().map(|a| a.address).collect())
    }

    /// The IPv4 addresses of this host.
    pub async fn addresses4(&self) -> Result<Vec<Ipv4Addr>, KernelError> {
        let all = self.all_addresses().await?;
        let own = all.iter().filter_map(|a| match a.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        Ok(own.collect())
    }

    /// Returns how the interface's addresses relate to the prefix that contains `address`.
    pub async fn standing(&self, index: u32, address: Ipv6Addr) -> Result<Standing, KernelError> {
        let all = self.all_addresses().await?.into_iter();
        let is_around = |net: Ipv6Net| net.contains(&address);
        let around = all.filter(|a| a.index == index && a.net6().is_some_and(is_around));
        let around: Vec<Address> = around.collect();
        Ok(match around.iter().all(|a| a.is_deprecated) {
            _ if around.is_empty() => Standing::Gone,
            true => Standing::Deprecated,
            false => Standing::Held,
        })
    }

    /// Gives an interface one IPv4 address.
    pub async fn add_address4(&self, index: u32, address: Ipv4Addr) -> Result<(), KernelError> {
        let request = self.handle.address().add(index, IpAddr::V4(address), 32);
        in_time(request.execute())
            .await
            .map_err(|refusal| refusal.change(format_args!("give {address} to the TUN device")))
    }

    /// Removes the IPv4 address from the interface.
    pub async fn remove_address4(&self, index: u32, address: Ipv4Addr) -> Result<(), KernelError> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = 32;
        message.header.index = index;
        let address = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(address)];
        in_time(self.handle.address().del(message).execute())
            .await
            .map_err(|refusal| refusal.change(format_args!("take {address} from the TUN device")))
    }
}

fn is_unique_local(address: Ipv6Addr) -> bool {
    address.octets()[0] & 0xfe == 0xfc
}

fn own(message: &AddressMessage) -> Option<IpAddr> {
    // On a point-to-point interface, `Address` is the peer's address and `Local` is ours.
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
