/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * siit.h - what a SIIT decides: seen → change.
 *
 *   siit_4to6, siit_6to4                 where routes lead all packets to it, at the TUN device
 *   siit_inline_4to6, siit_inline_6to4   in front of the kernel's routing, where these ask first
 */
#ifndef DIOLKOS_SIIT_H
#define DIOLKOS_SIIT_H

#include "abi.h"
#include "addr.h"
#include "change.h"
#include "eamt.h"
#include "parse.h"
#include <bpf/bpf_helpers.h>

/* A prefix embeds any source that a packet says it has. */
#define SIIT_CHECKS_SOURCE 1

/* What the kernel routes to the TUN device; in front of the kernel's routing, these say it where constants do not. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_route4);
	__type(value, __u8);
} routes4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_route6);
	__type(value, __u8);
} routes6 SEC(".maps");

/* What both families lead here. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_route4);
	__type(value, __u8);
} loops4 SEC(".maps");

/* Is it in one of these networks? Where there are too many for constants, the map has them. */
static __always_inline int is_in4(__be32 v4_be, const volatile struct diolkos_mask4 *nets, __u32 count, void *map)
{
	if (count > DIOLKOS_ROUTES) {
		struct diolkos_route4 to = { .len = 32, .addr_be = v4_be };

		barrier(); /* or the key would be made for those who do not look it up */
		return !!bpf_map_lookup_elem(map, &to);
	}
	for (__u32 i = 0; i < DIOLKOS_ROUTES && i < count; i++) {
		if ((v4_be & nets[i].mask_be) == nets[i].addr_be)
			return 1;
	}
	return 0;
}

/* Would a packet to it, or from it, come back? Asked of addresses without a mapping. The slow path answers it. */
static __always_inline int goes_round(__be32 v4_be)
{
	return is_in4(v4_be, siit.loop4, siit.loop4s, &loops4);
}

/* Does it lead to the translator? */
static __always_inline int leads_here_v4(__be32 v4_be)
{
	return is_in4(v4_be, siit.route4, siit.route4s, &routes4);
}

static __always_inline int is_in6(const struct in6_addr *a, const volatile struct diolkos_mask6 *net)
{
	const __u64 *word = (const __u64 *)a;
	const volatile __u64 *mask = (const volatile __u64 *)&net->mask, *addr = (const volatile __u64 *)&net->addr;

	return (word[0] & mask[0]) == addr[0] && (word[1] & mask[1]) == addr[1];
}

static __always_inline int leads_here_v6(const struct in6_addr *v6)
{
	if (siit.route6s > DIOLKOS_ROUTES) {
		struct diolkos_route6 to = { .len = 128, .addr = *v6 };

		barrier(); /* or the key would be made for those who do not look it up */
		return !!bpf_map_lookup_elem(&routes6, &to);
	}
	for (__u32 i = 0; i < DIOLKOS_ROUTES && i < siit.route6s; i++) {
		if (is_in6(v6, &siit.route6[i]))
			return 1;
	}
	return 0;
}

/* The IPv6 address of an IPv4 node: by its mapping, otherwise by the first prefix. 0, or why the packet is declined. */
static __always_inline int to_v6(__be32 v4_be, struct in6_addr *out)
{
	if (addr_v4_is_special(v4_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	if (!eamt_to_v6(v4_be, out))
		return 0;
	if (!siit.pref64s || addr_v4_is_special(v4_be, siit.pref64[0].only_global) || goes_round(v4_be))
		return DIOLKOS_DECLINE_ADDRESS;
	addr_embed(&siit.pref64[0], v4_be, out);
	return 0;
}

/* The same for an IPv6 node. by_prefix: it is embedded in a translation prefix. */
static __always_inline int to_v4(const struct in6_addr *v6, __be32 *out_be, int *by_prefix)
{
	*by_prefix = 0;
	if (addr_v6_is_special(v6))
		return DIOLKOS_DECLINE_ADDRESS;
	if (siit.eam_in_pref64 && !eamt_to_v4(v6, out_be))
		return addr_v4_is_special(*out_be, 0) ? DIOLKOS_DECLINE_ADDRESS : 0;
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < siit.pref64s; i++) {
		if (addr_extract(&siit.pref64[i], v6, out_be))
			continue;
		*by_prefix = 1;
		if (addr_v4_is_special(*out_be, siit.pref64[i].only_global) || goes_round(*out_be))
			return DIOLKOS_DECLINE_ADDRESS;
		return 0;
	}
	if (siit.eam_in_pref64 || eamt_to_v4(v6, out_be) || addr_v4_is_special(*out_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	return 0;
}

static __always_inline int siit_4to6(const struct seen *s, struct change *c)
{
	int fate = to_v6(s->src4_be, &c->src6);

	return fate ? fate : to_v6(s->dst4_be, &c->dst6);
}

/* dst_by_prefix: the destination is embedded in a translation prefix. */
static __always_inline int both_to_v4(const struct seen *s, struct change *c, int *dst_by_prefix)
{
	int src_by_prefix, fate;

	fate = to_v4(&s->src6, &c->src4_be, &src_by_prefix);
	return fate ? fate : to_v4(&s->dst6, &c->dst4_be, dst_by_prefix);
}

/* Back to IPv6, to a node with a mapping (RFC 7757 section 4.2). */
static __always_inline int turns_back(__be32 dst4_be)
{
	__u32 len;

	return eamt_find_v4(dst4_be, &len) ? DIOLKOS_DECLINE_HAIRPIN : 0;
}

static __always_inline int siit_6to4(const struct seen *s, struct change *c)
{
	int dst_by_prefix, fate;

	fate = both_to_v4(s, c, &dst_by_prefix);
	if (fate)
		return fate;
	return dst_by_prefix ? turns_back(c->dst4_be) : 0;
}

static __always_inline int siit_inline_4to6(const struct seen *s, struct change *c)
{
	return leads_here_v4(s->dst4_be) ? siit_4to6(s, c) : DIOLKOS_DECLINE_ADDRESS;
}

static __always_inline int siit_inline_6to4(const struct seen *s, struct change *c)
{
	int dst_by_prefix, fate;

	/* A node with a mapping inside a prefix is reached by a longer route, which only the kernel knows. */
	if (siit.eam_in_pref64 || !leads_here_v6(&s->dst6))
		return DIOLKOS_DECLINE_ADDRESS;
	fate = both_to_v4(s, c, &dst_by_prefix);
	if (fate)
		return fate;
	if (!dst_by_prefix)
		return 0;
	/* Nor is one whose IPv4 address leads here translated on its way: it has an IPv6 address, and a route to it. */
	if (leads_here_v4(c->dst4_be))
		return DIOLKOS_DECLINE_ADDRESS;
	return siit.eam_in_routes4 ? 0 : turns_back(c->dst4_be);
}

#endif
