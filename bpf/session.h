/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* session.h - the sessions of a NAT64 (RFC 6146): looked up and stamped, never changed. */
#ifndef DIOLKOS_SESSION_H
#define DIOLKOS_SESSION_H

#include "abi.h"
#include "bib.h"
#include "parse.h"
#include <bpf/bpf_helpers.h>

const volatile struct diolkos_nat64 nat64 = {};

/*
 * The loader gives all of them their size; memory is taken as sessions come.
 *
 * UDP sessions stand in one of the maps only: of an outward packet, the
 * binding tells under which key. To open one takes one insertion, which is
 * most of what it costs, and half the memory. TCP, which lives longer and
 * sends more, finds its session at once: only its first SYN asks for the
 * binding.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_session6_key);
	__type(value, struct diolkos_session6);
} sessions6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_session4_key);
	__type(value, struct diolkos_session4);
} sessions4 SEC(".maps");

static __always_inline __u64 mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

/*
 * Since Linux 6.1 the kernel reuses a deleted element of a hash map at once.
 * A program that stalls between its look-up and its reading may find there the
 * node of another session, or half of it. So each element carries a check of
 * its key and its value: a reader copies the value, and believes the copy only
 * if the check fits the key that it has asked for.
 */
static __always_inline __u32 check_of_session4(const struct diolkos_session4_key *key,
					       const struct diolkos_session4 *to, __u8 owner)
{
	__u64 addresses = (__u64)key->v4_be << 32 | key->peer_be;
	__u64 ports = (__u64)key->v4_port_be << 48 | (__u64)key->peer_port_be << 32 | (__u64)to->node_port_be << 16 |
		      (__u64)key->protocol << 8 | to->prefix;
	__u64 high = (__u64)to->node.s6_addr32[0] << 32 | to->node.s6_addr32[1];
	__u64 low = (__u64)to->node.s6_addr32[2] << 32 | to->node.s6_addr32[3];

	__u32 check = mix(mix(mix(mix(1, addresses), ports), high), low);

	/* In the same word: a longer entry would take more stack than Linux 6.1 allows where a session is opened. */
	return (check & ((1U << DIOLKOS_OWNER_AT) - 1)) | (__u32)owner << DIOLKOS_OWNER_AT;
}

static __always_inline __u32 check_of_bib(const struct diolkos_bib_key *key, const struct diolkos_bib_entry *to)
{
	__u64 ours = (__u64)to->v4_be << 32 | (__u64)to->v4_port_be << 16 | key->node_port_be;
	__u64 high = (__u64)key->node.s6_addr32[0] << 32 | key->node.s6_addr32[1];
	__u64 low = (__u64)key->node.s6_addr32[2] << 32 | key->node.s6_addr32[3];

	return (__u32)mix(mix(mix(key->protocol | (__u32)to->owner << 8, ours), high), low);
}

/* Whose the binding of a session is. */
static __always_inline __u8 owner_of(const struct diolkos_session4 *copy)
{
	return copy->check >> DIOLKOS_OWNER_AT;
}

/* The controller runs the state machine of TCP: it is told of whatever may move it. */
static __always_inline int may_change_state(const struct seen *s)
{
	return s->l4_proto == IPPROTO_TCP && s->tcp_flags & TCP_FIN_SYN_RST;
}

/* A segment that begins a connection where there is none. */
static __always_inline int is_first_syn(const struct seen *s)
{
	return s->l4_proto == IPPROTO_TCP && (s->tcp_flags & (TCP_SYN | TCP_RST)) == TCP_SYN;
}

/* A query has one identifier, which the key has once. */
static __always_inline __be16 peer_port(const struct seen *s, __be16 port_be)
{
	return s->l4_proto == IPPROTO_ICMP ? 0 : port_be;
}

/* The time of this tick. To ask for it costs more than to look it up. */
struct tick_time {
	__u64 tick;
	__u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tick_time);
} tick_times SEC(".maps");

static __always_inline __u64 coarse_now(void)
{
	__u64 tick = bpf_jiffies64();
	__u32 key = 0;
	struct tick_time *time = bpf_map_lookup_elem(&tick_times, &key);

	if (!time)
		return bpf_ktime_get_coarse_ns();
	if (time->tick != tick) {
		time->ns = bpf_ktime_get_coarse_ns();
		time->tick = tick;
	}
	return time->ns;
}

/* The session lives on. Written only when the clock has moved: two CPUs may share the entry. */
static __always_inline void session_stamp(__u64 *last_seen)
{
	__u64 now = coarse_now();

	/* The time of this CPU's tick may be that of the tick before. */
	if (*last_seen < now)
		*last_seen = now;
}

