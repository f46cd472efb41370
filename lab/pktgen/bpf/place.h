/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * place.h - where the parts of a frame are: Ethernet, a VLAN tag, IPv4 or IPv6, UDP, TCP or ICMP echo.
 *
 * Every offset is in bytes from the frame's beginning. Anything else, and anything that is cut off or a fragment, is not
 * found (-1).
 */
#ifndef PKTGEN_PLACE_H
#define PKTGEN_PLACE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/csum.h"

#define ICMP_ECHO 8
#define ICMP_ECHO_REPLY 0
#define ICMPV6_ECHO 128
#define ICMPV6_ECHO_REPLY 129

/* Where things are in a frame, from its beginning. */
struct place {
	__u32 l4;      /* the transport header */
	__u32 l4_len;  /* header and payload, as the IP header says */
	__u32 payload; /* behind the transport header */
	__u64 pseudo;  /* sum of the pseudo-header; of ICMPv4, which has none, 0 */
	__u16 sum;     /* checksum that came */
	bool sum_optional;
	__be32 src_be; /* the last 32 bits of the address */
	__be32 dst_be;
	__be16 sport_be; /* of UDP and TCP */
	__be16 dport_be;
};

/* One pointer: if the compiler made it anew for each use, the verifier would not know that it is the one it checked. */
static __always_inline void *pinned(void *pointer)
{
	asm volatile("" : "+r"(pointer));
	return pointer;
}

static __always_inline int find_transport(void *data, void *data_end, __u32 l4, __u8 protocol, struct place *place)
{
	void *head = pinned(data + l4);

	place->l4 = l4;
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = head;

		if ((void *)(udp + 1) > data_end)
			return -1;
		place->sum = udp->check;
		place->sport_be = udp->source;
		place->dport_be = udp->dest;
		place->payload = l4 + sizeof(*udp);
	} else if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = head;

		if ((void *)(tcp + 1) > data_end)
			return -1;
		place->sum = tcp->check;
		place->sport_be = tcp->source;
		place->dport_be = tcp->dest;
		place->payload = l4 + tcp->doff * 4;
	} else {
		struct icmp_echo {
			__u8 type, code;
			__u16 sum;
			__be16 id_be, seq_be;
		} *icmp = head;

		if ((void *)(icmp + 1) > data_end)
			return -1;
		if (protocol == IPPROTO_ICMP ? icmp->type != ICMP_ECHO && icmp->type != ICMP_ECHO_REPLY
					     : icmp->type != ICMPV6_ECHO && icmp->type != ICMPV6_ECHO_REPLY)
			return -1;
		place->sum = icmp->sum;
		place->payload = l4 + sizeof(*icmp);
	}
	return 0;
}

static __always_inline int find_ipv4(void *data, void *data_end, __u32 l3, struct place *place)
{
	struct iphdr *ip = data + l3;
	__u32 header;

	if ((void *)(ip + 1) > data_end)
		return -1;
	header = ip->ihl * 4;
	/* A fragment has no signature, or not all of what is signed. */
	if (ip->frag_off & bpf_htons(0x3fff) || header < sizeof(*ip) || bpf_ntohs(ip->tot_len) < header)
		return -1;
	if (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_ICMP)
		return -1;
	place->l4_len = bpf_ntohs(ip->tot_len) - header;
	place->sum_optional = ip->protocol == IPPROTO_UDP;
	place->src_be = ip->saddr;
	place->dst_be = ip->daddr;
	place->pseudo = 0;
	if (ip->protocol != IPPROTO_ICMP)
		place->pseudo = (__u64)ip->saddr + ip->daddr + bpf_htons(place->l4_len) + bpf_htons(ip->protocol);
	return find_transport(data, data_end, l3 + header, ip->protocol, place);
}

static __always_inline int find_ipv6(void *data, void *data_end, __u32 l3, struct place *place)
{
	struct ipv6hdr *ip = data + l3;
	__u8 protocol;

	if ((void *)(ip + 1) > data_end)
		return -1;
	protocol = ip->nexthdr;
	place->l4_len = bpf_ntohs(ip->payload_len);
	l3 += sizeof(*ip);
	if (protocol == IPPROTO_FRAGMENT) {
		/* An atomic fragment (RFC 6946) is whole. */
		struct {
			__u8 nexthdr, reserved;
			__be16 frag_off;
			__be32 id;
		} *fragment = data + l3;

		if ((void *)(fragment + 1) > data_end || fragment->frag_off & bpf_htons(0xfff9) ||
		    place->l4_len < sizeof(*fragment))
			return -1;
		protocol = fragment->nexthdr;
		place->l4_len -= sizeof(*fragment);
		l3 += sizeof(*fragment);
	}
	if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP && protocol != IPPROTO_ICMPV6)
		return -1;
	place->sum_optional = false;
	place->src_be = ip->saddr.in6_u.u6_addr32[3];
	place->dst_be = ip->daddr.in6_u.u6_addr32[3];
	place->pseudo = csum_in6(&ip->saddr) + csum_in6(&ip->daddr) + bpf_htons(place->l4_len) + bpf_htons(protocol);
	return find_transport(data, data_end, l3, protocol, place);
}

static __always_inline int find(void *data, void *data_end, struct place *place)
{
	struct ethhdr *eth = data;
	__u32 l3 = sizeof(*eth);
	__be16 ethertype_be;

	if ((void *)(eth + 1) > data_end)
		return -1;
	ethertype_be = eth->h_proto;
	if (ethertype_be == bpf_htons(ETH_P_8021Q)) {
		__be16 *tag = data + l3;

		if ((void *)(tag + 2) > data_end)
			return -1;
		ethertype_be = tag[1];
		l3 += 4;
	}
	if (ethertype_be == bpf_htons(ETH_P_IP))
		return find_ipv4(data, data_end, l3, place);
	if (ethertype_be == bpf_htons(ETH_P_IPV6))
		return find_ipv6(data, data_end, l3, place);
	return -1;
}

#endif
