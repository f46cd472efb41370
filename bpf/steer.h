/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * steer.h - which node of a cluster a packet belongs to.
 *
 *   slice_of_source    from the IPv6 side: the slice of the source's prefix
 *   slice_of_port      from the IPv4 side: the slice of the address and port
 *
 * All that the program that forwards shares with the program that loads it.
 */
#ifndef DIOLKOS_STEER_H
#define DIOLKOS_STEER_H

#include "siphash.h"
#include "trail.h"
#include <bpf/bpf_endian.h>
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#define DIOLKOS_STEER_PREF64 16
#define DIOLKOS_STEER_NODES 1024
/* A slice of no other node: its packets are translated here. */
#define DIOLKOS_HERE 0
#define IP_OFFSET_MASK 0x1fff

struct diolkos_steer_pref64 {
	__u64 high, low; /* as numbers; zero beyond the length */
	__u32 len;
	__u32 pad;
};

/* The cluster; without slices, nothing is forwarded. */
struct diolkos_steering {
	__u64 key[2];
	__u32 slices;
	__u32 source_prefix_len;
	__u32 pref64s;
	__u32 pad;
	struct diolkos_steer_pref64 pref64[DIOLKOS_STEER_PREF64];
};

/* The slices of an address: so many of the same size one after the other, the last of which may be longer. */
struct diolkos_steer_address {
	__u32 first_slice;
	__u32 slices;
	__u32 first_port;
	__u32 last_port;
	__u32 size;
};

/* The next hop to a node, on a link; an interface of 0 is none. */
struct diolkos_steer_node {
	__u32 ifindex;
	__u8 next_hop[16];
};

/*
 * What was forwarded to a node, packets of its that the kernel had no memory to forward, and those that came back from other
 * nodes and were translated here.
 */
struct diolkos_steer_count {
	__u64 packets;
	__u64 bytes;
	__u64 dropped;
	__u64 returned;
};

_Static_assert(sizeof(struct diolkos_steer_pref64) == 24, "no implicit padding");
_Static_assert(sizeof(struct diolkos_steering) == 32 + 24 * DIOLKOS_STEER_PREF64, "no implicit padding");
_Static_assert(sizeof(struct diolkos_steer_address) == 20 && sizeof(struct diolkos_steer_node) == 20, "no padding");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct diolkos_steering);
} steering SEC(".maps");

/* By slice: the place of its node in `nodes`, or DIOLKOS_HERE. The loader sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIOLKOS_STEER_NODES);
	__type(key, __u32);
	__type(value, struct diolkos_steer_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DIOLKOS_STEER_NODES);
	__type(key, __u32);
	__type(value, struct diolkos_steer_count);
} forwarded SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, struct diolkos_steer_address);
} addresses SEC(".maps");

/* The first `len` bits of 64. */
static __always_inline __u64 first_bits(__u32 len)
{
	if (!len)
		return 0;
	return len >= 64 ? ~0ULL : ~0ULL << (64 - len);
}

static __always_inline int is_for_translator(const struct diolkos_steering *c, const struct in6_addr *addr)
{
	__u64 high = two_words(&addr->s6_addr32[0]), low = two_words(&addr->s6_addr32[2]);

	for (__u32 i = 0; i < DIOLKOS_STEER_PREF64 && i < c->pref64s; i++) {
		__u32 len = c->pref64[i].len;

		if (((high ^ c->pref64[i].high) & first_bits(len)) == 0 &&
		    ((low ^ c->pref64[i].low) & first_bits(len > 64 ? len - 64 : 0)) == 0)
			return 1;
	}
	return 0;
}

/* The high half of the product of hash and number of slices: the place of the source among them. */
static __always_inline __u32 slice_of_source(const struct diolkos_steering *c, const struct in6_addr *source)
{
	__u32 len = c->source_prefix_len;
	__u64 high = two_words(&source->s6_addr32[0]) & first_bits(len);
	__u64 low = two_words(&source->s6_addr32[2]) & first_bits(len > 64 ? len - 64 : 0);
	__u64 hash = siphash_of_address(c->key, high, low);

	return ((hash >> 32) * c->slices + ((hash & 0xffffffff) * c->slices >> 32)) >> 32;
}

/* -1: the address is not of the pool, or only its port would tell, which is not known (0 in `has_port`). */
static __always_inline int slice_of_port(__be32 addr_be, __u16 port, int has_port)
{
	struct diolkos_steer_address *address = bpf_map_lookup_elem(&addresses, &addr_be);
	__u32 at;

	if (!address || !address->size)
		return -1;
	if (!has_port)
		return address->slices == 1 ? (int)address->first_slice : -1;
	if (port < address->first_port || port > address->last_port)
		return -1;
	at = (port - address->first_port) / address->size;
	if (at >= address->slices)
		at = address->slices - 1;
	return address->first_slice + at;
}

#endif
