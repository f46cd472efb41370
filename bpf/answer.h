/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * answer.h - answers for addresses that the translator serves and the host does not have.
 *
 *   answer_arp         a request (RFC 826) or a probe (RFC 5227) is answered by a reply
 *   answer_neighbour   a solicitation is answered by an advertisement (RFC 4861 section 7.2.4)
 *
 * One packet answers one packet, by the interface on which it came, and is not longer: apart from the advertisement that
 * answers a solicitation without options from the unspecified address, for which RFC 4861 demands an option of 8 bytes.
 * Whatever is not answered goes on unchanged.
 */
#ifndef DIOLKOS_ANSWER_H
#define DIOLKOS_ANSWER_H

#include "addr.h"
#include "csum.h"
#include "icmp.h"
#include "served.h"
#include "tc/vlan.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#define ANSWER_TTL 64
#define ND_HOP_LIMIT 255
#define ND_SOURCE_ADDRESS 1
#define ND_TARGET_ADDRESS 2
#define ND_SOLICITED 0x40
#define ND_OVERRIDE 0x20
#define ND_UNIT 8    /* options are counted in these bytes */
#define ND_OPTIONS 3 /* units that are looked at; of more, nothing is answered */

/* Of Ethernet and IPv4 (RFC 826). */
struct arp {
	__be16 hardware_be;
	__be16 protocol_be;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation_be;
	__u8 sender_mac[ETH_ALEN];
	__u8 sender[4];
	__u8 target_mac[ETH_ALEN];
	__u8 target[4];
};

#define ARP_LEN 28
_Static_assert(sizeof(struct arp) == ARP_LEN, "as on the wire");
#define ARP_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

/* Solicitation and advertisement (RFC 4861 sections 4.3 and 4.4). */
struct nd {
	__u8 type;
	__u8 code;
	__be16 checksum_be;
	__u8 flags;
	__u8 reserved[3];
	struct in6_addr target;
	__u8 options[ND_OPTIONS * ND_UNIT];
};

#define ND_LEN 24
_Static_assert(sizeof(struct nd) == ND_LEN + ND_OPTIONS * ND_UNIT, "as on the wire");

static __always_inline int mac_is(const __u8 *a, const __u8 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]) | (a[5] ^ b[5]));
}

/* Nobody has an address of zeros, and a group is not one that asks. */
static __always_inline int mac_is_of_one(const __u8 *mac)
{
	return !(mac[0] & 1) && (mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

static __always_inline int mac_is_broadcast(const __u8 *mac)
{
	return (mac[0] & mac[1] & mac[2] & mac[3] & mac[4] & mac[5]) == 0xff;
}

/* An address of a host: not of "this" network, not a loopback, not a group, not reserved (RFC 1122 section 3.2.1.3). */
static __always_inline int is_of_host4(__be32 addr_be)
{
	__u8 first = bpf_ntohl(addr_be) >> 24;

	return first != 0 && first != 127 && first < 224;
}

static __always_inline int is_unspecified6(const struct in6_addr *a)
{
	return !(a->s6_addr32[0] | a->s6_addr32[1] | a->s6_addr32[2] | a->s6_addr32[3]);
}

/* Not unspecified, not the loopback, not mapped, not a group. */
static __always_inline int is_of_host6(const struct in6_addr *a)
{
	if (a->s6_addr[0] == 0xff)
		return 0;
	if (a->s6_addr32[0] | a->s6_addr32[1])
		return 1;
	return a->s6_addr32[2] != bpf_htonl(0xffff) && (a->s6_addr32[2] | (a->s6_addr32[3] & ~bpf_htonl(1)));
}

/* The group in which a node listens for solicitations of its address (RFC 4291 section 2.7.1). */
static __always_inline int is_solicited_node(const struct in6_addr *group, const struct in6_addr *target)
{
	return group->s6_addr32[0] == bpf_htonl(0xff020000) && !group->s6_addr32[1] &&
	       group->s6_addr32[2] == bpf_htonl(1) &&
	       group->s6_addr32[3] == (target->s6_addr32[3] | bpf_htonl(0xff000000));
}

/*
 * What is needed to answer, in the order in which the rest follows: without tag and of the right length. 0, or the fate
 * of the packet.
 */
static __always_inline int answer_room(struct __sk_buff *skb, __u32 len)
{
	/* A tag with VLAN 0 is a priority; the kernel answers without. */
	if (drop_priority_tag(skb))
		return DIOLKOS_ANSWER_DECLINE_NO_ROOM;
	if (skb->len != len && bpf_skb_change_tail(skb, len, 0))
		return DIOLKOS_ANSWER_DECLINE_NO_ROOM;
	return 0;
}

static __always_inline int answer_arp(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct ethhdr eth;
	struct arp arp;
	__be32 sender_be, target_be;
	int fate;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &arp, sizeof(arp)))
		return DIOLKOS_NOT_ASKED;
	if (arp.hardware_be != bpf_htons(ARP_ETHERNET) || arp.protocol_be != bpf_htons(ETH_P_IP) ||
	    arp.hardware_len != ETH_ALEN || arp.protocol_len != sizeof(arp.target) ||
	    arp.operation_be != bpf_htons(ARP_REQUEST))
		return DIOLKOS_NOT_ASKED;
	__builtin_memcpy(&sender_be, arp.sender, sizeof(sender_be));
	__builtin_memcpy(&target_be, arp.target, sizeof(target_be));
	if (!serves4(skb, target_be))
		return DIOLKOS_NOT_ASKED;
	if (mac_is(eth.h_source, us->mac) || mac_is(arp.sender_mac, us->mac))
		return DIOLKOS_ANSWER_DECLINE_OWN;
	if (!mac_is_broadcast(eth.h_dest) && !mac_is(eth.h_dest, us->mac))
		return DIOLKOS_ANSWER_DECLINE_DESTINATION;
	if (!mac_is_of_one(arp.sender_mac))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	/* 0 is the sender of a probe (RFC 5227 section 2.1.1). */
	if (sender_be && !is_of_host4(sender_be))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	/* A claim to one of our addresses, as every announcement is (RFC 5227 section 2.3), is not a question. */
	if (sender_be && serves4(skb, sender_be))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;

	fate = answer_room(skb, ETH_HLEN + ARP_LEN);
	if (fate)
		return fate;
	__builtin_memcpy(eth.h_dest, arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(eth.h_source, us->mac, ETH_ALEN);
	arp.operation_be = bpf_htons(ARP_REPLY);
	__builtin_memcpy(arp.target_mac, arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(arp.target, &sender_be, sizeof(sender_be));
	__builtin_memcpy(arp.sender_mac, us->mac, ETH_ALEN);
	__builtin_memcpy(arp.sender, &target_be, sizeof(target_be));
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &arp, sizeof(arp), 0))
		return DIOLKOS_ANSWER_FAILED;
	return DIOLKOS_ANSWER_ARP;
}

