/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ports.h - can a route depend on ports?
 *
 * Two things of the kernel look at them: policy rules about protocols and ports, and a multipath hash of another policy than 0,
 * which is the addresses' (net.ipv4.fib_multipath_hash_policy and that of IPv6). The kernel counts these rules, and has the
 * policies, in the network namespace; programs read them there, once in a tick. So no daemon has to hear of a change first. The
 * loader says where they lie, by the BTF of the running kernel. Where it cannot, ports can matter.
 */
#ifndef DIOLKOS_PORTS_H
#define DIOLKOS_PORTS_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

/* How the kernel is asked for a route: bits. */
enum asking {
	AT_TC = 0,
	AT_XDP = 1,
	CHECKS_SOURCE = 2, /* see look_up_route */
};

const volatile struct diolkos_namespace_layout netns = {};

/* For each CPU: the tick of its last look, and whether ports can matter (the lowest bit). One word, so a reader never sees half. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} port_ticks SEC(".maps");

/* ctx: the kernel's own struct sk_buff or struct xdp_buff. What cannot be read counts as yes. */
static __always_inline int read_ports_matter(void *ctx, enum asking how)
{
	void *device = ctx, *net = 0;
	__u32 rules4 = 1, rules6 = 1;
	__u8 hash4 = 1, hash6 = 1;

	if (how & AT_XDP && bpf_probe_read_kernel(&device, sizeof(device), ctx + netns.rxq_of_frame))
		return 1;
	if (bpf_probe_read_kernel(&device, sizeof(device),
				  device + (how & AT_XDP ? netns.device_of_rxq : netns.device_of_packet)) ||
	    bpf_probe_read_kernel(&net, sizeof(net), device + netns.of_device) ||
	    bpf_probe_read_kernel(&rules4, sizeof(rules4), net + netns.port_rules4) ||
	    bpf_probe_read_kernel(&rules6, sizeof(rules6), net + netns.port_rules6) ||
	    bpf_probe_read_kernel(&hash4, sizeof(hash4), net + netns.hash_policy4) ||
	    bpf_probe_read_kernel(&hash6, sizeof(hash6), net + netns.hash_policy6))
		return 1;
	return rules4 || rules6 || hash4 || hash6;
}

static __always_inline int ports_matter(void *ctx, enum asking how, __u64 tick)
{
	__u64 *known, word;
	__u32 key = 0;

	/* A constant to the verifier, which does not look at calls of a helper that this kernel does not give. */
	if (!netns.is_known)
		return 1;
	known = bpf_map_lookup_elem(&port_ticks, &key);
	if (!known)
		return 1;
	word = *(volatile __u64 *)known;
	if (word >> 1 != tick) {
		word = tick << 1 | read_ports_matter(ctx, how);
		*(volatile __u64 *)known = word;
	}
	return word & 1;
}

#endif
