/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * isthmus.h - what a router's program does at the TUN device: a packet that a
 * route led there leaves it in the other family, as received from the device,
 * so that the kernel routes it on, past all its rules. What is declined goes on
 * to the slow path unchanged.
 */
#ifndef DIOLKOS_ISTHMUS_H
#define DIOLKOS_ISTHMUS_H

#include "maps.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

/* Translates, or says why not. The fate of the packet. */
typedef int (*translate_fn)(struct __sk_buff *skb, __u32 l2);

/* l2: bytes of link-layer header in front of the packet. A TUN device has none; under test there is one. */
static __always_inline int isthmus(struct __sk_buff *skb, __u32 l2, translate_fn from_v4, translate_fn from_v6)
{
	__u32 len = skb->len - l2;
	int fate;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		fate = from_v4(skb, l2);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		fate = from_v6(skb, l2);
	else
		return TC_ACT_UNSPEC;

	count(fate, len);
	switch (fate) {
	case DIOLKOS_TRANSLATED_4TO6:
	case DIOLKOS_TRANSLATED_6TO4:
		return bpf_redirect(rules.tun_ifindex, BPF_F_INGRESS);
	case DIOLKOS_FAILED:
		return TC_ACT_SHOT;
	default:
		return TC_ACT_UNSPEC; /* the next program, then the slow path */
	}
}

#endif
