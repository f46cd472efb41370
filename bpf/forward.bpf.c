// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * forward.bpf.c - forwards packets for which there is no session here to the gateway that has one or is to open one.
 *
 *   forward_egress   tc, at the TUN device, between the translation and the slow path (and label.bpf.c):
 *                    packet → gateway → sent to it. The rest goes on to the slow path
 *   forward_probe    the same question under test, where packets have an Ethernet header; returns what would be done
 *
 * A packet stays as it is, but for its hop limit.
 *
 * Why no packet goes round: it is forwarded at most once by programs, whatever gateways think of each other. Gateways send to
 * each other on links that nobody else uses: a VLAN, a cable, a macvlan device, a tunnel. A packet that has come in by such a
 * link is never forwarded here. The kernel keeps the index of that interface with the packet, up to the TUN device; neither the
 * packet's bytes, nor a mark, nor a table of other gateways is asked. The packet gets a label instead
 * (DIOLKOS_LABEL_FORWARDED), and the slow path decides.
 */
#include "forward.h"
#include "label_format.h"
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

/* What to do with a packet; below it, a gateway's place. */
#define DIOLKOS_PROBE_RETURNED 0x100 /* it comes from another gateway */
#define DIOLKOS_PROBE_TOO_BIG 0x200  /* for the way to the gateway */
#define DIOLKOS_PROBE_HOPS 0x400     /* its hops run out here */
#define DIOLKOS_PROBE_NO_WAY 0x800   /* the gateway is not reached */

static __always_inline int comes_from_gateway(const struct diolkos_cluster *c, __u32 ifindex)
{
	for (__u32 i = 0; i < DIOLKOS_LINKS && i < c->links; i++) {
		if (c->link[i] == ifindex)
			return 1;
	}
	return 0;
}

static __always_inline __u8 hop_limit_of(struct __sk_buff *skb, __u32 off)
{
	__u32 at = skb->protocol == bpf_htons(ETH_P_IPV6) ? __builtin_offsetof(struct ipv6hdr, hop_limit)
							  : __builtin_offsetof(struct iphdr, ttl);
	__u8 hop_limit = 0;

	bpf_skb_load_bytes(skb, off + at, &hop_limit, sizeof(hop_limit));
	return hop_limit;
}

#define TCP_LENGTH_AT 12

/* Bytes of the packet on the wire, or of the longest into which it will be cut; 0: that is not known. */
static __always_inline __u32 size_of(struct __sk_buff *skb, __u32 off)
{
	__u32 headers = sizeof(struct ipv6hdr);
	__u8 protocol, length;

	if (!skb->gso_size)
		return skb->len - off;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, off + __builtin_offsetof(struct ipv6hdr, nexthdr), &protocol, 1))
			return 0;
	} else {
		if (bpf_skb_load_bytes(skb, off, &length, 1) ||
		    bpf_skb_load_bytes(skb, off + __builtin_offsetof(struct iphdr, protocol), &protocol, 1))
			return 0;
		headers = (length & 0xf) * 4;
	}
	if (protocol == IPPROTO_UDP)
		return headers + 8 + skb->gso_size;
	if (protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, off + headers + TCP_LENGTH_AT, &length, 1))
		return 0;
	return headers + (length >> 4) * 4 + skb->gso_size;
}

/* The place of a gateway, with a reason if the packet is not sent there; DIOLKOS_OURS: it is for this one. `off`: of its IP header. */
static __always_inline __u32 verdict_of(struct __sk_buff *skb, __u32 off, const struct diolkos_cluster *c)
{
	struct diolkos_gateway *gateway;
	__u32 to = DIOLKOS_OURS, size;

	if (!c->is_on)
		return DIOLKOS_OURS;
	if (comes_from_gateway(c, skb->ingress_ifindex))
		return DIOLKOS_PROBE_RETURNED;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		to = goes_to6(skb, off, c);
	else if (skb->protocol == bpf_htons(ETH_P_IP))
		to = goes_to4(skb, off);
	if (to == DIOLKOS_OURS)
		return DIOLKOS_OURS;
	gateway = bpf_map_lookup_elem(&gateways, &to);
	if (!gateway || !gateway->ifindex)
		return to | DIOLKOS_PROBE_NO_WAY;
	if (hop_limit_of(skb, off) <= 1)
		return to | DIOLKOS_PROBE_HOPS;
	size = size_of(skb, off);
	if (!size || size > gateway->mtu)
		return to | DIOLKOS_PROBE_TOO_BIG;
	return to;
}

