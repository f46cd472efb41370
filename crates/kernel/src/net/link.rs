// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: finds the uplink and prepares the TUN device.

use std::fs;

use futures_util::TryStreamExt;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVlan, LinkAttribute,
    LinkFlags, LinkInfo, LinkLayerType, LinkMessage, VlanProtocol,
};
use rtnetlink::LinkUnspec;

use super::outer::{self, Outer};
use super::{in_time, Net};
use crate::error::KernelError;

/// The link-layer header in front of an IP packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Ethernet headers, and neighbours to be discovered.
    Ethernet,
    /// No header: point-to-point links, modems, tunnels.
    BareIp,
    /// A header that the fast path does not know.
    Other,
}

/// The kind of a virtual interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkKind {
    /// A VLAN on a lower link.
    Vlan,
    /// Several interfaces as one. Frames that they receive are received by them first.
    Bond,
    /// A routing domain (VRF) for other interfaces.
    Vrf,
    /// An interface of the same medium on a lower link, such as a macvlan.
    Upon,
    /// WireGuard, or the device of a program: the kernel does not tell where it sends its own packets.
    Opaque,
    /// Any other kind, or no virtual interface.
    #[default]
    Other,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its alias: a text that programs write for others to read.
    pub alias: String,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Its MTU for IPv6, bytes; a router advertisement may lower it (RFC 4861 section 4.6.4).
    pub mtu6: u32,
    /// Its link-layer address; empty if it has none.
    pub address: Vec<u8>,
    /// The header in front of an IP packet on it.
    pub medium: Medium,
    /// Its kind, if it is a virtual interface.
    pub kind: LinkKind,
    /// It is made by software, not by a hardware driver.
    pub is_virtual: bool,
    /// The outer header, if it is a tunnel over IPv4.
    pub outer: Option<Outer>,
    /// Index of the interface that it is a port of.
    pub master: Option<u32>,
    /// Index of the lower link that carries it, if that is in the same network namespace.
    pub lower: Option<u32>,
    /// Its number, if it is a VLAN of IEEE 802.1Q (not of 802.1ad).
    pub vlan: Option<u16>,
    /// The queueing discipline at its root; empty if the kernel does not say.
    pub qdisc: String,
    /// Its nodes do not resolve addresses (no ARP and no Neighbour Discovery).
    pub no_arp: bool,
    /// The operator has set it up.
    pub is_up: bool,
    /// It is up and has a carrier.
    pub running: bool,
}

impl Link {
    /// An Ethernet interface that is up, with defaults for everything else, as a starting point for tests.
    pub fn ethernet(index: u32, mtu: u32) -> Link {
        Link {
            index,
            name: "eth0".to_owned(),
            alias: String::new(),
            mtu,
            mtu6: mtu,
            address: vec![0; 6],
            medium: Medium::Ethernet,
            kind: LinkKind::default(),
            is_virtual: false,
            outer: None,
            master: None,
            lower: None,
            vlan: None,
            qdisc: "mq".to_owned(),
            no_arp: false,
            is_up: true,
            running: true,
        }
    }
}

