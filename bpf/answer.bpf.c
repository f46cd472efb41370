// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * answer.bpf.c - answers neighbours at an Ethernet interface, in front of the translation there.
 *
 *   answer_ingress     received packet → which question → answer (answer.h, answer_echo.h) → sent by the same interface
 */
#include "answer.h"
#include "answer_echo.h"

/* One byte of a packet, or -1. Most packets are not asked more than this. */
static __always_inline int byte_at(struct __sk_buff *skb, __u32 off)
{
	__u8 *data = (void *)(long)skb->data;
	__u8 byte;

	if ((void *)(data + off + 1) <= (void *)(long)skb->data_end)
		return data[off];
	return bpf_skb_load_bytes(skb, off, &byte, sizeof(byte)) ? -1 : byte;
}

static __always_inline int answered(struct __sk_buff *skb)
{
	struct diolkos_announcer *us;
	__u32 ifindex = skb->ifindex;
	int type = 0;

	/* A VLAN is a network of its own. */
	if (skb->vlan_present && skb->vlan_tci & VLAN_ID)
		return DIOLKOS_NOT_ASKED;
	switch (skb->protocol) {
	case bpf_htons(ETH_P_ARP):
		break;
	case bpf_htons(ETH_P_IP):
		if (byte_at(skb, ETH_HLEN + __builtin_offsetof(struct iphdr, protocol)) != IPPROTO_ICMP)
			return DIOLKOS_NOT_ASKED;
		break;
	case bpf_htons(ETH_P_IPV6):
		if (byte_at(skb, ETH_HLEN + __builtin_offsetof(struct ipv6hdr, nexthdr)) != IPPROTO_ICMPV6)
			return DIOLKOS_NOT_ASKED;
		type = byte_at(skb, ETH_HLEN + sizeof(struct ipv6hdr));
		break;
	default:
		return DIOLKOS_NOT_ASKED;
	}
	us = bpf_map_lookup_elem(&announcers, &ifindex);
	if (!us)
		return DIOLKOS_NOT_ASKED;
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return answer_arp(skb, us);
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return answer_echo4(skb, us);
	if (type == ICMPV6_NEIGHBOUR_SOLICITATION)
		return answer_neighbour(skb, us);
	if (type == ICMPV6_ECHO_REQUEST)
		return answer_echo6(skb, us);
	return DIOLKOS_NOT_ASKED;
}

SEC("tcx/ingress")
int answer_ingress(struct __sk_buff *skb)
{
	enum diolkos_answer fate = answered(skb);
	__u64 *count;

	if (fate == DIOLKOS_NOT_ASKED)
		return TC_ACT_UNSPEC;
	count = bpf_map_lookup_elem(&answers, &fate);
	if (count)
		(*count)++;
	if (fate < DIOLKOS_ANSWER_FAILED)
		return bpf_redirect(skb->ifindex, 0);
	return fate == DIOLKOS_ANSWER_FAILED ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
