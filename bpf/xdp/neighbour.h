/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour.h - keeps the neighbours that XDP sends to confirmed.
 *
 * The look-up of a way gives the address of a neighbour that is stale, too, and XDP tells nobody that it is in use. So
 * about once a second one packet to each next hop goes the longer way: tc sends it through the kernel's neighbour table,
 * which then asks the neighbour, follows it to another address, or gives it up. (Managed neighbours would do the same,
 * but every host of a network would stay in the table for ever, and only while the daemon runs.)
 */
#ifndef DIOLKOS_XDP_NEIGHBOUR_H
#define DIOLKOS_XDP_NEIGHBOUR_H

#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#define NEXT_HOPS 4096    /* a power of two */
#define SECOND_IS_ABOUT 30 /* 2^30 ns */

/* By hash of the next hop: the rest of the hash, and the second in which a packet has gone the longer way. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NEXT_HOPS);
	__type(key, __u32);
	__type(value, __u64);
} next_hops SEC(".maps");

static __always_inline __u64 hash_of_next_hop(const struct bpf_fib_lookup *way)
{
	__u64 h = way->ifindex;

	for (int i = 0; i < 4; i++) {
		h = (h ^ way->ipv6_dst[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return h;
}

/*
 * 1: a packet has gone to the next hop through the kernel this second. Two next hops that share a place turn each other
 * out, and then more of their packets go the longer way.
 */
static __always_inline int is_confirmed(const struct bpf_fib_lookup *way)
{
	__u64 h = hash_of_next_hop(way);
	__u64 now = (h & 0xffffffff00000000ULL) | (__u32)(bpf_ktime_get_coarse_ns() >> SECOND_IS_ABOUT);
	__u32 key = h & (NEXT_HOPS - 1);
	__u64 *at = bpf_map_lookup_elem(&next_hops, &key);

	if (!at)
		return 0;
	if (*at == now)
		return 1;
	*at = now;
	return 0;
}

#endif