impl Link {
    /// The network may still give it an address, or the kernel still tests one (duplicate address detection, RFC 4862 section
    /// 5.4). The loopback interface gets none.
    pub fn may_get_addresses(&self) -> bool {
        self.medium != Medium::Other
    }

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
            kind: LinkKind::default(),
            is_virtual: false,
            outer: None,
            master: None,
            lower: None,
            vlan: None,
            qdisc: String::new(),
            no_arp: message.header.flags.contains(LinkFlags::Noarp),
            is_up: message.header.flags.contains(LinkFlags::Up),
            running: message.header.flags.contains(LinkFlags::Running),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::IfAlias(alias) => link.alias.clone_from(alias),
                LinkAttribute::Mtu(mtu) => (link.mtu, link.mtu6) = (*mtu, *mtu),
                LinkAttribute::Address(address) => link.address.clone_from(address),
                LinkAttribute::Controller(master) => link.master = Some(*master),
                LinkAttribute::Qdisc(qdisc) => link.qdisc.clone_from(qdisc),
                LinkAttribute::Link(lower) => link.lower = Some(*lower),
                LinkAttribute::LinkInfo(infos) => {
                    link.is_virtual = infos.iter().any(|info| matches!(info, LinkInfo::Kind(_)));
                    link.outer = Outer::of(infos);
                    link.vlan = vlan(infos);
                    link.kind = infos.iter().fold(link.kind, |kind, info| match info {
                        LinkInfo::Kind(InfoKind::Vlan) => LinkKind::Vlan,
                        LinkInfo::Kind(InfoKind::Bond) => LinkKind::Bond,
                        LinkInfo::Kind(InfoKind::Vrf) => LinkKind::Vrf,
                        LinkInfo::Kind(InfoKind::Wireguard | InfoKind::Tun) => LinkKind::Opaque,
                        LinkInfo::Kind(kind) if outer::is_upon(kind) => LinkKind::Upon,
                        _ => kind,
                    });
                }
                _ => {}
            }
        }
        // An index of another network namespace says nothing here.
        let is_elsewhere =
            |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkNetNsId(_));
        if message.attributes.iter().any(is_elsewhere) {
            link.lower = None;
        }
        link
    }

    /// The link with the MTU that router advertisements set.
    pub(super) fn with_advertised_mtu(mut self) -> Link {
        let name = &self.name;
        let advertised = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/mtu"));
        let mtu6 = advertised.ok().and_then(|text| text.trim().parse().ok());
        self.mtu6 = mtu6.map_or(self.mtu, |mtu6: u32| mtu6.min(self.mtu));
        self
    }
}

/// The number of a VLAN of IEEE 802.1Q.
fn vlan(infos: &[LinkInfo]) -> Option<u16> {
    let data = infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(data)) => Some(data),
        _ => None,
    })?;
    let is_plain = data.contains(&InfoVlan::Protocol(VlanProtocol::Ieee8021Q));
    let number = data.iter().find_map(|info| match info {
        InfoVlan::Id(number) => Some(*number),
        _ => None,
    });
    number.filter(|_| is_plain)
}

/// `IN6_ADDR_GEN_MODE_NONE` of linux/if_link.h.
const ADDR_GEN_NONE: &str = "1";
/// Queue length of the TUN device, packets. The kernel's default of 500 lasts 5 ms at 100 000 new connections a second, and a
/// reader may wait longer for a CPU that other programs use.
const TUN_QUEUE: u32 = 2000;

fn setting6(name: &str, key: &str) -> String {
    format!("/proc/sys/net/ipv6/conf/{name}/{key}")
}

/// Returns true if IPv6 is disabled on this interface.
pub(super) fn is_disabled6(name: &str) -> bool {
    fs::read_to_string(setting6(name, "disable_ipv6")).is_ok_and(|value| value.trim() != "0")
}

impl Net {
    /// All links of this network namespace.
    pub async fn links(&self) -> Result<Vec<Link>, KernelError> {
        let ask = |handle: &rtnetlink::Handle| {
            let all = handle.link().get().execute();
            all.map_ok(|message| Link::from_message(&message))
        };
        self.list("list the network interfaces", ask).await
    }

    /// The name of an interface; `None` if it is gone, with all addresses that it was seen to have.
    pub async fn name_of(&self, index: u32) -> Result<Option<String>, KernelError> {
        Ok(self.link_at(index).await?.map(|link| link.name))
    }

    /// The link with that name. The error lists the names that exist.
    pub async fn link(&self, name: &str) -> Result<Link, KernelError> {
        let links = self.links().await?;
        if let Some(link) = links.iter().find(|link| link.name == name) {
            return Ok(link.clone().with_advertised_mtu());
        }
        Err(KernelError::NoLink {
            name: name.to_owned(),
            there: links.into_iter().map(|link| link.name).collect(),
        })
    }

    /// The link with that index, if it exists.
    pub async fn link_at(&self, index: u32) -> Result<Option<Link>, KernelError> {
        let links = self.links().await?;
        let found = links.into_iter().find(|link| link.index == index);
        Ok(found.map(Link::with_advertised_mtu))
    }

