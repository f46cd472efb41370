/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * hop_cache.h - next hops whose link-layer addresses were looked up in this tick.
 *
 *   read_hop          exit and link-layer addresses of a next hop, if the kernel told them in this tick
 *   note_hop          notes what a look-up has told, and by which place and number a route names the next hop
 *   is_another_hop    does a look-up contradict what a route knew?
 *
 * Routes change seldom, and the kernel counts their changes (routing.h). Neighbours change more often, and are not counted. So a
 * next hop is asked for once in a tick, by the first packet that goes there: all routes that lead there share the answer. A gateway
 * has one to four next hops, or as many as it has neighbours.
 */
#ifndef DIOLKOS_HOP_CACHE_H
#define DIOLKOS_HOP_CACHE_H

#include "routing.h"

/* A power of two. By hash of the next hop: of two in use that share a place, the packets of one ask the kernel. */
#define HOPS 4096

struct known_hop {
	__u32 ifindex; /* of the exit */
	__u32 family;
	__u32 address[4];
	__u32 tick;
	__u32 number;   /* of this next hop, since it has the place */
	__u32 sequence; /* odd: it is being written */
	__u8 macs[12];  /* as bpf_fib_lookup has them */
	__u32 filler[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOPS);
	__type(key, __u32);
	__type(value, struct known_hop);
} tc_hops SEC(".maps"), xdp_hops SEC(".maps");

static __always_inline void copy_macs(void *to, const void *from)
{
	__u32 *out = to;
	const __u32 *in = from;

	for (int i = 0; i < 3; i++)
		out[i] = in[i];
}

/* What a route knows of its next hop. */
struct hop_of_route {
	__u32 place;
	__u32 number;
};

static __always_inline int is_known_hop(const struct known_hop *hop, const struct bpf_fib_lookup *route)
{
	return hop->ifindex == route->ifindex && hop->family == route->family &&
	       hop->address[0] == route->ipv6_dst[0] && hop->address[1] == route->ipv6_dst[1] &&
	       hop->address[2] == route->ipv6_dst[2] && hop->address[3] == route->ipv6_dst[3];
}

static __always_inline __u32 place_of_known_hop(const struct bpf_fib_lookup *route)
{
	__u64 h = (__u64)route->ifindex << 32 | route->ipv6_dst[0];

	for (int i = 1; i < 4; i++) {
		h = (h ^ route->ipv6_dst[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return h & (HOPS - 1);
}

/* 1: `route` has the exit and the MAC addresses. As with routes, a reader discards what was being written meanwhile (route_cache.h). */
static __always_inline int read_hop(void *hops, const struct hop_of_route *its, __u64 tick,
				    struct bpf_fib_lookup *route)
{
	const struct known_hop *hop = bpf_map_lookup_elem(hops, &its->place);
	__u32 sequence;

	if (!hop)
		return 0;
	sequence = *(volatile __u32 *)&hop->sequence;
	barrier();
	if (sequence & 1 || hop->number != its->number || hop->tick != (__u32)tick)
		return 0;
	route->ifindex = hop->ifindex;
	copy_macs(route->smac, hop->macs);
	barrier();
	return *(volatile __u32 *)&hop->sequence == sequence;
}

/* Is it another next hop than the one that a route knew, which still has its place? One that was turned out cannot be compared. */
static __always_inline int is_another_hop(void *hops, const struct hop_of_route *its,
					  const struct bpf_fib_lookup *route)
{
	const struct known_hop *hop = bpf_map_lookup_elem(hops, &its->place);

	return hop && hop->number == its->number && !is_known_hop(hop, route);
}

/*
 * route: the kernel's answer in this tick. False if another packet is writing, or another next hop was used in this tick: that
 * one stays, for otherwise all routes that lead there would ask the kernel again.
 */
static __always_inline int note_hop(void *hops, struct routing_state *state, __u64 tick,
				    const struct bpf_fib_lookup *route, struct hop_of_route *its)
{
	struct known_hop *hop;
	__u32 sequence;

	its->place = place_of_known_hop(route);
	hop = bpf_map_lookup_elem(hops, &its->place);
	if (!hop)
		return 0;
	if (!is_known_hop(hop, route) && hop->tick == (__u32)tick)
		return 0;
	sequence = *(volatile __u32 *)&hop->sequence;
	if (sequence & 1 || __sync_val_compare_and_swap(&hop->sequence, sequence, sequence + 1) != sequence)
		return 0;
	if (!is_known_hop(hop, route)) {
		hop->ifindex = route->ifindex;
		hop->family = route->family;
		for (int i = 0; i < 4; i++)
			hop->address[i] = route->ipv6_dst[i];
		hop->number = __sync_fetch_and_add(&state->hops, 1) + 1;
	}
	hop->tick = tick;
	copy_macs(hop->macs, route->smac);
	its->number = hop->number;
	barrier();
	*(volatile __u32 *)&hop->sequence = sequence + 2;
	return 1;
}

_Static_assert(sizeof(struct known_hop) == 64, "no implicit padding");
_Static_assert(__builtin_offsetof(struct bpf_fib_lookup, smac) % 4 == 0 &&
		   __builtin_offsetof(struct bpf_fib_lookup, dmac) ==
		       __builtin_offsetof(struct bpf_fib_lookup, smac) + 6,
	       "one after the other");

#endif
