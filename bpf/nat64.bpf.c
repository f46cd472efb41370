// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * nat64.bpf.c - the fast path of a NAT64.
 *
 *   nat64_egress        tc, at the TUN device, to which routes lead
 *   nat64_egress_l2     the same under test, where packets have an Ethernet header
 *   nat64_ingress       tc, at an Ethernet interface, `inline` and `direct` placement
 *   nat64_ingress_raw   tc, at an interface of bare IP
 *   nat64_xdp           XDP, in the driver of an Ethernet interface, `xdp` placement
 *   nat64_xdp_alone     the same under test, where no packet is forwarded
 */
#include "nat64.h"
#include "tc/translate.h"
#include "xdp/translate.h"

SEC("tcx/egress")
int nat64_egress(struct __sk_buff *skb)
{
	return translate_device(skb, 0, to_node_at_device, to_peer);
}

/* For BPF_PROG_TEST_RUN, which gives every packet an Ethernet header. Not loaded unless asked for. */
SEC("?tcx/egress")
int nat64_egress_l2(struct __sk_buff *skb)
{
	return translate_device(skb, ETH_HLEN, to_node_at_device, to_peer);
}

SEC("tcx/ingress")
int nat64_ingress(struct __sk_buff *skb)
{
	return translate_inline(skb, ETH_HLEN, to_node, to_peer, NAT64_CHECKS_SOURCE);
}

SEC("tcx/ingress")
int nat64_ingress_raw(struct __sk_buff *skb)
{
	return translate_inline(skb, 0, to_node, to_peer, NAT64_CHECKS_SOURCE);
}

/* Loaded where a driver is to run it. */
SEC("?xdp")
int nat64_xdp(struct xdp_md *ctx)
{
	return translate_xdp(ctx, to_node, to_peer, NAT64_CHECKS_SOURCE, HAS_TABLES);
}

/* For BPF_PROG_TEST_RUN. */
SEC("?xdp")
int nat64_xdp_alone(struct xdp_md *ctx)
{
	return translate_xdp(ctx, to_node, to_peer, NAT64_CHECKS_SOURCE, !HAS_TABLES);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