static __always_inline __u64 nd_sum(const struct ipv6hdr *ip, const struct nd *nd, __u32 len)
{
	const __u32 *word = (const __u32 *)nd;
	__u64 sum = csum_in6(&ip->saddr) + csum_in6(&ip->daddr) + bpf_htonl(len) + bpf_htonl(IPPROTO_ICMPV6);

#pragma unroll
	for (int i = 0; i < (int)(sizeof(*nd) / sizeof(*word)); i++)
		sum += word[i];
	return sum;
}

/* Reads the message with so many units of options; what is behind it stays zero. 0, or -1. */
static __always_inline int nd_read(struct __sk_buff *skb, __u32 off, struct nd *nd, __u32 units)
{
	/* Lengths are constants: old verifiers do not follow others. */
	if (units == 0)
		return bpf_skb_load_bytes(skb, off, nd, ND_LEN) ? -1 : 0;
	if (units == 1)
		return bpf_skb_load_bytes(skb, off, nd, ND_LEN + ND_UNIT) ? -1 : 0;
	if (units == 2)
		return bpf_skb_load_bytes(skb, off, nd, ND_LEN + 2 * ND_UNIT) ? -1 : 0;
	return bpf_skb_load_bytes(skb, off, nd, ND_LEN + 3 * ND_UNIT) ? -1 : 0;
}

/*
 * Where the option is that says the link-layer address of who asks: its unit, or -1; -2 if the options are malformed.
 * Others are ignored (RFC 4861 section 7.1.1). Of several of the kind, the first counts.
 */
static __always_inline int nd_source_address(const struct nd *nd, __u32 units)
{
	__u32 next = 0;
	int found = -1;

#pragma unroll
	for (__u32 at = 0; at < ND_OPTIONS; at++) {
		const __u8 *option = nd->options + at * ND_UNIT;

		if (at != next || at >= units)
			continue;
		if (!option[1] || option[1] > units - at)
			return -2;
		next = at + option[1];
		if (option[0] == ND_SOURCE_ADDRESS && found < 0) {
			/* Of Ethernet it is one unit long (RFC 2464 section 6). */
			if (option[1] != 1)
				return -2;
			found = at;
		}
	}
	return found;
}

