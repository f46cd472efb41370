/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* next_hop.h - which way packets of a CLAT take out of the uplink. */
#ifndef DIOLKOS_NEXT_HOP_H
#define DIOLKOS_NEXT_HOP_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct diolkos_next_hop);
} next_hop SEC(".maps");

/* The way as it is now. It is read once for each packet: half way through, it may be another one. */
struct way_out {
	__u32 kind;                             /* enum diolkos_way */
	const volatile struct in6_addr *router; /* with a slot, else NULL */
};

static __always_inline struct way_out way_out(void)
{
	__u32 key = 0;
	const volatile struct diolkos_next_hop *hop = bpf_map_lookup_elem(&next_hop, &key);
	struct way_out way = { .kind = DIOLKOS_WAY_NOWHERE };

	if (!hop)
		return way;
	way.kind = hop->current;
	if (way.kind == DIOLKOS_WAY_SLOT_1)
		way.router = &hop->slots[0];
	else if (way.kind == DIOLKOS_WAY_SLOT_2)
		way.router = &hop->slots[1];
	return way;
}

#endif
