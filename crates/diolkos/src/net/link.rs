// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: finding the uplink, preparing the TUN device.

use std::fs;

use futures_util::TryStreamExt;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkLayerType, LinkMessage,
};
use rtnetlink::LinkUnspec;

use super::{refused, Net};
use crate::failure::Failure;

/// What is in front of an IP packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Ethernet headers, and neighbours to be discovered.
    Ethernet,
    /// Nothing: point-to-point links, modems, tunnels.
    BareIp,
    /// Something that the fast path does not know.
    Other,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What somebody has written to it, for others to read.
    pub alias: String,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Its MTU for IPv6, bytes: a router advertisement may make it smaller (RFC 4861 section 4.6.4).
    pub mtu6: u32,
    /// Its link-layer address; empty where it has none.
    pub address: Vec<u8>,
    /// What is in front of an IP packet on it.
    pub medium: Medium,
    /// It is up and has a carrier.
    pub running: bool,
}

impl Link {
    pub(super) fn from_message(message: &LinkMessage) -> Link {
        let mut link = Link {
            index: message.header.index,
            name: String::new(),
            alias: String::new(),
            mtu: 0,
            mtu6: 0,
            address: Vec::new(),
            medium: match message.header.link_layer_type {
                LinkLayerType::Ether => Medium::Ethernet,
                LinkLayerType::None | LinkLayerType::Rawip | LinkLayerType::Ppp => Medium::BareIp,
                _ => Medium::Other,
            },
            running: message.header.flags.contains(LinkFlags::Running),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::IfAlias(alias) => link.alias.clone_from(alias),
                LinkAttribute::Mtu(mtu) => (link.mtu, link.mtu6) = (*mtu, *mtu),
                LinkAttribute::Address(address) => link.address.clone_from(address),
                _ => {}
            }
        }
        link
    }
}

impl Net {
    /// All links of this network namespace.
    pub async fn links(&self) -> Result<Vec<Link>, Failure> {
        self.handle
            .link()
            .get()
            .execute()
            .map_ok(|message| Link::from_message(&message))
            .try_collect()
            .await
            .map_err(|e| refused("list the network interfaces", &e))
    }

    /// The link of that name; the error names those that exist.
    pub async fn link(&self, name: &str) -> Result<Link, Failure> {
        let links = self.links().await?;
        if let Some(link) = links.iter().find(|link| link.name == name) {
            let advertised = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/mtu"));
            let mtu6 = advertised.ok().and_then(|text| text.trim().parse().ok());
            return Ok(Link {
                mtu6: mtu6.map_or(link.mtu, |mtu6: u32| mtu6.min(link.mtu)),
                ..link.clone()
            });
        }
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        Err(Failure::run_time(format!(
            "there is no network interface `{name}` (there are: {})",
            names.join(", ")
        )))
    }

    /// Writes to a link what others can read (`ip link`).
    pub async fn set_alias(&self, index: u32, alias: &str) -> Result<(), Failure> {
        let alias = LinkAttribute::IfAlias(alias.to_owned());
        let message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(alias)
            .build();
        let done = self.handle.link().set(message).execute().await;
        done.map_err(|e| refused("mark the TUN device", &e))
    }

    /// Removes a link, with all that hangs on it.
    pub async fn remove_link(&self, index: u32) -> Result<(), Failure> {
        let done = self.handle.link().del(index).execute().await;
        done.map_err(|e| refused("remove the TUN device", &e))
    }

    /// Gives the TUN device its MTU, keeps the kernel from inventing an IPv6 address for it, and sets it up.
    ///
    /// No multicast crosses it. A router joins groups on its interfaces and reports them: here to the translator, and from
    /// the unspecified address. The kernel joined them when it made the device, if it is a router already, and leaves them
    /// when this setting changes; without the flag it does not join them again. Forwarding does not ask for the setting.
    pub async fn prepare_tun(&self, name: &str, index: u32, mtu: u32) -> Result<(), Failure> {
        // Where it is refused, the worst is two packets that are counted.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/forwarding"), "0");
        let quiet =
            LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
                In6AddrGenMode::None,
            )])]);
        let mut message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(quiet)
            .build();
        message.header.change_mask |= LinkFlags::Multicast;
        // Where it is refused (no IPv6, say) the worst is a link-local address that nobody uses.
        let _ = self.handle.link().set(message).execute().await;
        self.set_tun_mtu(index, mtu).await
    }

    /// Gives the TUN device its MTU, and has it up.
    pub async fn set_tun_mtu(&self, index: u32, mtu: u32) -> Result<(), Failure> {
        self.handle
            .link()
            .set(LinkUnspec::new_with_index(index).mtu(mtu).up().build())
            .execute()
            .await
            .map_err(|e| refused("set the TUN device up", &e))
    }
}
