/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * known.h - ways that were looked up a moment ago.
 *
 *   find_route   like look_up_route, and asks the kernel only if this CPU has not asked it the same in this tick
 *
 * The same question has the same answer until a route, rule, address, link or neighbour changes. An answer holds until the
 * kernel's clock ticks, 1 to 10 ms, as if the packet had left so much earlier. So nobody has to watch for such changes, and
 * nothing is left of an answer when the daemon ends. The question is all that the look-up sees: rules about ports and
 * several equal paths stay what they are.
 */
#ifndef DIOLKOS_KNOWN_H
#define DIOLKOS_KNOWN_H

#include "route.h"
#include <bpf/bpf_helpers.h>

#define KNOWN_WAYS 512 /* a power of two */

struct known_way {
	__u64 tick; /* 0: none */
	__u64 question[ROUTE_KEY_WORDS];
	__u32 ifindex;
	__u16 mtu;
	__u8 pad[6];
	__u8 macs[12]; /* as bpf_fib_lookup has them */
};

/* Questions that share a place take it from each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KNOWN_WAYS);
	__type(key, __u32);
	__type(value, struct known_way);
} known_ways SEC(".maps");

static __always_inline __u32 place_of_question(const __u64 *q)
{
	__u64 h = (q[0] ^ q[2] ^ q[5]) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ q[1] ^ q[3] ^ q[4]) * 0x9e3779b97f4a7c15ULL;
	return h >> 32 & (KNOWN_WAYS - 1);
}

static __always_inline void copy_macs(void *to, const void *from)
{
	__u32 *out = to;
	const __u32 *in = from;

	for (int i = 0; i < 3; i++)
		out[i] = in[i];
}

static __always_inline int is_same_question(const __u64 *a, const __u64 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4] && a[5] == b[5];
}

/*
 * As look_up_route. ways: those of the hook. Each hook has its own way to tell the kernel that it uses a neighbour.
 * is_known: 1 if the kernel was not asked. Then of `way` there are only the exit and the MAC addresses.
 */
static __always_inline int find_route(void *ctx, void *ways, const struct route_key *q, struct bpf_fib_lookup *way,
				      int checks_source, int *is_known)
{
	__u64 tick = bpf_jiffies64();
	__u32 place = place_of_question(q->word);
	struct known_way *known = bpf_map_lookup_elem(ways, &place);

	if (!known)
		return 0;
	/* Packets of all lengths go the same way, up to its MTU. */
	if (known->tick == tick && q->len <= known->mtu && is_same_question(known->question, q->word)) {
		way->ifindex = known->ifindex;
		copy_macs(way->smac, known->macs);
		*is_known = 1;
		return 1;
	}
	*is_known = 0;
	if (!look_up_route(ctx, q, way, checks_source))
		return 0;
	known->tick = tick;
	__builtin_memcpy(known->question, q->word, sizeof(known->question));
	known->ifindex = way->ifindex;
	known->mtu = way->mtu_result;
	copy_macs(known->macs, way->smac);
	return 1;
}

_Static_assert(sizeof(struct known_way) == 80, "no implicit padding");
_Static_assert(__builtin_offsetof(struct bpf_fib_lookup, smac) % 4 == 0 &&
		   __builtin_offsetof(struct bpf_fib_lookup, dmac) ==
		       __builtin_offsetof(struct bpf_fib_lookup, smac) + 6,
	       "one after the other");

#endif
