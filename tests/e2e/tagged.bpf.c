// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * tagged.bpf.c - VLAN tags on a virtual link, on kernels that have no VLAN interfaces too.
 *
 *   push   at an egress: tags every IP packet with INNER (unless it is NONE), then with OUTER
 *   drop   at an ingress: drops what still has these tags, so that the queueing discipline counts it
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#define NONE 0x10000 /* no tag control information is as long */

SEC("classifier/push")
int push(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return TC_ACT_UNSPEC;
	if (INNER != NONE && bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), INNER))
		return TC_ACT_SHOT;
	if (bpf_skb_vlan_push(skb, bpf_htons(INNER == NONE ? ETH_P_8021Q : ETH_P_8021AD), OUTER))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

SEC("classifier/drop")
int drop(struct __sk_buff *skb)
{
	__be16 inner_be;

	if (!skb->vlan_present || skb->vlan_tci != OUTER)
		return TC_ACT_UNSPEC;
	if (INNER == NONE)
		return TC_ACT_SHOT;
	if (skb->protocol != bpf_htons(ETH_P_8021Q) || bpf_skb_load_bytes(skb, ETH_HLEN, &inner_be, sizeof(inner_be)))
		return TC_ACT_UNSPEC;
	return inner_be == bpf_htons(INNER) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
