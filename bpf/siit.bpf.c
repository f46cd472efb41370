// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * siit.bpf.c - the fast path of a SIIT.
 *
 *   siit_egress        tc, at the TUN device, to which routes lead
 *   siit_egress_l2     the same under test, where packets have an Ethernet header
 *   siit_ingress       tc, at an Ethernet interface, `inline` and `direct` placement
 *   siit_ingress_raw   tc, at an interface of bare IP
 *   siit_xdp           XDP, in the driver of an Ethernet interface, `xdp` placement
 *   siit_xdp_alone     the same under test, where no packet is forwarded
 */
#include "siit.h"
#include "tc/translate.h"
#include "xdp/translate.h"

SEC("tcx/egress")
int siit_egress(struct __sk_buff *skb)
{
	return translate_device(skb, 0, siit_4to6, siit_6to4);
}

/* For BPF_PROG_TEST_RUN, which gives every packet an Ethernet header. Not loaded unless asked for. */
SEC("?tcx/egress")
int siit_egress_l2(struct __sk_buff *skb)
{
	return translate_device(skb, ETH_HLEN, siit_4to6, siit_6to4);
}

SEC("tcx/ingress")
int siit_ingress(struct __sk_buff *skb)
{
	return translate_inline(skb, ETH_HLEN, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE);
}

SEC("tcx/ingress")
int siit_ingress_raw(struct __sk_buff *skb)
{
	return translate_inline(skb, 0, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE);
}

/* Loaded where a driver is to run it. */
SEC("?xdp")
int siit_xdp(struct xdp_md *ctx)
{
	return translate_xdp(ctx, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE, HAS_TABLES);
}

/* For BPF_PROG_TEST_RUN. */
SEC("?xdp")
int siit_xdp_alone(struct xdp_md *ctx)
{
	return translate_xdp(ctx, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE, !HAS_TABLES);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
