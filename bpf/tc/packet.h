/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* packet.h - a packet of a tc hook, for those who do not know the hook. */
#ifndef DIOLKOS_TC_PACKET_H
#define DIOLKOS_TC_PACKET_H

#include "../packet.h"
#include "gso.h"
#include <bpf/bpf_helpers.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

/*
 * head: bytes of link-layer and network header; they and what is read of the transport header become linear. Of a packet
 * that has less, what there is: the guards see where it ends.
 */
static __always_inline void make_linear(struct __sk_buff *skb, __u32 head)
{
	__u32 len = head + L4_READ;

	if ((void *)(long)skb->data + len <= (void *)(long)skb->data_end)
		return;
	bpf_skb_pull_data(skb, len < skb->len ? len : skb->len);
}

/* Whether a packet has an IP header of so many bytes that says UDP. */
static __always_inline int says_udp(const struct packet *p, __u32 network)
{
	const __u8 *ip = p->data + p->l2;

	if ((void *)(ip + network) > p->end)
		return 0;
	return ip[network == sizeof(struct ipv6hdr) ? __builtin_offsetof(struct ipv6hdr, nexthdr)
						    : __builtin_offsetof(struct iphdr, protocol)] == IPPROTO_UDP;
}

/* l2: bytes of link-layer header in front, network: of the network header behind it. */
static __always_inline struct packet packet_of(struct __sk_buff *skb, __u32 l2, __u32 network)
{
	make_linear(skb, l2 + network);

	struct packet p = {
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.l2 = l2,
		.len = skb->len - l2,
		.gso_size = skb->gso_size,
		.ifindex = skb->ifindex,
	};

	/* It costs three calls, for what TCP need not know. */
	if (p.gso_size && says_udp(&p, network))
		p.has_datagrams = has_datagrams(skb);
	return p;
}

#endif
