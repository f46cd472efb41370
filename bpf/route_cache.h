/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * route_cache.h - routes that were looked up before.
 *
 *   find_route   like look_up_route, and asks the kernel only what this CPU does not know
 *
 * Invariant: a packet leaves by an exit, to a neighbour and with a size that the kernel's tables gave to this packet at most one
 * tick of the kernel's clock ago (1 to 10 ms), as if it had left so much earlier.
 *
 * An answer is used for packets that the kernel cannot tell apart: the key has all that the look-up sees, which is interface,
 * traffic class, protocol, both addresses, and the ports where they can matter (routing.h). It is used while the kernel counts no
 * change of routes and rules, and its next hop is asked for once in a tick (hop_cache.h). So the daemon need not watch what
 * changes, and nothing is left of an answer when the daemon ends.
 *
 * Some changes are not counted: among them an MTU of a link in IPv6, a next hop that is replaced or removed inside a group, a route of
 * IPv6 that expires, a switch that forbids forwarding. If the packet that asks for a next hop gets another answer than its route knew,
 * all routes are asked for again; and no answer is used for longer than ROUTE_TICKS. Where the kernel's numbers cannot be read, an
 * answer is used in its tick only.
 *
 * Where the kernel counts all the time (a route that flaps; Packets Too Big, each about another destination), each key asks once in a
 * tick. Only a key without a place asks more often: there are more keys than places, or its next hop shares a place (hop_cache.h).
 */
#ifndef DIOLKOS_ROUTE_CACHE_H
#define DIOLKOS_ROUTE_CACHE_H

#include "hop_cache.h"
#include "route.h"
#include "routing.h"
#include <bpf/bpf_helpers.h>

/* Sets for one CPU at most. The loader gives fewer to each of many CPUs, among which cards spread flows. */
#define ROUTE_SETS 4096 /* a power of two */
#define ROUTES_OF_SET 4

/* 64 ms to 640 ms. With thousands of routes, the CPU's time for asking again is some hundredths. */
#define ROUTE_TICKS 64

/* What is compared before the rest comes first: one line of the CPU's cache, and one for each route. */
struct route_set {
	__u32 tick[ROUTES_OF_SET];     /* in which it was asked for */
	__u32 epoch[ROUTES_OF_SET];    /* of the kernel's answer, see ask_route */
	__u32 sequence[ROUTES_OF_SET]; /* odd: it is being written */
	__u16 mtu[ROUTES_OF_SET];
	__u16 tag[ROUTES_OF_SET]; /* of the key's hash */
	struct {
		__u64 key[ROUTE_KEY_WORDS];
		struct hop_of_route hop;
		__u64 filler;
	} route[ROUTES_OF_SET];
};

/* One for each hook, for each has its own way to tell the kernel that it uses a neighbour. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_SETS);
	__type(key, __u32);
	__type(value, struct route_set);
} tc_routes SEC(".maps"), xdp_routes SEC(".maps");

/* Hosts of one network may differ only in the highest bits of a word: each step carries those to the lower half. */
static __always_inline __u64 hash_of_key(__u64 first, const __u64 *k)
{
	__u64 h = (first ^ k[2] ^ k[5]) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ k[1] ^ k[3] ^ k[4]) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

/* Now: the tick and the epoch of a packet. */
struct route_time {
	__u64 tick;
	__u32 epoch;
};

/* Where a packet's route is in the cache of its hook, or would be. */
struct route_place {
	struct route_set *set;
	__u64 first; /* word of the key */
	struct route_time now;
	__u16 tag;
};

/* Is a place's answer still valid, but for its next hop? */
static __always_inline int is_valid(const struct route_set *set, __u32 at, const struct route_time *now)
{
	__u32 age = (__u32)now->tick - set->tick[at];

	return !age || (netns.is_known && set->epoch[at] == now->epoch && age < ROUTE_TICKS);
}

/* Which of a set's routes is valid and has this tag, or -1. */
static __always_inline int place_in_set(const struct route_set *set, const struct route_time *now, __u16 tag)
{
	for (int i = 0; i < ROUTES_OF_SET; i++) {
		if (set->tag[i] == tag && is_valid(set, i, now))
			return i;
	}
	return -1;
}

/* Which one a new route takes: one that is of no use any more, or else any. */
static __always_inline __u32 victim_in_set(const struct route_set *set, const struct route_time *now, __u16 tag)
{
	for (int i = 0; i < ROUTES_OF_SET; i++) {
		if (!is_valid(set, i, now))
			return i;
	}
	return tag % ROUTES_OF_SET;
}

/*
 * With PREEMPT_RT, a packet may interrupt another one of the same CPU. So each route has one writer at a time, and a reader
 * discards a route whose sequence number has changed meanwhile. 1: it is this key's.
 */
