/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * isthmus.h - where a router's packets change family.
 *
 *   isthmus          at the TUN device: a packet that a route led there leaves it in the other family, as received from
 *                    the device, so that the kernel routes it on, past all its rules. What is declined goes on to the
 *                    slow path unchanged
 *   isthmus_inline   at the ingress of an interface, before any routing: a packet goes on as if it had been received in
 *                    the other family, or is sent out of another interface at once (direct.h). What is declined goes the
 *                    long way, over the device
 */
#ifndef DIOLKOS_ISTHMUS_H
#define DIOLKOS_ISTHMUS_H

#include "direct.h"
#include "maps.h"
#include "vlan.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
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

/* A short packet fills its Ethernet frame with zeros, which the kernel would cut off where it begins with IPv4. */
static __always_inline void cut_padding(struct __sk_buff *skb, __u32 l2)
{
	__be16 tot_len_be;
	__u32 len;

	if (skb->len > l2 + ETH_ZLEN)
		return;
	if (bpf_skb_load_bytes(skb, l2 + __builtin_offsetof(struct iphdr, tot_len), &tot_len_be, sizeof(tot_len_be)))
		return;
	len = l2 + bpf_ntohs(tot_len_be);
	if (len >= l2 + sizeof(struct iphdr) && len < skb->len)
		bpf_skb_change_tail(skb, len, 0);
}

/*
 * l2: 14 on Ethernet, 0 on a bare IP link. checks_source: see send_direct. What the translation declines is counted at
 * the device, if it comes there.
 */
static __always_inline int isthmus_inline(struct __sk_buff *skb, __u32 l2, translate_fn from_v4, translate_fn from_v6,
					  int checks_source)
{
	__be16 becomes_be;
	__u32 len;
	int fate;

	if (!is_for_host(skb))
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		cut_padding(skb, l2);
	len = skb->len - l2;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		fate = from_v4(skb, l2);
		becomes_be = bpf_htons(ETH_P_IPV6);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		fate = from_v6(skb, l2);
		becomes_be = bpf_htons(ETH_P_IP);
	} else {
		return TC_ACT_UNSPEC;
	}

	if (l2 && (fate == DIOLKOS_TRANSLATED_4TO6 || fate == DIOLKOS_TRANSLATED_6TO4)) {
		struct ethhdr *eth = (void *)(long)skb->data;

		if ((void *)(eth + 1) > (void *)(long)skb->data_end)
			fate = DIOLKOS_FAILED;
		else
			eth->h_proto = becomes_be;
	}
	switch (fate) {
	case DIOLKOS_TRANSLATED_4TO6:
	case DIOLKOS_TRANSLATED_6TO4:
		count(fate, len);
		return l2 ? send_direct(skb, checks_source) : TC_ACT_UNSPEC;
	case DIOLKOS_FAILED:
		count(fate, len);
		return TC_ACT_SHOT;
	default:
		break;
	}
	return TC_ACT_UNSPEC; /* the next program, then the kernel */
}

#endif
