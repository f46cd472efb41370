// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * siit.bpf.c - the fast path of a SIIT.
 *
 *   siit_egress        tc, at the TUN device, to which routes lead
 *   siit_egress_l2     the same under test, where packets have an Ethernet header
 *   siit_ingress       tc, at an Ethernet interface, `inline` and `direct` placement
 *   siit_ingress_raw   tc, at an interface of bare IP
 */
#include "siit.h"
#include "tc/isthmus.h"

SEC("tcx/egress")
int siit_egress(struct __sk_buff *skb)
{
	return isthmus(skb, 0, siit_4to6, siit_6to4);
}

/* For BPF_PROG_TEST_RUN, which gives every packet an Ethernet header. Not loaded unless asked for. */
SEC("?tcx/egress")
int siit_egress_l2(struct __sk_buff *skb)
{
	return isthmus(skb, ETH_HLEN, siit_4to6, siit_6to4);
}

SEC("tcx/ingress")
int siit_ingress(struct __sk_buff *skb)
{
	return isthmus_inline(skb, ETH_HLEN, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE);
}

SEC("tcx/ingress")
int siit_ingress_raw(struct __sk_buff *skb)
{
	return isthmus_inline(skb, 0, siit_inline_4to6, siit_inline_6to4, SIIT_CHECKS_SOURCE);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
