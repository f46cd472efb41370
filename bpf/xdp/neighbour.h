/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour.h - keeps the neighbours that XDP sends to confirmed.
 *
 * The look-up of a route returns the address of a stale neighbour, too, and XDP tells nobody that it uses one. So the
 * program notes the next hops in use, and the daemon tells the kernel of them (NTF_USE), which then asks the neighbour,
 * follows it to another address, or gives it up. Where no daemon runs, one packet every few seconds takes the way of tc,
 * which tells the kernel by itself. (Managed neighbours would need no packet. But
 * somebody has to bound and remove them, and they would be probed for ever.)
 */
#ifndef DIOLKOS_XDP_NEIGHBOUR_H
#define DIOLKOS_XDP_NEIGHBOUR_H

#include "../abi.h"
#include <bpf/bpf_helpers.h>

/* By hash of the next hop. Two that share a place turn each other out, and then more of their packets go to tc. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIOLKOS_USED_HOPS);
	__type(key, __u32);
	__type(value, struct diolkos_used_hop);
} used_hops SEC(".maps");

/* When the kernel last heard of the next hop at the same place. The daemon writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIOLKOS_USED_HOPS);
	__type(key, __u32);
	__type(value, __u32);
} reported_hops SEC(".maps");

static __always_inline __u32 place_of_hop(const struct bpf_fib_lookup *route)
{
	__u64 h = route->ifindex;

	for (int i = 0; i < 4; i++) {
		h = (h ^ route->ipv6_dst[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return h & (DIOLKOS_USED_HOPS - 1);
}

static __always_inline int is_hop(const struct diolkos_used_hop *hop, const struct bpf_fib_lookup *route)
{
	return hop->ifindex == route->ifindex && hop->family == route->family &&
	       hop->address[0] == route->ipv6_dst[0] && hop->address[1] == route->ipv6_dst[1] &&
	       hop->address[2] == route->ipv6_dst[2] && hop->address[3] == route->ipv6_dst[3];
}

/*
 * 1: the kernel knows that the next hop is in use. 0: this packet has to tell it, by the way of tc. Out of line: asked once in
 * a tick, and the stack that Linux 6.1 allows has no room for more in the program.
 */
static __noinline int is_confirmed(const struct bpf_fib_lookup *route)
{
	__u32 now = bpf_ktime_get_coarse_ns() >> DIOLKOS_HOP_TICK, key = place_of_hop(route);
	struct diolkos_used_hop *hop = bpf_map_lookup_elem(&used_hops, &key);
	__u32 *reported = bpf_map_lookup_elem(&reported_hops, &key);

	if (!hop || !reported)
		return 0;
	if (!is_hop(hop, route)) {
		int is_new = !hop->ifindex;

		hop->ifindex = route->ifindex;
		hop->family = route->family;
		for (int i = 0; i < 4; i++)
			hop->address[i] = route->ipv6_dst[i];
		hop->used = now;
		*reported = now;
		return is_new;
	}
	/* Written only when the clock has moved: CPUs share the entry. */
	if (hop->used != now)
		hop->used = now;
	if (now - *reported <= DIOLKOS_HOP_REPORTED_TICKS)
		return 1;
	*reported = now;
	return 0;
}

#endif