static __always_inline int answer_neighbour(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct in6_addr source, target;
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct nd nd = {};
	__u32 len, units;
	int fate, source_at, is_probe, is_to_group, names_us;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    nd_read(skb, ETH_HLEN + sizeof(ip), &nd, 0))
		return DIOLKOS_NOT_ASKED;
	target = nd.target;
	source = ip.saddr;
	if (!serves6(skb, &target))
		return DIOLKOS_NOT_ASKED;
	if (mac_is(eth.h_source, us->mac))
		return DIOLKOS_ANSWER_DECLINE_OWN;
	len = bpf_ntohs(ip.payload_len);
	if (ip.version != 6 || nd.code || len < ND_LEN || len > sizeof(nd) || len % ND_UNIT ||
	    ETH_HLEN + sizeof(ip) + len > skb->len)
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (ip.hop_limit != ND_HOP_LIMIT)
		return DIOLKOS_ANSWER_DECLINE_HOP_LIMIT;
	units = (len - ND_LEN) / ND_UNIT;
	if (nd_read(skb, ETH_HLEN + sizeof(ip), &nd, units))
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (csum_fold16(nd_sum(&ip, &nd, len)) != 0xffff)
		return DIOLKOS_ANSWER_DECLINE_CHECKSUM;

	/* Both addresses have to say the same: the group, or the one node. */
	is_to_group = is_solicited_node(&ip.daddr, &target);
	if (is_to_group) {
		__u8 group[ETH_ALEN] = { 0x33, 0x33, 0xff, target.s6_addr[13], target.s6_addr[14], target.s6_addr[15] };

		if (!mac_is(eth.h_dest, group) && !mac_is(eth.h_dest, us->mac))
			return DIOLKOS_ANSWER_DECLINE_DESTINATION;
	} else if (!in6_equal(&ip.daddr, &target) || !mac_is(eth.h_dest, us->mac)) {
		return DIOLKOS_ANSWER_DECLINE_DESTINATION;
	}
	is_probe = is_unspecified6(&source);
	if (!is_probe && !is_of_host6(&source))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (!is_probe && serves6(skb, &source))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;
	source_at = nd_source_address(&nd, units);
	/* Section 7.1.1: a probe goes to the group and has no such option. Section 4.3: what else goes there has one. */
	if (source_at == -2 || (is_probe && (!is_to_group || source_at >= 0)) ||
	    (!is_probe && is_to_group && source_at < 0))
		return DIOLKOS_ANSWER_DECLINE_OPTIONS;
	if (source_at == 0)
		__builtin_memcpy(eth.h_source, nd.options + 2, ETH_ALEN);
	else if (source_at == 1)
		__builtin_memcpy(eth.h_source, nd.options + ND_UNIT + 2, ETH_ALEN);
	else if (source_at == 2)
		__builtin_memcpy(eth.h_source, nd.options + 2 * ND_UNIT + 2, ETH_ALEN);
	if (!mac_is_of_one(eth.h_source))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (mac_is(eth.h_source, us->mac))
		return DIOLKOS_ANSWER_DECLINE_OWN;

	/* Section 7.2.4: the address may only be left out where whoever asks knows it. Then it overrides nothing. */
	names_us = is_to_group || units;
	len = names_us ? ND_LEN + ND_UNIT : ND_LEN;
	fate = answer_room(skb, ETH_HLEN + sizeof(ip) + len);
	if (fate)
		return fate;
	__builtin_memcpy(eth.h_dest, eth.h_source, ETH_ALEN);
	__builtin_memcpy(eth.h_source, us->mac, ETH_ALEN);
	__builtin_memset(&ip, 0, sizeof(ip));
	ip.version = 6;
	ip.payload_len = bpf_htons(len);
	ip.nexthdr = IPPROTO_ICMPV6;
	ip.hop_limit = ND_HOP_LIMIT;
	ip.saddr = target;
	ip.daddr = source;
	__builtin_memset(&nd, 0, sizeof(nd));
	nd.type = ICMPV6_NEIGHBOUR_ADVERTISEMENT;
	nd.flags = (names_us ? ND_OVERRIDE : 0) | (is_probe ? 0 : ND_SOLICITED);
	nd.target = target;
	if (names_us) {
		nd.options[0] = ND_TARGET_ADDRESS;
		nd.options[1] = 1;
		__builtin_memcpy(nd.options + 2, us->mac, ETH_ALEN);
	}
	/* Whoever has no address yet is told as one of all nodes. */
	if (is_probe) {
		const __u8 all_nodes[ETH_ALEN] = { 0x33, 0x33, 0, 0, 0, 1 };

		__builtin_memcpy(eth.h_dest, all_nodes, ETH_ALEN);
		ip.daddr.s6_addr32[0] = bpf_htonl(0xff020000);
		ip.daddr.s6_addr32[1] = 0;
		ip.daddr.s6_addr32[2] = 0;
		ip.daddr.s6_addr32[3] = bpf_htonl(1);
	}
	nd.checksum_be = ~csum_fold16(nd_sum(&ip, &nd, len));
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &nd, ND_LEN, 0) ||
	    (names_us && bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip) + ND_LEN, nd.options, ND_UNIT, 0)))
		return DIOLKOS_ANSWER_FAILED;
	return is_probe ? DIOLKOS_ANSWER_DUPLICATE : DIOLKOS_ANSWER_NEIGHBOUR;
}

#endif
