/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * routing.h - what the kernel counts of its routing: have tables or rules changed, and can a route depend on ports?
 *
 *   follow_routing    reads the kernel's numbers once in a tick
 *   doubt             something has changed that the kernel does not count
 *
 * The kernel counts changes of its routing tables and rules, for its own caches and for hardware that has copies of the tables.
 * The numbers are in the network namespace, where programs read them. So no daemon has to hear of a change first, and a frozen one
 * does no harm. The loader says where they lie, by the BTF of the running kernel. Where it cannot, nothing is known of changes,
 * and ports can matter.
 *
 * Two things of the kernel look at ports: policy rules about protocols and ports, and a multipath hash of another policy than 0,
 * which is the addresses' (net.ipv4.fib_multipath_hash_policy and that of IPv6).
 */
#ifndef DIOLKOS_ROUTING_H
#define DIOLKOS_ROUTING_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

/* How the kernel is asked for a route: bits. */
enum asking {
	AT_TC = 0,
	AT_XDP = 1,
	CHECKS_SOURCE = 2, /* see look_up_route */
};

const volatile struct diolkos_namespace_layout netns = {};

/* Numbers that differ after each change of routes, rules, and local addresses. They may also differ without one. */
struct route_changes {
	__u32 routes4;    /* of all tables and rules of IPv4: what makes the kernel's own cached routes invalid */
	__u32 routes6;    /* routes of all tables of IPv6 that were added or replaced, exceptions among them */
	__u32 removed6;   /* those that were removed */
	__u32 rules6;     /* rules of IPv6 that were added or removed */
	__u8 policies[4]; /* of the multipath hashes */
};

/*
 * The kernel counts some changes a moment before or after they take effect, and its task may wait in between. So this many ticks
 * have to pass behind a change until an answer is kept, and until ports do not matter any more.
 */
#define SETTLING 2

/*
 * Of each CPU. With PREEMPT_RT, one packet may interrupt another one of the same CPU that is writing this. So an epoch only begins
 * and never comes back, time does not go back, and whatever order the numbers of two packets are written in, numbers that are not
 * the kernel's begin another epoch in the next tick.
 */
struct routing_state {
	__u64 tick; /* of the last look; in the lowest bit: can ports matter? One word, so no reader sees half of it. */
	__u64 changed;  /* the tick in which the epoch began */
	__u64 by_ports; /* the last tick in which ports mattered */
	__u32 epoch;    /* a number of the time since the last change */
	__u32 hops;     /* next hops that were numbered (hop_cache.h) */
	struct route_changes known;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct routing_state);
} routing SEC(".maps");

#define READ_FROM(to, from) (!bpf_probe_read_kernel(&(to), sizeof(to), from))

/* The packet's struct net. ctx: the kernel's own struct sk_buff or struct xdp_buff. NULL: it cannot be read. */
static __always_inline void *namespace_of(void *ctx, enum asking how)
{
	void *device = ctx, *net = 0;

	if (how & AT_XDP && !READ_FROM(device, ctx + netns.rxq_of_frame))
		return 0;
	if (!READ_FROM(device, device + (how & AT_XDP ? netns.device_of_rxq : netns.device_of_packet)) ||
	    !READ_FROM(net, device + netns.of_device))
		return 0;
	return net;
}

/* What cannot be read counts as yes. */
static __always_inline int read_ports_matter(void *ctx, enum asking how)
{
	void *net = namespace_of(ctx, how);
	__u32 rules4 = 1, rules6 = 1;
	__u8 hash4 = 1, hash6 = 1;

	if (!net || !READ_FROM(rules4, net + netns.port_rules4) || !READ_FROM(rules6, net + netns.port_rules6) ||
	    !READ_FROM(hash4, net + netns.hash_policy4) || !READ_FROM(hash6, net + netns.hash_policy6))
		return 1;
	return rules4 || rules6 || hash4 || hash6;
}

/* False if one of the numbers cannot be read. */
static __always_inline int read_changes(void *ctx, enum asking how, struct route_changes *read)
{
	void *net = namespace_of(ctx, how), *routes6 = 0, *rules6 = 0;

	return net && READ_FROM(read->routes4, net + netns.changes4) &&
	       READ_FROM(read->routes6, net + netns.changes6) && READ_FROM(routes6, net + netns.statistics6) &&
	       READ_FROM(read->removed6, routes6 + netns.removed6) && READ_FROM(rules6, net + netns.rules6) &&
	       READ_FROM(read->rules6, rules6 + netns.rule_changes6) &&
	       READ_FROM(read->policies[0], net + netns.hash_policy4) &&
	       READ_FROM(read->policies[1], net + netns.hash_policy6);
}

static __always_inline int differ(const struct route_changes *a, const struct route_changes *b)
{
	return a->routes4 != b->routes4 || a->routes6 != b->routes6 || a->removed6 != b->removed6 ||
	       a->rules6 != b->rules6 || a->policies[0] != b->policies[0] || a->policies[1] != b->policies[1];
}

static __always_inline __u64 tick_of(const struct routing_state *state)
{
	return *(volatile __u64 *)&state->tick >> 1;
}

/* Has an epoch begun just now? */
static __always_inline int is_unsettled(const struct routing_state *state, __u64 tick)
{
	return tick - *(volatile __u64 *)&state->changed < SETTLING;
}

static __always_inline void begin_epoch(struct routing_state *state, __u64 tick)
{
	*(volatile __u64 *)&state->changed = tick;
	__sync_fetch_and_add(&state->epoch, 1);
}

/* Not again before all has settled, for a neighbour may make this happen. */
static __always_inline void doubt(struct routing_state *state, __u64 tick)
{
	if (!is_unsettled(state, tick))
		begin_epoch(state, tick);
}

static __always_inline struct routing_state *routing_state(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&routing, &key);
}

static __noinline void look_at_routing(void *ctx, __u64 tick, enum asking how)
{
	struct routing_state *state = routing_state();
	struct route_changes read = {};
	__u64 ports = 1;

	if (!state)
		return;
	/* A constant to the verifier, which does not look at calls of a helper that this kernel does not give. */
	if (netns.is_known) {
		if (read_ports_matter(ctx, how))
			state->by_ports = tick;
		ports = tick - state->by_ports < SETTLING;
		if (!read_changes(ctx, how, &read) || differ(&read, &state->known)) {
			begin_epoch(state, tick);
			state->known = read;
		}
	}
	if (tick > tick_of(state))
		*(volatile __u64 *)&state->tick = tick << 1 | ports;
}

/* Reads the state once in a tick. Out of line: of a thousand packets, one or two do, and need the stack for it. */
static __always_inline void follow_routing(void *ctx, enum asking how)
{
	const struct routing_state *state = routing_state();
	__u64 tick = bpf_jiffies64();

	if (state && tick_of(state) != tick)
		look_at_routing(ctx, tick, how);
}

static __always_inline int ports_matter(const struct routing_state *state)
{
	return *(volatile __u64 *)&state->tick & 1;
}

static __always_inline __u32 epoch_of(const struct routing_state *state)
{
	return *(volatile __u32 *)&state->epoch;
}

#endif
