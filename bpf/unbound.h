/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * unbound.h - drops unsolicited packets: those from outside to ports that no node has.
 *
 *   is_unbound      the controller says that no node has the port
 *   is_heard        some of these packets go on to the slow path, which answers them and says why they are dropped
 *   is_unsolicited  a packet without a session is dropped here: nothing of it is left for the slow path to decide
 *
 * At the slow path's device only. Routes have led the packet there, so it is the translator's.
 */
#ifndef DIOLKOS_UNBOUND_H
#define DIOLKOS_UNBOUND_H

#include "addr.h"
#include "open.h"
#include "parse.h"
#include "session.h"
#include <bpf/bpf_helpers.h>

/*
 * One bit for each place, 1: no port that has its place here is a node's, or lent to one. The controller takes a bit away
 * before it binds or lends a port; zeros, with which it begins, say nothing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader's: nat64.port_places / 64 */
	__type(key, __u32);
	__type(value, __u64);
} unbound_ports SEC(".maps");

static __always_inline int is_unbound(__u8 protocol, __be32 v4_be, __be16 port_be)
{
	__u64 hash = mix(mix(nat64.lease_key, v4_be), (__u32)port_be << 16 | protocol);
	__u32 place = (__u32)hash & (nat64.port_places - 1), at = place / 64;
	volatile __u64 *word = bpf_map_lookup_elem(&unbound_ports, &at);

	return word && *word >> (place % 64) & 1;
}

#define HEARD_WINDOW 25 /* 2^25 ns: thirty a second */

struct heard {
	__u64 window;
	__u64 packets; /* that went on in it */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct heard);
} heard SEC(".maps");

static __always_inline int is_heard(void)
{
	__u64 window = coarse_now() >> HEARD_WINDOW;
	__u32 key = 0;
	struct heard *h = bpf_map_lookup_elem(&heard, &key);

	if (!h)
		return 1;
	if (h->window != window) {
		h->window = window;
		h->packets = 0;
	}
	if (h->packets >= nat64.heard)
		return 0;
	h->packets++;
	return 1;
}

/* A SYN may be one half of a simultaneous open (RFC 6146 section 3.5.2.2), and a source of ours has another reason. */
static __always_inline int is_unsolicited(const struct seen *s)
{
	if (s->l4_proto == IPPROTO_TCP && s->tcp_flags & TCP_SYN)
		return 0;
	if (!nat64.pref64s || addr_v4_is_special(s->src4_be, nat64.pref64[0].only_global) || is_own(s->src4_be))
		return 0;
	return is_unbound(s->l4_proto, s->dst4_be, s->dst_port_be) && !is_heard();
}

#endif
