// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a driver cannot translate at an interface: what XDP would not see, or must not bypass.

use crate::vrf::vrf;
use diolkos_kernel::net::{Link, LinkKind, Medium};

/// Where XDP finds the VLAN tags of a card's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tags {
    /// In the frame.
    Inside,
    /// Nowhere: the sender may pass them beside the frame, whatever features this end has.
    Beside,
    /// Nowhere, but frames of VLANs that this host is not in do not arrive.
    TakenOfKnown,
    /// Nowhere.
    Taken,
    /// Inside, but for the outer one of IEEE 802.1ad, which is nowhere.
    OuterTaken,
}

/// Returns the interface whose driver receives and sends the frames of a link: the link itself, or what a VLAN is on.
pub fn card_of<'a>(link: &'a Link, all: &'a [Link]) -> Result<&'a Link, String> {
    if link.kind != LinkKind::Vlan {
        return Ok(link);
    }
    let card = all.iter().find(|card| Some(card.index) == link.lower);
    match card {
        None => Err("it is a VLAN on an interface of another network namespace".to_owned()),
        Some(card) if link.vlan.is_none() || card.kind == LinkKind::Vlan => Err(format!(
            "XDP knows VLANs with one tag of IEEE 802.1Q, and this one on \"{}\" has another, or two",
            card.name
        )),
        Some(card) => Ok(card),
    }
}