    /// Sets the alias of a link, which others can read (`ip link`).
    pub async fn set_alias(&self, index: u32, alias: &str) -> Result<(), KernelError> {
        let alias = LinkAttribute::IfAlias(alias.to_owned());
        let message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(alias)
            .build();
        in_time(self.handle.link().set(message).execute())
            .await
            .map_err(|refusal| refusal.change("mark the TUN device"))
    }

    /// Removes a link and everything that depends on it.
    pub async fn remove_link(&self, index: u32) -> Result<(), KernelError> {
        in_time(self.handle.link().del(index).execute())
            .await
            .map_err(|refusal| refusal.change("remove the TUN device"))
    }

    /// Sets the MTU of the TUN device, keeps the kernel from generating an IPv6 address for it, and sets it up.
    ///
    /// Multicast does not cross the device. A router joins multicast groups on its interfaces and reports them: here to the
    /// translator, and from the unspecified address. If the host is a router already, the kernel joined these groups when it
    /// made the device; it leaves them when this setting changes, and without the flag it does not join them again. The
    /// forwarding of packets does not depend on the setting.
    pub async fn prepare_tun(&self, name: &str, index: u32, mtu: u32) -> Result<(), KernelError> {
        self.quieten(name, index).await;
        self.lengthen(index).await;
        self.set_tun_mtu(index, mtu).await
    }

    /// Lengthens each queue of the TUN device, for packets that arrive while its reader waits for a CPU.
    async fn lengthen(&self, index: u32) {
        let message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::TxQueueLen(TUN_QUEUE))
            .build();
        // On an error, the kernel's default length stays.
        let _ = in_time(self.handle.link().set(message).execute()).await;
    }

    /// Sets the options of the TUN device that are neither its MTU nor its state.
    async fn quieten(&self, name: &str, index: u32) {
        // An error is harmless: at most two packets more are counted.
        let _ = fs::write(setting6(name, "forwarding"), "0");
        let quiet =
            LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
                In6AddrGenMode::None,
            )])]);
        let mut message = LinkUnspec::new_with_index(index)
            .append_extra_attribute(quiet)
            .build();
        message.header.change_mask |= LinkFlags::Multicast;
        // An error (for example without IPv6) is harmless: at most there is an unused link-local address.
        let _ = in_time(self.handle.link().set(message).execute()).await;
    }

    /// Restores the IPv6 settings of the TUN device if the kernel has forgotten them, and returns true if it had. The kernel
    /// forgets all of them when the MTU falls below the IPv6 minimum. `addr_gen_mode` reveals that, since no other program has
    /// a reason to change it.
    pub(super) async fn remind(&self, link: &Link) -> bool {
        let is_other = || {
            let mode = fs::read_to_string(setting6(&link.name, "addr_gen_mode"));
            mode.is_ok_and(|mode| mode.trim() != ADDR_GEN_NONE)
        };
        if !is_other() {
            return false;
        }
        self.quieten(&link.name, link.index).await;
        // If the write was refused now, the setting was never different.
        if is_other() {
            return false;
        }
        // With the new settings the kernel made a link-local address. Disabling IPv6 removes it together with the device's
        // other IPv6 state.
        if !is_disabled6(&link.name) {
            let disable = setting6(&link.name, "disable_ipv6");
            let _ = fs::write(&disable, "1");
            let _ = fs::write(&disable, "0");
        }
        // A device that is kept has no carrier until the next start.
        let _ = fs::write(setting6(&link.name, "ignore_routes_with_linkdown"), "0");
        true
    }

    /// Sets the MTU of the TUN device. Its state (up or down) is the operator's choice.
    pub async fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), KernelError> {
        let message = LinkUnspec::new_with_index(index).mtu(mtu).build();
        in_time(self.handle.link().set(message).execute())
            .await
            .map_err(|refusal| {
                refusal.change(format_args!("set the TUN device's MTU to {mtu} bytes"))
            })
    }

    /// Sets the MTU of the TUN device and sets it up.
    pub async fn set_tun_mtu(&self, index: u32, mtu: u32) -> Result<(), KernelError> {
        let message = LinkUnspec::new_with_index(index).mtu(mtu).up().build();
        in_time(self.handle.link().set(message).execute())
            .await
            .map_err(|refusal| refusal.change("set the TUN device up"))
    }
}

#[cfg(test)]
mod tests;
