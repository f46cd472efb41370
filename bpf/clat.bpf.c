// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * clat.bpf.c - the fast path of a CLAT at the tc hooks, `device` placement.
 *
 *   tun_egress       IPv4 that a route led to the TUN device: translated and sent out of the uplink
 *   tun_egress_l2    the same under test, where packets have an Ethernet header
 *   uplink_ingress   IPv6 for the CLAT's address: translated and received on the TUN device
 *   tun_ingress      what the slow path wrote: its IPv6 packets are sent out of the uplink
 *
 * Each program reads first and declines what is not plain. What a program
 * declines is handed to the slow path unchanged: by letting it go on
 * (tun_egress) or by sending it to the TUN device (uplink_ingress).
 */
#include "abi.h"
#include "addr.h"
#include "clat.h"
#include "icmp.h"
#include "maps.h"
#include "next_hop.h"
#include "parse.h"
#include "tc/apply.h"
#include "tc/packet.h"
#include "tc/vlan.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/pkt_cls.h>

/* Not ours, or not ours alone: the next program, then the kernel, sees the packet as it was. */
#define NEXT TC_ACT_UNSPEC

static __always_inline int fail(__u32 len)
{
	count(DIOLKOS_FAILED, len);
	return TC_ACT_SHOT;
}

/* Hands a packet with an Ethernet header to a neighbour on the uplink. */
static __always_inline int to_neighbour(const struct in6_addr *address)
{
	struct bpf_redir_neigh nh = { .nh_family = AF_INET6 };

	__builtin_memcpy(nh.ipv6_nh, address, sizeof(*address));
	return bpf_redirect_neigh(clat.uplink_ifindex, &nh, sizeof(nh), 0);
}

/*
 * Sends an IPv6 packet without a link-layer header out of the uplink. The way
 * is not DIOLKOS_WAY_NOWHERE.
 */
static __always_inline int out_of_uplink(struct __sk_buff *skb, __u32 len, const struct way_out *way, int to_prefix)
{
	if (!clat.uplink_l2_len)
		return bpf_redirect(clat.uplink_ifindex, 0);

	/* The kernel resolves the neighbour, but takes the packet only with a link-layer header to strip. */
	if (bpf_skb_change_head(skb, ETH_HLEN, 0))
		return fail(len);

	struct ethhdr *eth = (void *)(long)skb->data;
	struct ipv6hdr *ip = (void *)(eth + 1);
	struct in6_addr address;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return fail(len);
	eth->h_proto = bpf_htons(ETH_P_IPV6);

	/* No rule or route is asked: those that are meant for the host's own traffic may name the router of another link. */
	if (way->router) {
		address = in6_load(way->router);
		return to_neighbour(&address);
	}
	if (way->kind == DIOLKOS_WAY_ON_LINK && to_prefix) {
		address = ip->daddr;
		return to_neighbour(&address);
	}
	return bpf_redirect_neigh(clat.uplink_ifindex, NULL, 0, 0);
}

/* l2: bytes of link-layer header in front of the packet. A TUN device has none. */
static __always_inline int egress(struct __sk_buff *skb, __u32 l2)
{
	struct seen s = {};
	struct change c = {};

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return NEXT;

	struct packet p = packet_of(skb, l2, sizeof(struct iphdr));
	const struct way_out way = way_out();
	/* The slow path tells the sender that the network is unreachable. */
	int fate = way.kind == DIOLKOS_WAY_NOWHERE ? DIOLKOS_DECLINE_ROUTE : parse_v4(&p, &s);

	if (!fate)
		fate = to_plat(&s, &c);
	if (!fate)
		fate = guard_4to6(&s);
	if (!fate)
		fate = apply_4to6(skb, l2, &s, &c);
	count(fate, p.len);
	switch (fate) {
	case DIOLKOS_TRANSLATED_4TO6:
		return out_of_uplink(skb, p.len, &way, 1);
	case DIOLKOS_FAILED:
		return TC_ACT_SHOT;
	default:
		return NEXT;
	}
}

SEC("tcx/egress")
int tun_egress(struct __sk_buff *skb)
{
	return egress(skb, 0);
}

/*
 * The same for BPF_PROG_TEST_RUN, which gives every packet an Ethernet header.
 * It stays in front of the translated packet, behind the one that
 * out_of_uplink puts there. Not loaded unless asked for.
 */
SEC("?tcx/egress")
int tun_egress_l2(struct __sk_buff *skb)
{
	return egress(skb, ETH_HLEN);
}

/* 1: the packet is for the CLAT's address, and not one with which neighbours ask for that address. */
static __always_inline int is_for_clat(struct __sk_buff *skb)
{
	__u32 off = clat.uplink_l2_len;

	if (!is_for_host(skb) || skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	make_linear(skb, off + sizeof(struct ipv6hdr));

	struct ipv6hdr *ip = (void *)(long)skb->data + off;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return 0;
	if (!in6_equal(&ip->daddr, &clat.v6))
		return 0;
	if (ip->nexthdr != IPPROTO_ICMPV6)
		return 1;

	struct icmp_echo *icmp = (void *)(ip + 1);

	if ((void *)(icmp + 1) > (void *)(long)skb->data_end)
		return 1;
	return icmp->type != ICMPV6_NEIGHBOUR_SOLICITATION; /* answered by the daemon's packet socket */
}

SEC("tcx/ingress")
int uplink_ingress(struct __sk_buff *skb)
{
	struct seen s = {};
	struct change c = {};
	__u32 l2 = clat.uplink_l2_len;

	if (!is_for_clat(skb))
		return NEXT;
	/* The slow path would get it in the middle of the packet: a TUN device has no link-layer header to hold it. */
	if (drop_priority_tag(skb))
		return fail(skb->len - l2);

	struct packet p = packet_of(skb, l2, sizeof(struct ipv6hdr));
	int fate = parse_v6(&p, &s);

	/* The address first: it says most of what neither PLAT nor peer has sent. */
	if (!fate)
		fate = from_plat(&s, &c);
	if (!fate)
		fate = guard_6to4(&s);
	if (!fate)
		fate = apply_6to4(skb, l2, &s, &c);
	count(fate, p.len);
	switch (fate) {
	case DIOLKOS_TRANSLATED_6TO4:
		return bpf_redirect(rules.tun_ifindex, BPF_F_INGRESS);
	case DIOLKOS_FAILED:
		return TC_ACT_SHOT;
	default:
		return bpf_redirect(rules.tun_ifindex, 0);
	}
}

SEC("tcx/ingress")
int tun_ingress(struct __sk_buff *skb)
{
	__u32 len = skb->len;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return NEXT;
	make_linear(skb, sizeof(struct ipv6hdr));

	struct ipv6hdr *ip = (void *)(long)skb->data;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return fail(len);

	struct in6_addr destination = ip->daddr;
	__be32 embedded_be;
	int to_prefix = !addr_extract(&clat.pref64, &destination, &embedded_be);

	const struct way_out way = way_out();

	if (way.kind == DIOLKOS_WAY_NOWHERE) {
		count(DIOLKOS_DROP_NO_ROUTE, len);
		return TC_ACT_SHOT;
	}
	count(DIOLKOS_SLOW_PATH_OUT, len);
	return out_of_uplink(skb, len, &way, to_prefix);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
