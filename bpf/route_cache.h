/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * route_cache.h - routes that were looked up a moment ago.
 *
 *   find_route   like look_up_route, and asks the kernel only if this CPU has not asked it the same in this tick
 *
 * Invariant: a packet leaves by an exit, to a neighbour and with a size that the kernel's tables gave to this packet at most one
 * tick of the kernel's clock ago (1 to 10 ms), as if it had left so much earlier.
 *
 * An answer is used only in the tick in which it was asked for, so the daemon need not watch what changes, and nothing is left
 * of an answer when the daemon ends. It is used only for packets that the kernel cannot tell apart: the key has all that the
 * look-up sees, which is interface, traffic class, protocol, both addresses, and the ports where they can matter (ports.h).
 */
#ifndef DIOLKOS_ROUTE_CACHE_H
#define DIOLKOS_ROUTE_CACHE_H

#include "ports.h"
#include "route.h"
#include <bpf/bpf_helpers.h>

/* A CPU forwards some thousand packets in a tick, so more routes would hardly be used twice, and be in no cache of the CPU. */
#define ROUTE_SETS 512 /* a power of two */
#define ROUTES_OF_SET 4

/* What is compared before the rest comes first: one line of the CPU's cache, and one for each route. */
struct route_set {
	__u64 tick[ROUTES_OF_SET];     /* in which it was asked for; 0: none */
	__u32 sequence[ROUTES_OF_SET]; /* odd: it is being written */
	__u16 mtu[ROUTES_OF_SET];
	__u16 tag[ROUTES_OF_SET]; /* of the key's hash */
	struct {
		__u64 key[ROUTE_KEY_WORDS];
		__u32 ifindex;
		__u8 macs[12]; /* as bpf_fib_lookup has them */
	} route[ROUTES_OF_SET];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_SETS);
	__type(key, __u32);
	__type(value, struct route_set);
} tc_routes SEC(".maps");

static __always_inline __u64 hash_of_key(__u64 first, const __u64 *k)
{
	__u64 h = (first ^ k[2] ^ k[5]) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ k[1] ^ k[3] ^ k[4]) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

static __always_inline void copy_macs(void *to, const void *from)
{
	__u32 *out = to;
	const __u32 *in = from;

	for (int i = 0; i < 3; i++)
		out[i] = in[i];
}

/* Which of a set's routes has this tick and tag, or -1. */
static __always_inline int place_in_set(const struct route_set *set, __u64 tick, __u16 tag)
{
	for (int i = 0; i < ROUTES_OF_SET; i++) {
		if (set->tick[i] == tick && set->tag[i] == tag)
			return i;
	}
	return -1;
}

/* Which one a new route takes: one that is of no use any more, or else any. */
static __always_inline __u32 victim_in_set(const struct route_set *set, __u64 tick, __u16 tag)
{
	for (int i = 0; i < ROUTES_OF_SET; i++) {
		if (set->tick[i] != tick)
			return i;
	}
	return tag % ROUTES_OF_SET;
}

/*
 * With PREEMPT_RT, a packet may interrupt another one of the same CPU. So each route has one writer at a time, and a reader
 * discards a route whose sequence number has changed meanwhile. 1: `route` has exit and MAC addresses.
 */
static __always_inline int read_route(const struct route_set *set, __u32 at, const struct route_key *k, __u64 first,
				      struct bpf_fib_lookup *route)
{
	__u32 sequence;

	at &= ROUTES_OF_SET - 1;
	sequence = *(volatile __u32 *)&set->sequence[at];
	barrier();
	if (sequence & 1 || k->len > set->mtu[at] || set->route[at].key[0] != first ||
	    set->route[at].key[1] != k->word[1] || set->route[at].key[2] != k->word[2] ||
	    set->route[at].key[3] != k->word[3] || set->route[at].key[4] != k->word[4] ||
	    set->route[at].key[5] != k->word[5])
		return 0;
	route->ifindex = set->route[at].ifindex;
	copy_macs(route->smac, set->route[at].macs);
	barrier();
	return *(volatile __u32 *)&set->sequence[at] == sequence;
}

static __always_inline void write_route(struct route_set *set, __u32 at, const struct route_key *k, __u64 first,
					__u64 tick, __u16 tag, const struct bpf_fib_lookup *route)
{
	__u32 sequence;

	at &= ROUTES_OF_SET - 1;
	sequence = *(volatile __u32 *)&set->sequence[at];
	if (sequence & 1 || __sync_val_compare_and_swap(&set->sequence[at], sequence, sequence + 1) != sequence)
		return;
	set->tick[at] = tick;
	set->tag[at] = tag;
	set->mtu[at] = route->mtu_result;
	set->route[at].key[0] = first;
	for (int i = 1; i < ROUTE_KEY_WORDS; i++)
		set->route[at].key[i] = k->word[i];
	set->route[at].ifindex = route->ifindex;
	copy_macs(set->route[at].macs, route->smac);
	barrier();
	*(volatile __u32 *)&set->sequence[at] = sequence + 2;
}

#define FOUND_ROUTE 1
#define KNOWN_ROUTE 2 /* the kernel was not asked: of `route` there are only the exit and the MAC addresses */

/*
 * As look_up_route; 0, or FOUND_ROUTE, perhaps with KNOWN_ROUTE. routes: those of the hook. Each hook has its own way to tell the
 * kernel that it uses a neighbour. Out of line: the stack that Linux 6.1 allows has no room for this beside what opens a session.
 */
static __noinline int find_route(void *ctx, void *routes, const struct route_key *k, struct bpf_fib_lookup *route,
				 enum asking how)
{
	/* Before anything is looked up. */
	__u64 tick = bpf_jiffies64();
	__u64 first = ports_matter(ctx, how, tick) ? k->word[0] : WITHOUT_PORTS(k->word[0]);
	__u64 hash = hash_of_key(first, k->word);
	__u32 place = hash & (ROUTE_SETS - 1);
	__u16 tag = hash >> 32;
	struct route_set *set = bpf_map_lookup_elem(routes, &place);
	int at;

	if (!set)
		return 0;
	at = place_in_set(set, tick, tag);
	if (at >= 0 && read_route(set, at, k, first, route))
		return FOUND_ROUTE | KNOWN_ROUTE;
	if (!look_up_route(ctx, k, route, how & CHECKS_SOURCE))
		return 0;
	/* Ports that have begun to matter since the tick began may have decided already: the answer is for this packet alone. */
	if (first != k->word[0] && read_ports_matter(ctx, how))
		return FOUND_ROUTE;
	write_route(set, at >= 0 ? (__u32)at : victim_in_set(set, tick, tag), k, first, tick, tag, route);
	return FOUND_ROUTE;
}

_Static_assert(sizeof(struct route_set) == 64 + ROUTES_OF_SET * 64, "no implicit padding");
_Static_assert(__builtin_offsetof(struct bpf_fib_lookup, smac) % 4 == 0 &&
		   __builtin_offsetof(struct bpf_fib_lookup, dmac) ==
		       __builtin_offsetof(struct bpf_fib_lookup, smac) + 6,
	       "one after the other");

#endif