/// Describes what the program could not see, or must not bypass. `card`: see [`card_of`].
pub fn obstacle(link: &Link, card: &Link, all: &[Link], tags: Tags) -> Option<String> {
    let is_on_it = |other: &&Link| other.kind == LinkKind::Vlan && other.lower == Some(card.index);
    let vlan = all.iter().find(is_on_it);
    let it = match link.index == card.index {
        true => "it".to_owned(),
        false => format!("its card \"{}\"", card.name),
    };
    match (link.medium, vrf(link, all), vlan) {
        (Medium::BareIp | Medium::Other, _, _) => {
            Some("it is not an Ethernet interface".to_owned())
        }
        (_, Some(vrf), _) => Some(format!(
            "it belongs to the VRF \"{}\", and XDP was not tried in one",
            vrf.name
        )),
        _ if card.kind == LinkKind::Bond => Some(format!(
            "{it} is a bond, and drivers hand over its frames as those of its members, so that XDP would translate none"
        )),
        _ if tags == Tags::OuterTaken => Some(format!(
            "{it} hides tags of IEEE 802.1ad from XDP, so a frame of another network looks like one of this: `ethtool -K {} \
             rx-vlan-stag-hw-parse off`",
            card.name
        )),
        (_, _, Some(vlan)) if tags == Tags::Beside => Some(format!(
            "a virtual Ethernet may hide VLAN tags from XDP, and \"{}\" is a VLAN on it",
            vlan.name
        )),
        (_, _, Some(vlan)) if tags != Tags::Inside => Some(format!(
            "{it} hides VLAN tags from XDP, and \"{}\" is a VLAN on it: `ethtool -K {} rxvlan off`",
            vlan.name, card.name
        )),
        _ if tags == Tags::Taken => Some(format!(
            "{it} hides VLAN tags from XDP, and takes frames of any VLAN: `ethtool -K {} rxvlan off`",
            card.name
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: LinkKind) -> Link {
        Link {
            index,
            name: name.to_owned(),
            alias: String::new(),
            mtu: 1500,
            mtu6: 1500,
            address: vec![2, 0, 0, 0, 0, 1],
            medium: Medium::Ethernet,
            kind,
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

    fn vlan(index: u32, number: u16, on: u32) -> Link {
        Link {
            lower: Some(on),
            vlan: Some(number),
            ..link(index, "eth0.5", LinkKind::Vlan)
        }
    }

    #[test]
    fn a_vlan_is_received_by_its_card() {
        let eth0 = link(2, "eth0", LinkKind::Other);
        let eth0_5 = vlan(3, 5, 2);
        let all = [eth0.clone(), eth0_5.clone()];
        assert_eq!(card_of(&eth0, &all), Ok(&eth0));
        assert_eq!(card_of(&eth0_5, &all), Ok(&eth0));
        assert_eq!(obstacle(&eth0_5, &eth0, &all, Tags::Inside), None);
        let why = obstacle(&eth0_5, &eth0, &all, Tags::TakenOfKnown).expect("it is refused");
        assert!(
            why.starts_with("its card \"eth0\" hides VLAN tags from XDP"),
            "{why}"
        );
        assert!(why.ends_with("`ethtool -K eth0 rxvlan off`"), "{why}");
    }

    #[test]
    fn two_tags_and_those_of_providers_are_none_that_xdp_knows() {
        let (eth0, eth0_5) = (link(2, "eth0", LinkKind::Other), vlan(3, 5, 2));
        let within = vlan(4, 6, 3);
        let of_provider = Link {
            vlan: None,
            ..vlan(5, 7, 2)
        };
        let all = [eth0, eth0_5, within.clone(), of_provider.clone()];
        for link in [&within, &of_provider] {
            let why = card_of(link, &all).expect_err("it is refused");
            assert!(why.contains("one tag of IEEE 802.1Q"), "{why}");
        }
        let elsewhere = Link {
            lower: None,
            ..vlan(6, 8, 0)
        };
        assert!(card_of(&elsewhere, &all).is_err_and(|why| why.contains("another network")));
    }

    #[test]
    fn a_bond_is_an_obstacle_to_itself_and_to_vlans_on_it() {
        let bond = link(2, "bond0", LinkKind::Bond);
        let on_it = vlan(3, 5, 2);
        let all = [bond.clone(), on_it.clone()];
        let why = obstacle(&bond, &bond, &all[..1], Tags::Inside).expect("it is refused");
        assert!(why.starts_with("it is a bond, and drivers"), "{why}");
        let why = obstacle(&on_it, &bond, &all, Tags::Inside).expect("it is refused");
        assert!(
            why.starts_with("its card \"bond0\" is a bond, and"),
            "{why}"
        );
    }

    #[test]
    fn tags_that_the_card_takes_away_are_an_obstacle_if_there_are_vlans() {
        let eth0 = link(2, "eth0", LinkKind::Other);
        let mut vlan = link(3, "eth0.5", LinkKind::Vlan);
        vlan.lower = Some(9);
        let of = |vlan: &Link, tags| obstacle(&eth0, &eth0, &[eth0.clone(), vlan.clone()], tags);
        for hidden in [Tags::Beside, Tags::TakenOfKnown] {
            assert_eq!(of(&vlan, hidden), None, "it lies on another one");
        }
        vlan.lower = Some(2);
        assert_eq!(of(&vlan, Tags::Inside), None, "the program sees the tag");
        for hidden in [Tags::Beside, Tags::TakenOfKnown, Tags::Taken] {
            let why = of(&vlan, hidden).expect("it is refused");
            assert!(why.contains("\"eth0.5\""), "{why}");
            let off = why.ends_with("`ethtool -K eth0 rxvlan off`");
            assert_eq!(off, hidden != Tags::Beside, "{why}");
        }
    }

    /// The kernel drops frames of VLANs that the host is not in, by their tags.
    #[test]
    fn tags_that_the_card_takes_away_are_an_obstacle_if_it_takes_all_vlans() {
        let eth0 = link(2, "eth0", LinkKind::Other);
        let of = |tags| obstacle(&eth0, &eth0, std::slice::from_ref(&eth0), tags);
        assert_eq!(of(Tags::TakenOfKnown), None);
        let why = of(Tags::OuterTaken).expect("it is refused");
        let off = "`ethtool -K eth0 rx-vlan-stag-hw-parse off`";
        assert!(why.ends_with(off), "{why}");
        let why = of(Tags::Taken).expect("it is refused");
        assert!(
            why.ends_with("any VLAN: `ethtool -K eth0 rxvlan off`"),
            "{why}"
        );
    }

    #[test]
    fn vrfs_and_bare_ip_are_obstacles_and_bridges_are_none() {
        let (vrf, bridge) = (
            link(7, "red", LinkKind::Vrf),
            link(8, "br0", LinkKind::Other),
        );
        let mut eth0 = link(2, "eth0", LinkKind::Other);
        let all = [eth0.clone(), vrf, bridge];
        eth0.master = Some(8);
        assert_eq!(obstacle(&eth0, &eth0, &all, Tags::TakenOfKnown), None);
        eth0.master = Some(7);
        let why = obstacle(&eth0, &eth0, &all, Tags::Inside).expect("it is refused");
        assert!(why.contains("VRF \"red\""), "{why}");
        eth0.medium = Medium::BareIp;
        assert!(obstacle(&eth0, &eth0, &[], Tags::Inside).is_some());
    }
}
