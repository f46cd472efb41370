/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * answer.h - answers for addresses that the translator serves and the host does not have.
 *
 *   answer_arp         a request (RFC 826) or a probe (RFC 5227) is answered by a reply
 *   answer_neighbour   a solicitation is answered by an advertisement (RFC 4861 section 7.2.4)
 *   answer_echo4       an echo request is answered by an echo reply (RFC 792)
 *   answer_echo6       the same of ICMPv6 (RFC 4443 section 4.2)
 *
 * One packet answers one packet, by the interface on which it came, and is not longer: apart from the advertisement that
 * answers a solicitation without options from the unspecified address, for which RFC 4861 demands an option of 8 bytes.
 * Whatever is not answered goes on unchanged.
 */
#ifndef DIOLKOS_ANSWER_H
#define DIOLKOS_ANSWER_H

#include "csum.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

/*
 * What became of a packet that asks about a served address. One counter each; packets about other addresses are not
 * counted. DECLINE_* went on unchanged, to the translation and to the kernel.
 */
#define DIOLKOS_ANSWERS(X)                                                                 \
	X(ARP)                 /* an ARP request was answered */                           \
	X(NEIGHBOUR)           /* a neighbour solicitation was answered */                 \
	X(DUPLICATE)           /* Duplicate Address Detection of somebody was answered */  \
	X(ECHO4)               /* ICMP echo was answered */                                \
	X(ECHO6)               /* ICMPv6 echo was answered */                              \
	X(FAILED)              /* lost: a helper refused after the packet was changed */   \
	X(DECLINE_HEADER)      /* a header that does not look right */                     \
	X(DECLINE_HOP_LIMIT)   /* a solicitation that crossed a router: not 255 */         \
	X(DECLINE_CHECKSUM)    /* a wrong checksum, or an echo that may be all zeros */    \
	X(DECLINE_OPTIONS)     /* options of a solicitation that break RFC 4861 */         \
	X(DECLINE_DESTINATION) /* sent to other link-layer or IP addresses than it must */ \
	X(DECLINE_SOURCE)      /* from an address that nobody can have */                  \
	X(DECLINE_CONFLICT)    /* from an address that is served here */                   \
	X(DECLINE_OWN)         /* sent by this interface itself */                         \
	X(DECLINE_FRAGMENT)    /* a fragment of an echo request */                         \
	X(DECLINE_NO_ROOM)     /* a helper refused before the packet was changed */

enum diolkos_answer {
	DIOLKOS_NOT_ASKED, /* 0: about no address that is served */
#define X(name) DIOLKOS_ANSWER_##name,
	DIOLKOS_ANSWERS(X)
#undef X
	DIOLKOS_ANSWER_END,
};

/* Keys of tries: an address on an interface. The length counts the interface's 32 bits. */
struct diolkos_served4 {
	__u32 len;
	__u32 ifindex;
	__be32 addr_be;
};

struct diolkos_served6 {
	__u32 len;
	__u32 ifindex;
	struct in6_addr addr;
};

/* Values of these tries. */
#define DIOLKOS_SERVED 1
#define DIOLKOS_SERVED_ECHO 2 /* echo is answered, too */

/* An interface that answers. */
struct diolkos_announcer {
	__u8 mac[ETH_ALEN];
	__u8 pad[2];
};

_Static_assert(sizeof(struct diolkos_served4) == 12 && sizeof(struct diolkos_served6) == 24, "keys have no padding");
_Static_assert(sizeof(struct diolkos_announcer) == 8, "no implicit padding");

#define DIOLKOS_SERVED_MOST 131072

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, DIOLKOS_SERVED_MOST);
	__type(key, struct diolkos_served4);
	__type(value, __u32);
} served4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, DIOLKOS_SERVED_MOST);
	__type(key, struct diolkos_served6);
	__type(value, __u32);
} served6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct diolkos_announcer);
} announcers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DIOLKOS_ANSWER_END);
	__type(key, enum diolkos_answer);
	__type(value, __u64);
} answers SEC(".maps");

#define ANSWER_TTL 64
#define ND_HOP_LIMIT 255
#define ND_SOLICITATION 135
#define ND_ADVERTISEMENT 136
#define ND_SOURCE_ADDRESS 1
#define ND_TARGET_ADDRESS 2
#define ND_SOLICITED 0x40
#define ND_OVERRIDE 0x20
#define ND_UNIT 8    /* options are counted in these bytes */
#define ND_OPTIONS 3 /* units that are looked at; of more, nothing is answered */

#define ECHO4_REQUEST 8
#define ECHO4_REPLY 0
#define ECHO6_REQUEST 128
#define ECHO6_REPLY 129

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

/* What both echo messages begin with. */
struct echo {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be16 id_be;
	__be16 seq_be;
};

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

static __always_inline __u32 serves4(struct __sk_buff *skb, __be32 addr_be)
{
	struct diolkos_served4 key = { .len = 64, .ifindex = skb->ifindex, .addr_be = addr_be };
	__u32 *served = bpf_map_lookup_elem(&served4, &key);

	return served ? *served : 0;
}

