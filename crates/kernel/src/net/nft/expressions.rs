// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The expressions of rules: what a packet has goes into register 1 and is compared there (linux/netfilter/nf_tables.h).

use super::message::{attribute, nest, number, text};

const NFT_REG_VERDICT: u32 = 0;
const NFT_REG_1: u32 = 1;
const NFT_REG_2: u32 = 2;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_NAT_SNAT: u32 = 0;
const NFT_NAT_DNAT: u32 = 1;
const NFPROTO_IPV4: u32 = 2;
const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
const NFTA_FIB_F_SADDR: u32 = 1;
/// linux/rtnetlink.h
const RTN_LOCAL: u32 = 2;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_DIRECTION: u32 = 1;
const NFT_CT_SRC_IP: u32 = 19;
const NFT_CT_DST_IP: u32 = 20;
/// `NF_CT_STATE_INVALID_BIT`
const INVALID: u32 = 1;
/// Bytes of the name of an interface in a register, padded with zeros.
const NAME: usize = 16;

/// Equal, or not (`enum nft_cmp_ops`).
#[derive(Clone, Copy)]
pub enum Is {
    Equal = 0,
    Different = 1,
    AtMost = 3,
    AtLeast = 5,
}

/// What a packet's interface is (`enum nft_meta_keys`).
#[derive(Clone, Copy)]
pub enum Meta {
    OutIndex = 5,
    InName = 6,
    OutName = 7,
    Protocol = 16,
}

/// A direction of a connection (`enum ip_conntrack_dir`).
#[derive(Clone, Copy)]
pub enum Direction {
    Original = 0,
    Reply = 1,
}

/// Compares `len` bytes of the network header.
pub fn network(list: &mut Vec<u8>, offset: u32, is: Is, value: &[u8]) {
    load(
        list,
        NFT_REG_1,
        NFT_PAYLOAD_NETWORK_HEADER,
        offset,
        value.len() as u32,
    );
    compare(list, is, value);
}

/// The two bytes at an offset of the transport header are in a range.
pub fn transport_range(list: &mut Vec<u8>, offset: u32, first: u16, last: u16) {
    load(list, NFT_REG_1, NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2);
    compare(list, Is::AtLeast, &first.to_be_bytes());
    compare(list, Is::AtMost, &last.to_be_bytes());
}

/// Compares the packet's interface, by its index, or its protocol.
pub fn meta(list: &mut Vec<u8>, key: Meta, is: Is, value: &[u8]) {
    expression(list, "meta", |data| {
        number(data, 1, NFT_REG_1); // NFTA_META_DREG
        number(data, 2, key as u32); // NFTA_META_KEY
    });
    compare(list, is, value);
}

/// Compares the name of the packet's interface.
pub fn named(list: &mut Vec<u8>, key: Meta, is: Is, name: &str) {
    let mut value = name.as_bytes().to_vec();
    value.resize(NAME, 0);
    meta(list, key, is, &value);
}

/// A socket of this host is there for the packet: an open connection, or one that listens.
pub fn has_socket(list: &mut Vec<u8>) {
    expression(list, "socket", |data| {
        number(data, 1, 0); // NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT: there without a socket to ask
        number(data, 2, NFT_REG_1); // NFTA_SOCKET_DREG
    });
}

/// The source of the packet is no address of this host.
pub fn has_foreign_source(list: &mut Vec<u8>) {
    expression(list, "fib", |data| {
        number(data, 1, NFT_REG_1); // NFTA_FIB_DREG
        number(data, 2, NFT_FIB_RESULT_ADDRTYPE); // NFTA_FIB_RESULT
        number(data, 3, NFTA_FIB_F_SADDR); // NFTA_FIB_FLAGS
    });
    compare(list, Is::Different, &RTN_LOCAL.to_ne_bytes());
}

/// The packet goes in this direction of its connection.
pub fn goes(list: &mut Vec<u8>, direction: Direction) {
    expression(list, "ct", |data| {
        number(data, 1, NFT_REG_1); // NFTA_CT_DREG
        number(data, 2, NFT_CT_DIRECTION); // NFTA_CT_KEY
    });
    compare(list, Is::Equal, &[direction as u8]);
}

/// The packets of the connection in this direction came from this IPv4 address.
pub fn came_from(list: &mut Vec<u8>, direction: Direction, address: [u8; 4]) {
    has_address(list, NFT_CT_SRC_IP, direction, address);
}

