/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* maps.h - what every fast path keeps: rules, counters, IPv4 identifications. */
#ifndef DIOLKOS_MAPS_H
#define DIOLKOS_MAPS_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

const volatile struct diolkos_rules rules = {};

/* DIOLKOS_UNDECIDED is no fate: nothing is ever counted there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DIOLKOS_FATE_END);
	__type(key, enum diolkos_fate);
	__type(value, struct diolkos_count);
} fates SEC(".maps");

/* The next IPv4 identification of each CPU. The loader seeds every slot with its own random number. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} ipv4_ids SEC(".maps");

static __always_inline void count(enum diolkos_fate fate, __u32 bytes)
{
	struct diolkos_count *c = bpf_map_lookup_elem(&fates, &fate);

	if (c) {
		c->packets++;
		c->bytes += bytes;
	}
}

/* The first of so many in a row. */
static __always_inline __u16 next_ipv4_ids(__u32 how_many)
{
	__u32 key = 0, first = 0;
	__u32 *id = bpf_map_lookup_elem(&ipv4_ids, &key);

	if (id) {
		first = *id;
		*id = first + how_many;
	}
	return (__u16)first;
}

#endif