static __always_inline __u32 serves6(struct __sk_buff *skb, const struct in6_addr *addr)
{
	struct diolkos_served6 key = { .len = 160, .ifindex = skb->ifindex, .addr = *addr };
	__u32 *served = bpf_map_lookup_elem(&served6, &key);

	return served ? *served : 0;
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

static __always_inline int in6_is(const struct in6_addr *a, const struct in6_addr *b)
{
	return !((a->s6_addr32[0] ^ b->s6_addr32[0]) | (a->s6_addr32[1] ^ b->s6_addr32[1]) |
		 (a->s6_addr32[2] ^ b->s6_addr32[2]) | (a->s6_addr32[3] ^ b->s6_addr32[3]));
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
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
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
	} else if (!in6_is(&ip.daddr, &target) || !mac_is(eth.h_dest, us->mac)) {
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
	nd.type = ND_ADVERTISEMENT;
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

/* A message of another type sums up to as much less. If all of it could be zeros, see RFC 1624 section 3, it is not asked. */
static __always_inline void echo_turn(struct echo *echo, __u8 to)
{
	__u16 from_word = bpf_htons(echo->type << 8), to_word = bpf_htons(to << 8);

	echo->checksum = ~csum_fold16((__u64)(__u16)~echo->checksum + (__u16)~from_word + to_word);
	echo->type = to;
}

/* Both link-layer addresses are those of one node, and the destination is ours. 0, or why not. */
static __always_inline int echo_macs(const struct ethhdr *eth, const struct diolkos_announcer *us)
{
	if (mac_is(eth->h_source, us->mac))
		return DIOLKOS_ANSWER_DECLINE_OWN;
	if (!mac_is(eth->h_dest, us->mac))
		return DIOLKOS_ANSWER_DECLINE_DESTINATION;
	return mac_is_of_one(eth->h_source) ? 0 : DIOLKOS_ANSWER_DECLINE_SOURCE;
}

static __always_inline void turn_macs(struct ethhdr *eth, const struct diolkos_announcer *us)
{
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, us->mac, ETH_ALEN);
}

static __always_inline int answer_echo4(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct ethhdr eth;
	struct iphdr ip;
	struct echo echo;
	const __u32 *word = (const __u32 *)&ip;
	__be32 to_be;
	__u32 len;
	int fate;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo)))
		return DIOLKOS_NOT_ASKED;
	if (ip.version != 4 || ip.ihl != 5 || ip.frag_off & bpf_htons(0x1fff) || echo.type != ECHO4_REQUEST ||
	    !(serves4(skb, ip.daddr) & DIOLKOS_SERVED_ECHO))
		return DIOLKOS_NOT_ASKED;
	fate = echo_macs(&eth, us);
	if (fate)
		return fate;
	if (ip.frag_off & bpf_htons(0x2000))
		return DIOLKOS_ANSWER_DECLINE_FRAGMENT;
	len = bpf_ntohs(ip.tot_len);
	if (len < sizeof(ip) + sizeof(echo) || ETH_HLEN + len > skb->len || skb->gso_size || !ip.ttl || echo.code)
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (csum_fold16((__u64)word[0] + word[1] + word[2] + word[3] + word[4]) != 0xffff ||
	    !(echo.id_be | echo.seq_be))
		return DIOLKOS_ANSWER_DECLINE_CHECKSUM;
	if (!is_of_host4(ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (serves4(skb, ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;

	fate = answer_room(skb, ETH_HLEN + len);
	if (fate)
		return fate;
	turn_macs(&eth, us);
	to_be = ip.saddr;
	ip.saddr = ip.daddr;
	ip.daddr = to_be;
	ip.ttl = ANSWER_TTL;
	ip.check = 0;
	ip.check = ~csum_fold16((__u64)word[0] + word[1] + word[2] + word[3] + word[4]);
	echo_turn(&echo, ECHO4_REPLY);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo), 0))
		return DIOLKOS_ANSWER_FAILED;
	return DIOLKOS_ANSWER_ECHO4;
}

static __always_inline int answer_echo6(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct in6_addr to;
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct echo echo;
	__u32 len;
	int fate;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo)))
		return DIOLKOS_NOT_ASKED;
	if (ip.version != 6 || !(serves6(skb, &ip.daddr) & DIOLKOS_SERVED_ECHO))
		return DIOLKOS_NOT_ASKED;
	fate = echo_macs(&eth, us);
	if (fate)
		return fate;
	len = bpf_ntohs(ip.payload_len);
	if (len < sizeof(echo) || ETH_HLEN + sizeof(ip) + len > skb->len || skb->gso_size || !ip.hop_limit || echo.code)
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (!is_of_host6(&ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (serves6(skb, &ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;

	fate = answer_room(skb, ETH_HLEN + sizeof(ip) + len);
	if (fate)
		return fate;
	turn_macs(&eth, us);
	to = ip.saddr;
	ip.saddr = ip.daddr;
	ip.daddr = to;
	ip.hop_limit = ANSWER_TTL;
	/* The traffic class stays; the label is that of another flow. */
	ip.flow_lbl[0] &= 0xf0;
	ip.flow_lbl[1] = 0;
	ip.flow_lbl[2] = 0;
	echo_turn(&echo, ECHO6_REPLY);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo), 0))
		return DIOLKOS_ANSWER_FAILED;
	return DIOLKOS_ANSWER_ECHO6;
}

#endif
