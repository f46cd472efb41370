/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * gateways.h - how the other gateways of a cluster are reached, and how a packet is sent to one.
 *
 *   send_to   tc, at the TUN device, a packet that begins with its IP header → the gateway
 */
#ifndef DIOLKOS_GATEWAYS_H
#define DIOLKOS_GATEWAYS_H

#include "addr.h"
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

/* How another gateway is reached. An interface of 0: it is not. */
struct diolkos_gateway {
	__u32 ifindex;
	__u8 next_hop[16]; /* the IPv6 address of which that link's neighbour is asked */
	__u32 mtu;         /* of the way to it, bytes from the IP header on */
};

_Static_assert(sizeof(struct diolkos_gateway) == 24, "no padding");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIOLKOS_OWNERS);
	__type(key, __u32);
	__type(value, struct diolkos_gateway);
} gateways SEC(".maps");

/* TC_ACT_SHOT if the kernel had no memory. */
static __always_inline int send_to(struct __sk_buff *skb, const struct diolkos_gateway *gateway)
{
	struct bpf_redir_neigh hop = { .nh_family = AF_INET6 };

	__builtin_memcpy(hop.ipv6_nh, gateway->next_hop, sizeof(hop.ipv6_nh));
	/* bpf_redirect_neigh writes an Ethernet header over one that is there. */
	if (bpf_skb_change_head(skb, ETH_HLEN, 0))
		return TC_ACT_SHOT;
	return bpf_redirect_neigh(gateway->ifindex, &hop, sizeof(hop), 0);
}

#endif
