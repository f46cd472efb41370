/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* packet.h - a packet of a tc hook, for those who do not know the hook. */
#ifndef DIOLKOS_TC_PACKET_H
#define DIOLKOS_TC_PACKET_H

#include "../packet.h"
#include <bpf/bpf_helpers.h>

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

/* l2: bytes of link-layer header in front, network: of the network header behind it. */
static __always_inline struct packet packet_of(struct __sk_buff *skb, __u32 l2, __u32 network)
{
	make_linear(skb, l2 + network);

	return (struct packet){
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.l2 = l2,
		.len = skb->len - l2,
		.gso_size = skb->gso_size,
		.ifindex = skb->ifindex,
	};
}

#endif