/* One hop less. 0, or what a helper refused. */
static __always_inline int shorten(struct __sk_buff *skb)
{
	__u8 hop_limit = hop_limit_of(skb, 0), less = hop_limit - 1;

	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_store_bytes(skb, __builtin_offsetof(struct ipv6hdr, hop_limit), &less, sizeof(less), 0);
	if (bpf_l3_csum_replace(skb, __builtin_offsetof(struct iphdr, check), bpf_htons(hop_limit << 8),
				bpf_htons(less << 8), sizeof(__be16)))
		return -1;
	return bpf_skb_store_bytes(skb, __builtin_offsetof(struct iphdr, ttl), &less, sizeof(less), 0);
}

/* Tells the slow path that the packet comes from another gateway. Its mark and priority are in the label. */
static __always_inline int label(struct __sk_buff *skb, struct diolkos_forward_count *count)
{
	struct diolkos_label_forwarded label = {
		.label = {
			.magic_be = bpf_htonl(DIOLKOS_LABEL_FORWARDED),
			.mark = skb->mark,
			.priority = skb->priority,
		},
		.link = skb->ingress_ifindex,
	};

	if (bpf_skb_change_head(skb, sizeof(label), 0) || bpf_skb_store_bytes(skb, 0, &label, sizeof(label), 0)) {
		/* Without its label it might be forwarded once more. */
		count->dropped++;
		return TC_ACT_SHOT;
	}
	/* Nor does it need another label. */
	skb->mark = 0;
	skb->priority = 0;
	count->returned++;
	return TC_ACT_UNSPEC;
}

SEC("tcx/egress")
int forward_egress(struct __sk_buff *skb)
{
	struct diolkos_forward_count *count;
	struct diolkos_gateway *gateway;
	__u32 zero = 0, verdict, to, len;
	struct diolkos_cluster *c;
	int action;

	if (has_label(skb)) {
		/* label_egress trusts in it that no label but ours gets there. */
		count = bpf_map_lookup_elem(&forwarded, &zero);
		if (count)
			count->forged++;
		return TC_ACT_SHOT;
	}
	c = bpf_map_lookup_elem(&cluster, &zero);
	verdict = c ? verdict_of(skb, 0, c) : DIOLKOS_OURS;
	to = verdict & 0xff;
	count = bpf_map_lookup_elem(&forwarded, &to);
	if (verdict == DIOLKOS_OURS || !count)
		return TC_ACT_UNSPEC;
	if (verdict == DIOLKOS_PROBE_RETURNED)
		return label(skb, count);
	if (verdict != to) {
		if (verdict & DIOLKOS_PROBE_TOO_BIG)
			count->too_big++;
		else if (verdict & DIOLKOS_PROBE_HOPS)
			count->hops++;
		else
			count->no_way++;
		return TC_ACT_UNSPEC;
	}
	gateway = bpf_map_lookup_elem(&gateways, &to);
	if (!gateway || !gateway->ifindex)
		return TC_ACT_UNSPEC;
	len = skb->len;
	action = shorten(skb) ? TC_ACT_SHOT : send_to(skb, gateway);
	if (action == TC_ACT_SHOT) {
		count->dropped++;
	} else {
		count->packets++;
		count->bytes += len;
	}
	return action;
}

/* For BPF_PROG_TEST_RUN. */
SEC("?tcx/egress")
int forward_probe(struct __sk_buff *skb)
{
	struct diolkos_cluster *c;
	__u32 zero = 0;

	c = bpf_map_lookup_elem(&cluster, &zero);
	return c ? verdict_of(skb, ETH_HLEN, c) : DIOLKOS_OURS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
