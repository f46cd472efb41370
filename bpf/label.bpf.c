// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * label.bpf.c - lets a packet's mark and priority survive the slow path, which also sends packets to other gateways by it.
 *
 *   label_egress    tc, at the TUN device, behind the translation: mark, priority → in front of the packet
 *   label_ingress   tc, at the TUN device, in front of all others: slot of the queue → mark, priority; packet → gateway
 *
 * write(2) hands a packet to the kernel before it returns. So the slot of a queue is set while the packet is on its way to
 * label_ingress, and at no other time. Where the kernel takes it to another CPU first (RPS), the slot is empty when it gets there.
 * The packet then goes on without mark and priority. One for another gateway is dropped by the kernel, since it is spoilt (label.h):
 * its destination would lead it back to this device, and so round in circles.
 */
#include "label.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#define EINVAL 22

/* forward_egress comes first at this device. */
const volatile __u32 is_behind_forward = 0;

SEC("tcx/egress")
int label_egress(struct __sk_buff *skb)
{
	struct diolkos_label label = {
		.magic_be = bpf_htonl(DIOLKOS_LABEL_MAGIC),
		.mark = skb->mark,
		.priority = skb->priority,
	};
	struct diolkos_label_count *count;
	__u32 only = 0;
	int error;

	count = bpf_map_lookup_elem(&label_count, &only);
	if (!is_behind_forward && has_label(skb)) {
		if (count)
			__sync_fetch_and_add(&count->forged, 1);
		return TC_ACT_SHOT;
	}
	if (!label.mark && !label.priority)
		return TC_ACT_UNSPEC;
	error = bpf_skb_change_head(skb, sizeof(label), 0);
	if (!error && !bpf_skb_store_bytes(skb, 0, &label, sizeof(label), 0))
		return TC_ACT_UNSPEC;
	/* The helper takes no single packet of more than 16 KiB, as a router between links with such an MTU has. */
	if (error == -EINVAL) {
		if (count)
			__sync_fetch_and_add(&count->lost, 1);
		return TC_ACT_UNSPEC;
	}
	/* Without its mark it might take a way that it must not. */
	if (count)
		__sync_fetch_and_add(&count->dropped, 1);
	return TC_ACT_SHOT;
}

/* Whether it is the packet that the slow path is writing. */
static __always_inline int is_of(struct __sk_buff *skb, const struct diolkos_label_slot *slot)
{
	__u64 head[DIOLKOS_LABEL_HEAD / 8] = {};
	__u32 len = skb->len;

	if (slot->len != len || len < sizeof(struct iphdr))
		return 0;
	if (len > sizeof(head))
		len = sizeof(head);
	if (bpf_skb_load_bytes(skb, 0, head, len))
		return 0;
	for (int at = 0; at < DIOLKOS_LABEL_HEAD / 8; at++)
		if (head[at] != slot->head[at])
			return 0;
	return 1;
}

/* Mends the packet and sends it. */
static __always_inline int send_on(struct __sk_buff *skb, __u32 state)
{
	__u32 to = DIOLKOS_SLOT_GATEWAY(state), only = 0;
	struct diolkos_gateway *gateway = bpf_map_lookup_elem(&gateways, &to);
	struct diolkos_label_count *count = bpf_map_lookup_elem(&label_count, &only);
	int at = skb->protocol == bpf_htons(ETH_P_IPV6) ? DIOLKOS_SPOILT6 : DIOLKOS_SPOILT4;
	__u8 right = DIOLKOS_SLOT_RIGHT(state);
	int action;

	if (!gateway || !gateway->ifindex) {
		if (count)
			__sync_fetch_and_add(&count->no_way, 1);
		return TC_ACT_SHOT;
	}
	action = bpf_skb_store_bytes(skb, at, &right, sizeof(right), 0) ? TC_ACT_SHOT : send_to(skb, gateway);
	if (action == TC_ACT_SHOT && count)
		__sync_fetch_and_add(&count->dropped, 1);
	return action;
}

SEC("tcx/ingress")
int label_ingress(struct __sk_buff *skb)
{
	/* The kernel counts from 1; without a queue there is no slot. */
	__u32 queue = skb->queue_mapping - 1, state, mark, priority;
	struct diolkos_label_slot *slot = bpf_map_lookup_elem(&label_slots, &queue);

	if (!slot)
		return TC_ACT_UNSPEC;
	state = *(volatile __u32 *)&slot->state;
	if (!(state & DIOLKOS_SLOT_SET) || !is_of(skb, slot))
		return TC_ACT_UNSPEC;
	mark = slot->mark;
	priority = slot->priority;
	/* Another packet may have the slot by now, if this one comes late. */
	if (__sync_val_compare_and_swap(&slot->state, state, 0) != state)
		return TC_ACT_UNSPEC;
	skb->mark = mark;
	skb->priority = priority;
	return DIOLKOS_SLOT_GATEWAY(state) ? send_on(skb, state) : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
