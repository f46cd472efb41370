/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* session.h - the sessions of a NAT64 (RFC 6146): looked up and stamped, never changed. */
#ifndef DIOLKOS_SESSION_H
#define DIOLKOS_SESSION_H

#include "abi.h"
#include "parse.h"
#include <bpf/bpf_helpers.h>

const volatile struct diolkos_nat64 nat64 = {};

/*
 * The loader gives all of them their size; memory is taken as sessions come.
 *
 * UDP sessions stand in one of the maps only: of an outward packet, the
 * binding tells under which key. To open one takes one insertion, which is
 * most of what it costs, and half the memory. TCP, which lives longer and
 * sends more, finds its session at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_outward);
	__type(value, struct diolkos_outward_to);
} outward SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_inward);
	__type(value, struct diolkos_inward_to);
} inward SEC(".maps");

/* Every binding of UDP. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_bound);
	__type(value, struct diolkos_bound_to);
} bound SEC(".maps");

/* The controller runs the state machine of TCP: whatever may move it is declined. */
static __always_inline int session_is_moved_by(const struct seen *s)
{
	return s->l4_proto == IPPROTO_TCP && s->tcp_flags & TCP_FIN_SYN_RST;
}

/* A query has one identifier, which the key has once. */
static __always_inline __be16 peer_port(const struct seen *s, __be16 port_be)
{
	return s->l4_proto == IPPROTO_ICMP ? 0 : port_be;
}

/* The session lives on. Written only when the clock has moved: two CPUs may share the entry. */
static __always_inline void session_stamp(__u64 *last_seen)
{
	__u64 now = bpf_ktime_get_coarse_ns();

	if (*last_seen != now)
		*last_seen = now;
}

static __always_inline struct diolkos_outward_to *session_outward(const struct seen *s, __be32 peer_be)
{
	struct diolkos_outward key = {
		.node = s->src6,
		.peer_be = peer_be,
		.node_port_be = s->src_port_be,
		.peer_port_be = peer_port(s, s->dst_port_be),
		.protocol = s->l4_proto,
	};

	return bpf_map_lookup_elem(&outward, &key);
}

static __always_inline struct diolkos_bound_to *binding_of(const struct in6_addr *node, __be16 port_be)
{
	struct diolkos_bound key = { .node = *node, .node_port_be = port_be };

	return bpf_map_lookup_elem(&bound, &key);
}

/* Of an outward UDP packet, the key of its session: that of the packets of the peer. */
static __always_inline struct diolkos_inward key_of_udp(const struct seen *s, __be32 peer_be,
							const struct diolkos_bound_to *bound_to)
{
	return (struct diolkos_inward){
		.v4_be = bound_to->v4_be,
		.peer_be = peer_be,
		.v4_port_be = bound_to->v4_port_be,
		.peer_port_be = s->dst_port_be,
		.protocol = IPPROTO_UDP,
	};
}

static __always_inline struct diolkos_inward_to *session_of_udp(const struct seen *s, __be32 peer_be,
								const struct diolkos_bound_to *bound_to)
{
	struct diolkos_inward key = key_of_udp(s, peer_be, bound_to);

	return bpf_map_lookup_elem(&inward, &key);
}

static __always_inline struct diolkos_inward_to *session_inward(const struct seen *s)
{
	struct diolkos_inward key = {
		.v4_be = s->dst4_be,
		.peer_be = s->src4_be,
		.v4_port_be = s->dst_port_be,
		.peer_port_be = peer_port(s, s->src_port_be),
		.protocol = s->l4_proto,
	};

	return bpf_map_lookup_elem(&inward, &key);
}

#endif
