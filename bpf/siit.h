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

/* What the kernel routes to the TUN device; in front of the kernel's routing, these say it. */
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

/* The IPv6 address of an IPv4 node: by its mapping, otherwise by the first prefix. 0, or why the packet is declined. */
static __always_inline int to_v6(__be32 v4_be, struct in6_addr *out)
{
	if (addr_v4_is_special(v4_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	if (!eamt_to_v6(v4_be, out))
		return 0;
	if (!siit.pref64s || addr_v4_is_special(v4_be, siit.pref64[0].only_global))
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
		return addr_v4_is_special(*out_be, siit.pref64[i].only_global) ? DIOLKOS_DECLINE_ADDRESS : 0;
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

static __always_inline int siit_6to4(const struct seen *s, struct change *c)
{
	int src_by_prefix, dst_by_prefix, fate;
	__u32 len;

	fate = to_v4(&s->src6, &c->src4_be, &src_by_prefix);
	if (!fate)
		fate = to_v4(&s->dst6, &c->dst4_be, &dst_by_prefix);
	if (fate)
		return fate;
	/* Back to IPv6, to a node with a mapping (RFC 7757 section 4.2). */
	return dst_by_prefix && eamt_find_v4(c->dst4_be, &len) ? DIOLKOS_DECLINE_HAIRPIN : 0;
}

static __always_inline int siit_inline_4to6(const struct seen *s, struct change *c)
{
	struct diolkos_route4 to = { .len = 32, .addr_be = s->dst4_be };

	return bpf_map_lookup_elem(&routes4, &to) ? siit_4to6(s, c) : DIOLKOS_DECLINE_ADDRESS;
}

static __always_inline int siit_inline_6to4(const struct seen *s, struct change *c)
{
	struct diolkos_route6 to = { .len = 128, .addr = s->dst6 };
	struct diolkos_route4 on = { .len = 32 };

	/* A node with a mapping inside a prefix is reached by a longer route, which only the kernel knows. */
	if (siit.eam_in_pref64 || !bpf_map_lookup_elem(&routes6, &to))
		return DIOLKOS_DECLINE_ADDRESS;
	/* Nor is one whose IPv4 address leads here translated on its way: it has an IPv6 address, and a route to it. */
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < siit.pref64s; i++) {
		if (!addr_extract(&siit.pref64[i], &to.addr, &on.addr_be) && bpf_map_lookup_elem(&routes4, &on))
			return DIOLKOS_DECLINE_ADDRESS;
	}
	return siit_6to4(s, c);
}

#endif