static __always_inline struct diolkos_session6_key key6_of(const struct seen *s, __be32 peer_be)
{
	return (struct diolkos_session6_key){
		.node = s->src6,
		.peer_be = peer_be,
		.node_port_be = s->src_port_be,
		.peer_port_be = peer_port(s, s->dst_port_be),
		.protocol = s->l4_proto,
	};
}

static __always_inline struct diolkos_session6 *session6_of(const struct seen *s, __be32 peer_be)
{
	struct diolkos_session6_key key = key6_of(s, peer_be);

	return bpf_map_lookup_elem(&sessions6, &key);
}

/*
 * How the peer sees the node, and the number of the prefix by which the node knows the peer. In one word, so that the
 * owner is that of the address.
 */
static __always_inline int copy_session6(const struct diolkos_session6 *to, struct diolkos_bib_entry *seen_as)
{
	struct diolkos_session6 copy;

	*(__u64 *)&copy.v4_be = *(volatile __u64 *)&to->v4_be;
	seen_as->v4_be = copy.v4_be;
	seen_as->v4_port_be = copy.v4_port_be;
	seen_as->owner = copy.owner;
	return copy.prefix;
}

static __always_inline struct diolkos_bib_entry *binding_of_udp(const struct in6_addr *node, __be16 port_be)
{
	struct diolkos_bib_key key = { .node = *node, .node_port_be = port_be, .protocol = IPPROTO_UDP };

	return bpf_map_lookup_elem(&bib, &key);
}

/* A copy of the binding of the packet's port. 1: it is bound. 0: it is not. -1: it was, a moment ago. */
static __always_inline int copy_binding(const struct seen *s, struct diolkos_bib_entry *copy)
{
	struct diolkos_bib_key key = { .node = s->src6, .node_port_be = s->src_port_be, .protocol = s->l4_proto };
	struct diolkos_bib_entry *to = bpf_map_lookup_elem(&bib, &key);

	if (!to)
		return 0;
	copy->v4_be = *(volatile __be32 *)&to->v4_be;
	copy->v4_port_be = *(volatile __be16 *)&to->v4_port_be;
	copy->owner = *(volatile __u8 *)&to->owner;
	return *(volatile __u32 *)&to->check == check_of_bib(&key, copy) ? 1 : -1;
}

/* Of an outward packet, the key of its session: that of the packets of the peer. */
static __always_inline struct diolkos_session4_key key4_of(const struct seen *s, __be32 peer_be,
							   const struct diolkos_bib_entry *binding)
{
	return (struct diolkos_session4_key){
		.v4_be = binding->v4_be,
		.peer_be = peer_be,
		.v4_port_be = binding->v4_port_be,
		.peer_port_be = s->dst_port_be,
		.protocol = s->l4_proto,
	};
}

/*
 * Stamps the session of an outward UDP packet. 0: there is none. -1: it is not this node's, or the node knew its peer by
 * another prefix. (The binding may have ended since it was looked up, and its port be another node's.)
 */
static __always_inline int use_session_of_udp(const struct seen *s, __be32 peer_be, __u8 prefix,
					      const struct diolkos_bib_entry *binding)
{
	struct diolkos_session4_key key = key4_of(s, peer_be, binding);
	struct diolkos_session4 own = { .node = s->src6, .node_port_be = s->src_port_be, .prefix = prefix };
	struct diolkos_session4 *session = bpf_map_lookup_elem(&sessions4, &key);

	if (!session)
		return 0;
	if (*(volatile __u32 *)&session->check != check_of_session4(&key, &own, binding->owner))
		return -1;
	session_stamp(&session->last_seen);
	return 1;
}

/* A copy of a session, if it is still the one that was looked up. */
static __always_inline int copy_session4(const struct diolkos_session4_key *key, const struct diolkos_session4 *to,
					 struct diolkos_session4 *copy)
{
	for (int i = 0; i < 4; i++)
		copy->node.s6_addr32[i] = *(volatile __be32 *)&to->node.s6_addr32[i];
	copy->node_port_be = *(volatile __be16 *)&to->node_port_be;
	copy->prefix = *(volatile __u8 *)&to->prefix;
	copy->check = *(volatile __u32 *)&to->check;
	return copy->check == check_of_session4(key, copy, owner_of(copy)) ? 0 : -1;
}

/* The session of a packet of the peer, its key, and a copy; or 0. */
static __always_inline struct diolkos_session4 *session4_of(const struct seen *s, struct diolkos_session4_key *key,
							    struct diolkos_session4 *copy)
{
	struct diolkos_session4 *to;

	*key = (struct diolkos_session4_key){
		.v4_be = s->dst4_be,
		.peer_be = s->src4_be,
		.v4_port_be = s->dst_port_be,
		.peer_port_be = peer_port(s, s->src_port_be),
		.protocol = s->l4_proto,
	};
	to = bpf_map_lookup_elem(&sessions4, key);
	return to && !copy_session4(key, to, copy) ? to : 0;
}

#endif
