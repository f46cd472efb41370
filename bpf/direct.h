/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * direct.h - sends a translated packet straight out of another interface, `direct` placement.
 *
 *   find_way       the packet as the kernel's routing would look at it
 *   is_from_here   IPv4: does its source lie behind the translator?
 *   send_direct    route and neighbour by the kernel's tables, then out
 *
 * Only where everything is well does a packet leave here. All else goes on as with `inline`: it is translated, and the
 * kernel routes it. So nothing has to be known here about errors, fragments, neighbours that are still to be found,
 * routes that are none and destinations that are the router's own: the kernel decides all that, and answers it.
 */
#ifndef DIOLKOS_DIRECT_H
#define DIOLKOS_DIRECT_H

#include "maps.h"
#include "vlan.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/tcp.h>
#include <linux/udp.h>

const volatile struct diolkos_direct direct = {};

/* The C library's header does not compile for BPF. */
#define DIRECT_AF_INET 2
#define DIRECT_AF_INET6 10

#define FLOWINFO_MASK 0x0fffffff /* traffic class and flow label */

/* Ports, of which rules may speak, and the length of one packet on the wire. 0, or -1. */
static __always_inline int find_way_l4(struct __sk_buff *skb, __u32 off, struct bpf_fib_lookup *way)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 len = skb->len - ETH_HLEN;

	if (way->l4_protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = data + off;

		if ((void *)(tcp + 1) > end)
			return -1;
		way->sport = tcp->source;
		way->dport = tcp->dest;
		if (skb->gso_size) {
			__u32 segment = off - ETH_HLEN + tcp->doff * 4 + skb->gso_size;

			if (segment < len)
				len = segment;
		}
	} else if (way->l4_protocol == IPPROTO_UDP) {
		struct udphdr *udp = data + off;

		if ((void *)(udp + 1) > end)
			return -1;
		way->sport = udp->source;
		way->dport = udp->dest;
	}
	if (len > 0xffff)
		return -1;
	/* Without a length, the helper would let a super-packet of any segments pass. */
	way->tot_len = len;
	return 0;
}

/* What the kernel would look a received packet's route up by. 0, or -1. */
static __always_inline int find_way(struct __sk_buff *skb, struct bpf_fib_lookup *way)
{
	void *at = (void *)(long)skb->data + ETH_HLEN, *end = (void *)(long)skb->data_end;

	way->ifindex = skb->ifindex;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;

		if ((void *)(ip + 1) > end)
			return -1;
		way->family = DIRECT_AF_INET;
		way->tos = ip->tos;
		way->l4_protocol = ip->protocol;
		way->ipv4_src = ip->saddr;
		way->ipv4_dst = ip->daddr;
		return find_way_l4(skb, ETH_HLEN + sizeof(*ip), way);
	}

	struct ipv6hdr *ip = at;

	if ((void *)(ip + 1) > end)
		return -1;
	way->family = DIRECT_AF_INET6;
	way->flowinfo = *(__be32 *)ip & bpf_htonl(FLOWINFO_MASK);
	way->l4_protocol = ip->nexthdr;
	__builtin_memcpy(way->ipv6_src, &ip->saddr, sizeof(way->ipv6_src));
	__builtin_memcpy(way->ipv6_dst, &ip->daddr, sizeof(way->ipv6_dst));
	return find_way_l4(skb, ETH_HLEN + sizeof(*ip), way);
}

/*
 * The kernel refuses IPv4 sources that cannot be: its own addresses, and with a reverse-path filter those from which no
 * route leads back. An answer to a translated packet comes back through the translator: a source whose route leads to
 * another place is the kernel's to judge. (IPv6 sources it does not look at when it forwards.)
 */
static __always_inline int is_from_here(struct __sk_buff *skb, const struct bpf_fib_lookup *way)
{
	struct bpf_fib_lookup back = {
		.family = DIRECT_AF_INET,
		.ifindex = way->ifindex,
		.l4_protocol = way->l4_protocol,
		.ipv4_src = way->ipv4_dst,
		.ipv4_dst = way->ipv4_src,
	};

	/* Where no route leads out, the index stays as it was. */
	return bpf_fib_lookup(skb, &back, sizeof(back), 0) >= 0 && back.ifindex == rules.tun_ifindex;
}

/* An interface of the translator's: nobody gave leave to pass by the rules of others. */
static __always_inline int is_exit(__u32 ifindex)
{
	for (__u32 i = 0; i < DIOLKOS_EXITS && i < direct.exits; i++) {
		if (direct.exit[i] == ifindex)
			return 1;
	}
	return 0;
}

/*
 * As the kernel's forwarding sets it, for queueing disciplines with bands: from the former TOS bits of an IPv4 header.
 * That of an IPv6 packet it leaves as it is.
 */
static __always_inline __u32 priority_of(__u8 tos)
{
	switch (tos >> 3 & 3) {
	case 1:
		return TC_PRIO_BULK;
	case 2:
		return TC_PRIO_INTERACTIVE;
	case 3:
		return TC_PRIO_INTERACTIVE_BULK;
	default:
		return TC_PRIO_BESTEFFORT;
	}
}

/*
 * Of a translated packet with an Ethernet header. checks_source: its source came with it, and was not chosen by the
 * translator. The program's return value: the packet is sent, or goes on.
 *
 * The helper that looks up the route knows the neighbour's address too. It is not sent there without asking: an address
 * that is used without the kernel's knowledge is never confirmed, and would be used for ever. bpf_redirect_neigh sees
 * to that, and needs no route of its own when it is told the next hop.
 */
static __always_inline int send_direct(struct __sk_buff *skb, int checks_source)
{
	struct bpf_fib_lookup way = {};
	struct bpf_redir_neigh hop = {};
	__u32 len = skb->len - ETH_HLEN, priority = skb->priority;

	/* Rules may ask for a mark, and the look-up does not know it before Linux 6.10. */
	if (!direct.exits || skb->mark)
		return TC_ACT_UNSPEC;
	if (find_way(skb, &way))
		return TC_ACT_UNSPEC;
	if (way.family == DIRECT_AF_INET) {
		if (checks_source && !is_from_here(skb, &way))
			return TC_ACT_UNSPEC;
		priority = priority_of(way.tos);
	}
	if (bpf_fib_lookup(skb, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS || !is_exit(way.ifindex))
		return TC_ACT_UNSPEC;
	if (drop_priority_tag(skb))
		return TC_ACT_UNSPEC;

	struct ethhdr *eth = (void *)(long)skb->data;

	if ((void *)(eth + 1) > (void *)(long)skb->data_end)
		return TC_ACT_UNSPEC;
	/*
	 * The kernel writes this header again. But where the card has summed the packet (CHECKSUM_COMPLETE), it adds
	 * the header that it finds to the sum, and a virtual Ethernet's other end takes the one off with which it came.
	 */
	__builtin_memcpy(eth->h_dest, way.dmac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, way.smac, sizeof(eth->h_source));
	skb->priority = priority;
	count(DIOLKOS_SENT_DIRECT, len);

	/* The next hop, which for an IPv4 packet may be an IPv6 router. */
	hop.nh_family = way.family;
	__builtin_memcpy(hop.ipv6_nh, way.ipv6_dst, sizeof(hop.ipv6_nh));
	return bpf_redirect_neigh(way.ifindex, &hop, sizeof(hop), 0);
}

#endif
