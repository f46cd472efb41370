/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * vlan.h - which received packets are the host's, on the network of the interface itself.
 *
 *   is_for_host        sent to this host, and in no VLAN: a VLAN is a network of its own
 *   drop_priority_tag  for a packet that does not pass the place where the kernel does it
 *
 * A tag with VLAN 0 is a priority and no network (IEEE 802.1Q). The kernel removes it behind these programs.
 */
#ifndef DIOLKOS_VLAN_H
#define DIOLKOS_VLAN_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>

#define VLAN_ID 0x0fff
#define OF_THIS_HOST 0 /* PACKET_HOST */

/* Behind the link-layer header, if a packet has more tags than one. */
struct inner_tag {
	__be16 tci_be;
	__be16 protocol_be;
};

/* Two priority tags become one, as in the kernel. Any other pair of tags stays as it is. 0, or -1. */
static __always_inline int unstack_priority_tags(struct __sk_buff *skb)
{
	struct inner_tag inner;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &inner, sizeof(inner)) || inner.tci_be & bpf_htons(VLAN_ID))
		return -1;
	if (inner.protocol_be != bpf_htons(ETH_P_IP) && inner.protocol_be != bpf_htons(ETH_P_IPV6))
		return -1;
	return bpf_skb_vlan_pop(skb) ? -1 : 0;
}

static __always_inline int is_for_host(struct __sk_buff *skb)
{
	if (skb->pkt_type != OF_THIS_HOST)
		return 0;
	if (!skb->vlan_present)
		return 1;
	if (skb->vlan_tci & VLAN_ID)
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_8021Q) || skb->protocol == bpf_htons(ETH_P_8021AD))
		return !unstack_priority_tags(skb);
	return 1;
}

/* 0, or -1. Pointers into the packet have to be read again. */
static __always_inline int drop_priority_tag(struct __sk_buff *skb)
{
	return skb->vlan_present && bpf_skb_vlan_pop(skb) ? -1 : 0;
}

#endif