/// The packets of the connection in this direction went to this IPv4 address, before it was replaced.
pub fn went_to(list: &mut Vec<u8>, direction: Direction, address: [u8; 4]) {
    has_address(list, NFT_CT_DST_IP, direction, address);
}

fn has_address(list: &mut Vec<u8>, key: u32, direction: Direction, address: [u8; 4]) {
    expression(list, "ct", |data| {
        number(data, 1, NFT_REG_1); // NFTA_CT_DREG
        number(data, 2, key); // NFTA_CT_KEY
        attribute(data, 3, &[direction as u8]); // NFTA_CT_DIRECTION
    });
    compare(list, Is::Equal, &address);
}

/// Conntrack cannot assign the packet.
pub fn is_invalid(list: &mut Vec<u8>) {
    expression(list, "ct", |data| {
        number(data, 1, NFT_REG_1); // NFTA_CT_DREG
        number(data, 2, NFT_CT_STATE); // NFTA_CT_KEY
    });
    compare(list, Is::Equal, &INVALID.to_ne_bytes());
}

/// The packet leaves with the address of its interface.
pub fn masquerade(list: &mut Vec<u8>) {
    expression(list, "masq", |_| ());
}

/// The packet goes to this address.
pub fn redirect(list: &mut Vec<u8>, address: [u8; 4]) {
    immediate(list, NFT_REG_1, &address);
    nat(list, NFT_NAT_DNAT, false);
}

/// The packet comes from this address, with the port at that offset of its transport header, or not at all.
pub fn come_from(list: &mut Vec<u8>, address: [u8; 4], port: u32) {
    immediate(list, NFT_REG_1, &address);
    load(list, NFT_REG_2, NFT_PAYLOAD_TRANSPORT_HEADER, port, 2);
    nat(list, NFT_NAT_SNAT, true);
}

fn nat(list: &mut Vec<u8>, kind: u32, has_port: bool) {
    expression(list, "nat", |data| {
        number(data, 1, kind); // NFTA_NAT_TYPE
        number(data, 2, NFPROTO_IPV4); // NFTA_NAT_FAMILY
        number(data, 3, NFT_REG_1); // NFTA_NAT_REG_ADDR_MIN
        if has_port {
            number(data, 5, NFT_REG_2); // NFTA_NAT_REG_PROTO_MIN
        }
    });
}

/// Counts the packet, and drops it.
pub fn drops(list: &mut Vec<u8>) {
    expression(list, "counter", |_| ());
    verdict(list, NF_DROP);
}

/// The chain has no more rules for the packet.
pub fn accepts(list: &mut Vec<u8>) {
    verdict(list, NF_ACCEPT);
}

fn verdict(list: &mut Vec<u8>, code: u32) {
    expression(list, "immediate", |data| {
        number(data, 1, NFT_REG_VERDICT); // NFTA_IMMEDIATE_DREG
                                          // NFTA_IMMEDIATE_DATA, NFTA_DATA_VERDICT, NFTA_VERDICT_CODE
        nest(data, 2, |data| {
            nest(data, 2, |verdict| number(verdict, 1, code))
        });
    });
}

fn immediate(list: &mut Vec<u8>, register: u32, value: &[u8]) {
    expression(list, "immediate", |data| {
        number(data, 1, register); // NFTA_IMMEDIATE_DREG
        nest(data, 2, |data| attribute(data, 1, value)); // NFTA_IMMEDIATE_DATA, NFTA_DATA_VALUE
    });
}

fn load(list: &mut Vec<u8>, register: u32, base: u32, offset: u32, len: u32) {
    expression(list, "payload", |data| {
        number(data, 1, register); // NFTA_PAYLOAD_DREG
        number(data, 2, base); // NFTA_PAYLOAD_BASE
        number(data, 3, offset); // NFTA_PAYLOAD_OFFSET
        number(data, 4, len); // NFTA_PAYLOAD_LEN
    });
}

fn compare(list: &mut Vec<u8>, is: Is, value: &[u8]) {
    expression(list, "cmp", |data| {
        number(data, 1, NFT_REG_1); // NFTA_CMP_SREG
        number(data, 2, is as u32); // NFTA_CMP_OP
        nest(data, 3, |data| attribute(data, 1, value)); // NFTA_CMP_DATA, NFTA_DATA_VALUE
    });
}

fn expression(list: &mut Vec<u8>, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
    // NFTA_LIST_ELEM
    nest(list, 1, |element| {
        text(element, 1, name); // NFTA_EXPR_NAME
        nest(element, 2, data); // NFTA_EXPR_DATA
    });
}
