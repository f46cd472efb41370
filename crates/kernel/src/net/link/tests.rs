// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a link is, from messages as the kernel sends them.

use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage, VlanProtocol,
};

use super::*;

fn link(attributes: Vec<LinkAttribute>) -> Link {
    let mut message = LinkMessage::default();
    message.header.index = 7;
    message.attributes = attributes;
    Link::from_message(&message)
}

fn vlan(number: u16, protocol: VlanProtocol) -> LinkAttribute {
    let data = vec![InfoVlan::Protocol(protocol), InfoVlan::Id(number)];
    LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Vlan),
        LinkInfo::Data(InfoData::Vlan(data)),
    ])
}

#[test]
fn a_vlan_has_a_number_and_a_card() {
    let found = link(vec![
        LinkAttribute::Link(2),
        vlan(101, VlanProtocol::Ieee8021Q),
    ]);
    assert_eq!(
        (found.kind, found.vlan, found.lower),
        (LinkKind::Vlan, Some(101), Some(2))
    );
}

/// Its tag is another one, and may have a tag within.
#[test]
fn a_vlan_of_a_provider_is_none_of_802_1q() {
    let found = link(vec![
        LinkAttribute::Link(2),
        vlan(101, VlanProtocol::Ieee8021Ad),
    ]);
    assert_eq!((found.kind, found.vlan), (LinkKind::Vlan, None));
}

/// Another interface may have the same index here.
#[test]
fn the_index_of_a_card_of_another_network_namespace_says_nothing() {
    let found = link(vec![
        LinkAttribute::Link(2),
        LinkAttribute::LinkNetNsId(0),
        vlan(101, VlanProtocol::Ieee8021Q),
    ]);
    assert_eq!((found.vlan, found.lower), (Some(101), None));
}

#[test]
fn a_bond_is_a_kind_of_its_own() {
    let kind = |kind| link(vec![LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)])]).kind;
    assert_eq!(kind(InfoKind::Bond), LinkKind::Bond);
    assert_eq!(kind(InfoKind::Bridge), LinkKind::Other);
}
