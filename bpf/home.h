/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * home.h - which of several gateways opens the bindings of a host, and which other one has a binding of it.
 *
 *   home_of     host → the gateway that opens its bindings now
 *   away_of     host's port → another gateway that has a binding of it, though it is not the home
 *
 * The daemon fills the maps, by its view of the others. Views may differ: then two gateways may have bindings of one port.
 * Programs of sessions and the program that forwards (forward.bpf.c) share the maps.
 */
#ifndef DIOLKOS_HOME_H
#define DIOLKOS_HOME_H

#include "abi.h"
#include "addr.h"
#include "siphash.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/in6.h>

#define DIOLKOS_BUCKETS 1024 /* a power of two */
#define DIOLKOS_LINKS 16
#define DIOLKOS_CLUSTER_PREF64S 16

struct diolkos_network6 {
	__u64 high, low; /* as numbers; zero beyond the length */
	__u32 len;
	__u32 pad;
};

/* All zeros: there is one gateway, and nothing is forwarded. */
struct diolkos_cluster {
	__u64 key[2]; /* secret: which subscriber is in which bucket */
	__u32 is_on;
	__u32 source_prefix_len; /* bits of an IPv6 address that make a subscriber */
	__u32 pref64s;
	__u32 links;
	__u32 link[DIOLKOS_LINKS]; /* interfaces on which other gateways alone send */
	struct diolkos_network6 pref64[DIOLKOS_CLUSTER_PREF64S];
};

/* A host's port, or with ICMP the identifier of a query. */
struct diolkos_host_port {
	struct in6_addr host;
	__be16 port_be;
	__u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP */
	__u8 pad;
};

_Static_assert(sizeof(struct diolkos_network6) == 24, "no implicit padding");
_Static_assert(sizeof(struct diolkos_cluster) == 32 + 4 * DIOLKOS_LINKS + 24 * DIOLKOS_CLUSTER_PREF64S,
	       "no implicit padding");
_Static_assert(sizeof(struct diolkos_host_port) == 20, "keys have no padding");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct diolkos_cluster);
} cluster SEC(".maps");

/*
 * By bucket, the home as an owner is written (abi.h), and whether packets without a port stay here, since they may be fragments of
 * this gateway's bindings though it is not the home. The daemon's memory, too.
 */
#define DIOLKOS_PORTLESS_HERE (1ULL << 32)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIOLKOS_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} buckets SEC(".maps");

/*
 * Bindings of other gateways than the home, as far as there is room: those that no packet asks for go first. The loader
 * gives the map its size; all of its memory is taken at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct diolkos_host_port);
	__type(value, __u32);
} away SEC(".maps");

/* The first `len` bits of 64. */
static __always_inline __u64 first_of_64(__u32 len)
{
	if (!len)
		return 0;
	return len >= 64 ? ~0ULL : ~0ULL << (64 - len);
}

static __always_inline __u32 bucket_of(const struct diolkos_cluster *c, const struct in6_addr *host)
{
	__u32 len = c->source_prefix_len;
	__u64 high = number_of(&host->s6_addr32[0]) & first_of_64(len);
	__u64 low = number_of(&host->s6_addr32[2]) & first_of_64(len > 64 ? len - 64 : 0);

	return siphash_of_address(c->key, high, low) & (DIOLKOS_BUCKETS - 1);
}

static __always_inline __u64 bucket_value_of(const struct diolkos_cluster *c, const struct in6_addr *host)
{
	__u32 bucket = bucket_of(c, host);
	__u64 *value = bpf_map_lookup_elem(&buckets, &bucket);

	return value ? *(volatile __u64 *)value : DIOLKOS_OURS;
}

static __always_inline __u32 home_of(const struct diolkos_cluster *c, const struct in6_addr *host)
{
	return (__u32)bucket_value_of(c, host);
}

/* DIOLKOS_OURS: none is known. */
static __always_inline __u32 away_of(const struct in6_addr *host, __be16 port_be, __u8 protocol)
{
	struct diolkos_host_port key = { .host = *host, .port_be = port_be, .protocol = protocol };
	__u32 *owner = bpf_map_lookup_elem(&away, &key);

	return owner ? *owner : DIOLKOS_OURS;
}

#endif
