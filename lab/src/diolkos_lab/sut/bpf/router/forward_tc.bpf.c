// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * forward_tc.bpf.c - a router at tc ingress: the least that forwards as the kernel would.
 *
 *   find_way ─► bpf_fib_lookup ─► pass_on ─► bpf_redirect         else: on to the kernel
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "forward.h"

SEC("tc")
int forward(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct bpf_fib_lookup way = { .ifindex = skb->ifindex };
	int is_ipv4;

	/* Whether a super-packet fits is a question of its segments. */
	if (skb->gso_size || find_way(data, end, &way))
		return TC_ACT_OK;
	is_ipv4 = way.family == ROUTER_AF_INET;
	if (bpf_fib_lookup(skb, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return TC_ACT_OK;
	/* An IPv4 packet whose next hop is an IPv6 router (RFC 8950) has another family by now. */
	if (pass_on(data, end, &way, is_ipv4))
		return TC_ACT_OK;
	return bpf_redirect(way.ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
