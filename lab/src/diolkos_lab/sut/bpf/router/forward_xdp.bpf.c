// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * forward_xdp.bpf.c - the same router in the driver, before the kernel makes a packet of a frame.
 *
 *   find_way ─► bpf_fib_lookup ─► pass_on ─► bpf_redirect         else: on to the kernel
 *
 * A frame leaves by ndo_xdp_xmit of the other device. A virtual Ethernet takes it only if its peer polls: with a program
 * of its own, or with GRO on. Nobody completes checksums that were left to a device (offload) on this way.
 */
#include "forward.h"

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup way = { .ifindex = ctx->ingress_ifindex };
	int is_ipv4;

	if (find_way(data, end, &way))
		return XDP_PASS;
	is_ipv4 = way.family == ROUTER_AF_INET;
	if (bpf_fib_lookup(ctx, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	if (pass_on(data, end, &way, is_ipv4))
		return XDP_PASS;
	return bpf_redirect(way.ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