static __always_inline int is_route(const struct route_set *set, __u32 at, const struct route_key *k, __u64 first,
				    __u32 len, struct hop_of_route *hop)
{
	__u32 sequence;

	at &= ROUTES_OF_SET - 1;
	sequence = *(volatile __u32 *)&set->sequence[at];
	barrier();
	if (sequence & 1 || len > set->mtu[at] || set->route[at].key[0] != first ||
	    set->route[at].key[1] != k->word[1] || set->route[at].key[2] != k->word[2] ||
	    set->route[at].key[3] != k->word[3] || set->route[at].key[4] != k->word[4] ||
	    set->route[at].key[5] != k->word[5])
		return 0;
	*hop = set->route[at].hop;
	barrier();
	return *(volatile __u32 *)&set->sequence[at] == sequence;
}

static __always_inline void write_route(struct route_set *set, __u32 at, const struct route_key *k,
					const struct route_place *p, const struct hop_of_route *hop,
					const struct bpf_fib_lookup *route)
{
	__u32 sequence;

	at &= ROUTES_OF_SET - 1;
	sequence = *(volatile __u32 *)&set->sequence[at];
	if (sequence & 1 || __sync_val_compare_and_swap(&set->sequence[at], sequence, sequence + 1) != sequence)
		return;
	set->tick[at] = p->now.tick;
	set->epoch[at] = p->now.epoch;
	set->tag[at] = p->tag;
	set->mtu[at] = route->mtu_result;
	set->route[at].key[0] = p->first;
	for (int i = 1; i < ROUTE_KEY_WORDS; i++)
		set->route[at].key[i] = k->word[i];
	set->route[at].hop = *hop;
	barrier();
	*(volatile __u32 *)&set->sequence[at] = sequence + 2;
}

static __always_inline struct route_place place_of_route(const struct routing_state *state, const struct route_key *k,
							 enum asking how)
{
	struct route_place place = { .now = { .tick = tick_of(state), .epoch = epoch_of(state) } };
	__u64 hash;
	__u32 at;

	place.first = ports_matter(state) ? k->word[0] : WITHOUT_PORTS(k->word[0]);
	hash = hash_of_key(place.first, k->word);
	place.tag = hash >> 32;
	at = hash & direct.last_set;
	place.set = bpf_map_lookup_elem(how & AT_XDP ? (void *)&xdp_routes : (void *)&tc_routes, &at);
	return place;
}

static __always_inline void *hops_of(enum asking how)
{
	return how & AT_XDP ? (void *)&xdp_hops : (void *)&tc_hops;
}

/* Whether this CPU knows the route: then `route` has the exit and the MAC addresses. */
static __noinline int know_route(const struct route_key *k, struct bpf_fib_lookup *route, enum asking how)
{
	struct routing_state *state = routing_state();
	struct hop_of_route hop;
	struct route_place p;
	int at;

	if (!state)
		return 0;
	p = place_of_route(state, k, how);
	if (!p.set)
		return 0;
	at = place_in_set(p.set, &p.now, p.tag);
	return at >= 0 && is_route(p.set, at, k, p.first, k->len, &hop) &&
	       read_hop(hops_of(how), &hop, p.now.tick, route);
}

/* Asks the kernel as look_up_route does, and keeps the answer. */
static __noinline int ask_route(void *ctx, const struct route_key *k, struct bpf_fib_lookup *route, enum asking how)
{
	/* Before anything is looked up. */
	struct routing_state *state = routing_state();
	struct hop_of_route hop;
	struct route_place p;
	int at, was_known;

	if (!state)
		return 0;
	p = place_of_route(state, k, how);
	if (!look_up_route(ctx, k, route, how & CHECKS_SOURCE))
		return 0;
	/* Ports that have begun to matter since the tick began may have decided already: the answer is for this packet alone. */
	if (!p.set || (p.first != k->word[0] && read_ports_matter(ctx, how)))
		return 1;
	at = place_in_set(p.set, &p.now, p.tag);
	was_known = at >= 0 && is_route(p.set, at, k, p.first, 0, &hop);
	if (was_known &&
	    (p.set->mtu[at & (ROUTES_OF_SET - 1)] != route->mtu_result || is_another_hop(hops_of(how), &hop, route)))
		doubt(state, p.now.tick);
	/* Just after a change, the answer is for this tick alone. */
	if (is_unsettled(state, p.now.tick))
		p.now.epoch--;
	if (note_hop(hops_of(how), state, p.now.tick, route, &hop))
		write_route(p.set, at >= 0 ? (__u32)at : victim_in_set(p.set, &p.now, p.tag), k, &p, &hop, route);
	return 1;
}

#define FOUND_ROUTE 1
#define KNOWN_ROUTE 2 /* the kernel was not asked: of `route` there are only the exit and the MAC addresses */

/*
 * As look_up_route; 0, or FOUND_ROUTE, perhaps with KNOWN_ROUTE. Each step is out of line: the stack that Linux 6.1 allows has no room
 * for more beside what opens a session.
 */
static __always_inline int find_route(void *ctx, const struct route_key *k, struct bpf_fib_lookup *route,
				      enum asking how)
{
	follow_routing(ctx, how);
	if (know_route(k, route, how))
		return FOUND_ROUTE | KNOWN_ROUTE;
	return ask_route(ctx, k, route, how) ? FOUND_ROUTE : 0;
}

_Static_assert(sizeof(struct route_set) == 64 + ROUTES_OF_SET * 64, "no implicit padding");

#endif
