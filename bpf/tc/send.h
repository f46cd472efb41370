/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* send.h - sends a translated packet of a tc hook by its route (route.h), past the kernel's forwarding. `direct` placement. */
#ifndef DIOLKOS_TC_SEND_H
#define DIOLKOS_TC_SEND_H

#include "../maps.h"
#include "../route.h"
#include "vlan.h"
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>

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
 * The program's return value: the packet, which has an Ethernet header, is sent, or goes on.
 *
 * is_known: the next hop was looked up in this tick (hop_cache.h). The look-up tells the neighbour's address. But an address that is
 * used without the kernel's knowledge is never confirmed, and would be used for ever. So a packet whose next hop was looked up
 * goes by bpf_redirect_neigh, which lets the kernel note that the neighbour is in use. The kernel notes that once in a tick:
 * all others go straight out.
 */
static __always_inline int send(struct __sk_buff *skb, const struct bpf_fib_lookup *route, int is_known)
{
	/* The next hop, which for an IPv4 packet may be an IPv6 router. */
	struct bpf_redir_neigh hop;
	__u32 len = skb->len - ETH_HLEN;

	if (drop_priority_tag(skb))
		return TC_ACT_UNSPEC;

	struct ethhdr *eth = (void *)(long)skb->data;

	if ((void *)(eth + 1) > (void *)(long)skb->data_end)
		return TC_ACT_UNSPEC;
	/*
	 * bpf_redirect_neigh writes this header again. But where the card has summed the packet (CHECKSUM_COMPLETE), it
	 * adds the header that it finds to the sum, and a virtual Ethernet's other end takes the one off with which it
	 * came.
	 */
	write_macs(eth, route);
	count(DIOLKOS_SENT_DIRECT, len);
	if (is_known)
		return bpf_redirect(route->ifindex, 0);
	hop = (struct bpf_redir_neigh){ .nh_family = route->family };
	__builtin_memcpy(hop.ipv6_nh, route->ipv6_dst, sizeof(hop.ipv6_nh));
	return bpf_redirect_neigh(route->ifindex, &hop, sizeof(hop), 0);
}

#endif
