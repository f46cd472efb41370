/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* next_hop.h - the one router behind a CLAT's translation prefix, as long as the routes allow no other. */
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

/* The router behind the translation prefix, or NULL: then the route has to be looked up. */
static __always_inline const volatile struct in6_addr *known_next_hop(void)
{
	__u32 key = 0;
	const volatile struct diolkos_next_hop *hop = bpf_map_lookup_elem(&next_hop, &key);

	if (!hop)
		return NULL;
	switch (hop->current) {
	case 1:
		return &hop->slots[0];
	case 2:
		return &hop->slots[1];
	default:
		return NULL;
	}
}

#endif
