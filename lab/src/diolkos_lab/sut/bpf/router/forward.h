/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * forward.h - what a router has to do with a frame, for both hooks.
 *
 *   find_way ─► the kernel's routes and neighbours (bpf_fib_lookup) ─► pass_on: hop limit, Ethernet header
 *
 * Nothing is decided here that the kernel would decide otherwise: whatever is not an ordinary packet to a neighbour that
 * is known goes on to the kernel as it came, which finds neighbours, answers with ICMP errors and takes what is its own.
 * Two things it would do and this does not: its firewall rules, and its look at sources that cannot be (martians).
 */
#ifndef ROUTER_FORWARD_H
#define ROUTER_FORWARD_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

/* The C library's header does not compile for BPF. */
#define ROUTER_AF_INET 2
#define ROUTER_AF_INET6 10

#define FLOWINFO_MASK 0x0fffffff /* traffic class and flow label */
#define PLAIN_IHL 5              /* words of an IPv4 header without options */

static __always_inline int find_way4(void *at, void *end, struct bpf_fib_lookup *way)
{
	struct iphdr *ip = at;

	/* Options are for every router to read (RFC 791); a packet whose time is up gets an answer. */
	if ((void *)(ip + 1) > end || ip->ihl != PLAIN_IHL || ip->ttl <= 1)
		return -1;
	way->family = ROUTER_AF_INET;
	way->tos = ip->tos;
	way->l4_protocol = ip->protocol;
	way->tot_len = bpf_ntohs(ip->tot_len);
	way->ipv4_src = ip->saddr;
	way->ipv4_dst = ip->daddr;
	return 0;
}

static __always_inline int find_way6(void *at, void *end, struct bpf_fib_lookup *way)
{
	struct ipv6hdr *ip = at;

	if ((void *)(ip + 1) > end || ip->hop_limit <= 1)
		return -1;
	/* The only extension header that is for every router to read (RFC 8200 section 4). */
	if (ip->nexthdr == 0)
		return -1;
	way->family = ROUTER_AF_INET6;
	way->flowinfo = *(__be32 *)ip & bpf_htonl(FLOWINFO_MASK);
	way->l4_protocol = ip->nexthdr;
	way->tot_len = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	__builtin_memcpy(way->ipv6_src, &ip->saddr, sizeof(way->ipv6_src));
	__builtin_memcpy(way->ipv6_dst, &ip->daddr, sizeof(way->ipv6_dst));
	return 0;
}

/* What the route of the frame is looked up by; -1: it is the kernel's. */
static __always_inline int find_way(void *data, void *end, struct bpf_fib_lookup *way)
{
	struct ethhdr *eth = data;

	/* Frames to a group are not to be routed, whatever packet is inside (RFC 1812 section 5.3.4). */
	if ((void *)(eth + 1) > end || eth->h_dest[0] & 1)
		return -1;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return find_way4(eth + 1, end, way);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return find_way6(eth + 1, end, way);
	return -1;
}

/* RFC 1141: the TTL is the high byte of its word, so the sum grows by 0x0100, with the carry at the low end. */
static __always_inline void decrease_ttl(struct iphdr *ip)
{
	__u32 sum = (__u32)ip->check + bpf_htons(0x0100);

	ip->check = (__u16)(sum + (sum >= 0xffff));
	ip->ttl -= 1;
}

/* One hop less, and the addresses of the link that it goes to. -1 if the headers are not there, which find_way has seen. */
static __always_inline int pass_on(void *data, void *end, const struct bpf_fib_lookup *way, int is_ipv4)
{
	struct ethhdr *eth = data;

	if (is_ipv4) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -1;
		decrease_ttl(ip);
	} else {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -1;
		ip->hop_limit -= 1;
	}
	__builtin_memcpy(eth->h_dest, way->dmac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, way->smac, sizeof(eth->h_source));
	return 0;
}

#endif
