/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * open.h - UDP sessions that a NAT64's program opens by itself, by a lease of the controller, who owns all state.
 *
 *   open_session   the lease, the binding, the session; and the controller is told
 *
 * Whatever the tables would look at more closely is left to them: a port below 1024, one that wants to stand beside
 * another's, a peer that is a node of ours. What has been taken from a lease is always told, so that nothing is lost
 * and the controller knows of a session before it sees any packet that follows from it.
 */
#ifndef DIOLKOS_OPEN_H
#define DIOLKOS_OPEN_H

#include "session.h"
#include <bpf/bpf_endian.h>

#define FIRST_USER_PORT 1024
#define ATTEMPTS 4 /* with other CPUs at the same lease */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIOLKOS_LEASES);
	__type(key, __u32);
	__type(value, struct diolkos_lease);
} leases SEC(".maps");

/* 10 900 openings: more than come while the controller waits for a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} openings SEC(".maps");

/* The node's lease, if it has sessions left, and its term. */
static __always_inline struct diolkos_lease *lease_of(const struct in6_addr *node, __u32 *term)
{
	__u64 high = (__u64)bpf_ntohl(node->s6_addr32[0]) << 32 | bpf_ntohl(node->s6_addr32[1]);
	__u64 low = (__u64)bpf_ntohl(node->s6_addr32[2]) << 32 | bpf_ntohl(node->s6_addr32[3]);
	__u32 place = (__u32)mix(mix(nat64.lease_key, high), low) & (DIOLKOS_LEASES - 1);
	struct diolkos_lease *lease = bpf_map_lookup_elem(&leases, &place);
	__u64 sessions;

	/* Most nodes have none, and find nobody's. */
	if (!lease || !(__u32) * (volatile __u64 *)&lease->sessions)
		return 0;
	/* A barrier as well: the term is read before the node whose it is. */
	sessions = __sync_fetch_and_add(&lease->sessions, 0);
	if (!(__u32)sessions || !in6_equal(node, &lease->node))
		return 0;
	*term = sessions >> 32;
	return lease;
}

static __always_inline int is_own(__be32 v4_be)
{
	__u32 v4 = bpf_ntohl(v4_be);

	for (__u32 i = 0; i < DIOLKOS_OWN && i < nat64.owns; i++) {
		__u32 len = nat64.own[i].len;

		if (!len || (v4 ^ bpf_ntohl(nat64.own[i].addr_be)) >> (32 - len) == 0)
			return 1;
	}
	return 0;
}

/* One of the sessions that may be opened; or with -1, one that was taken goes back. */
static __always_inline int lease_take_session(struct diolkos_lease *lease, __u32 term, int number)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		__u64 now = *(volatile __u64 *)&lease->sessions;

		if (now >> 32 != term || (number > 0 && !(__u32)now))
			return -1;
		if (__sync_val_compare_and_swap(&lease->sessions, now, now - number) == now)
			return 0;
	}
	/* One that does not go back counts as lent until the lease ends. */
	return -1;
}

/* A port of the wanted parity (RFC 4787 REQ-4), or -1. */
static __always_inline int lease_take_port(struct diolkos_lease *lease, __u32 term, int odd)
{
	struct diolkos_lease_ports *queue = &lease->parity[odd];

	for (int i = 0; i < ATTEMPTS; i++) {
		__u64 head = *(volatile __u64 *)&queue->head;
		__u32 left;
		__u16 port;

		if (head >> 32 != term)
			return -1;
		/* A barrier as well: tail and port are read in this order. An older port may be somebody's. */
		left = __sync_fetch_and_add(&queue->tail, 0) - (__u32)head;
		if (left - 1 >= DIOLKOS_LEASE_PORTS)
			return -1;
		port = *(volatile __u16 *)&queue->ports[head % DIOLKOS_LEASE_PORTS];
		if (__sync_val_compare_and_swap(&queue->head, head, head >> 32 << 32 | (__u32)(head + 1)) == head)
			return port;
	}
	return -1;
}

/* RTCP wants the port after that of its RTP (RFC 4787 section 4.2.3), which only the pool can tell to be free. */
static __always_inline int has_neighbour(const struct seen *s)
{
	struct diolkos_bound_to *rtp;
	__u16 port = bpf_ntohs(s->src_port_be);

	if (!(port & 1))
		return 0;
	rtp = binding_of(&s->src6, bpf_htons(port - 1));
	return rtp && !(bpf_ntohs(rtp->v4_port_be) & 1);
}

/* A new binding of the node's port. 1: there is none, and a leased port is left over; -1: there is none. */
static __always_inline int open_binding(const struct seen *s, struct diolkos_lease *lease, __u32 term,
					struct diolkos_bound_to *to)
{
	struct diolkos_bound key = { .node = s->src6, .node_port_be = s->src_port_be };
	__u16 own = bpf_ntohs(s->src_port_be);
	int port;

	if (own < FIRST_USER_PORT || has_neighbour(s))
		return -1;
	/* Read first: with a port of this term, it is of this term. */
	to->v4_be = *(volatile __be32 *)&lease->v4_be;
	port = lease_take_port(lease, term, own & 1);
	if (port < 0)
		return -1;
	to->v4_port_be = bpf_htons(port);
	to->check = check_of_bound(&key, to);
	/* Another CPU, or the controller, may have been faster. */
	return bpf_map_update_elem(&bound, &key, to, BPF_NOEXIST) ? 1 : 0;
}

/* 1: the session is there already. -1: it cannot be put there; the place may be another node's. */
static __always_inline int put_session(const struct seen *s, __be32 peer_be, __u8 prefix,
				       const struct diolkos_bound_to *bound_to)
{
	struct diolkos_inward key = key_of_udp(s, peer_be, bound_to);
	struct diolkos_inward_to to_node = {
		.last_seen = bpf_ktime_get_coarse_ns(),
		.node = s->src6,
		.node_port_be = s->src_port_be,
		.prefix = prefix,
	};
	struct diolkos_inward_to *there;

	to_node.check = check_of_inward(&key, &to_node);
	if (!bpf_map_update_elem(&inward, &key, &to_node, BPF_NOEXIST))
		return 0;
	there = bpf_map_lookup_elem(&inward, &key);
	/* The check says whose it is, too. */
	return there && *(volatile __u32 *)&there->check == to_node.check ? 1 : -1;
}

/*
 * Out of line: it is rare, and longer than all that the other packets meet.
 *
 * Opens a UDP session; `to` will be the node's binding. -1: the packet is the controller's.
 *
 * The order matters. The controller takes a binding out of the map first, then waits until every record that was
 * reserved before is submitted, and only then may the port become another node's. So the record is reserved first, and
 * then the binding is looked up again: either the controller waits for this session, or there is no binding here.
 */
static __noinline int open_session(const struct seen *s, __be32 peer_be, __u8 prefix, struct diolkos_bound_to *to)
{
	__u8 told = DIOLKOS_OPENED;
	struct diolkos_opening *opening;
	struct diolkos_lease *lease;
	__u32 term = 0;
	int binding, put;

	if (!s->dst_port_be || is_own(peer_be))
		return -1;
	lease = lease_of(&s->src6, &term);
	if (!lease)
		return -1;
	opening = bpf_ringbuf_reserve(&openings, sizeof(*opening), 0);
	/* At once: verifiers before Linux 6.4 ask for the release of a record that a later test finds missing. */
	if (!opening)
		return -1;
	/* A barrier as well, between the record and the look-up of the binding. */
	if (lease_take_session(lease, term, 1)) {
		bpf_ringbuf_discard(opening, BPF_RB_NO_WAKEUP);
		return -1;
	}
	binding = copy_binding(s, to);
	put = binding < 0 ? -1 : 0;
	if (!binding) {
		told = DIOLKOS_BOUND;
		put = open_binding(s, lease, term, to);
		if (put > 0)
			told = DIOLKOS_UNWANTED;
	}
	if (!put) {
		put = put_session(s, peer_be, prefix, to);
		/* From the binding on there is no way back. */
		if (put && told == DIOLKOS_BOUND)
			told = DIOLKOS_ALONE;
	}
	/* A session that is told is used up. */
	if (put && told != DIOLKOS_ALONE)
		lease_take_session(lease, term, -1);
	if (put && told != DIOLKOS_ALONE && told != DIOLKOS_UNWANTED) {
		bpf_ringbuf_discard(opening, BPF_RB_NO_WAKEUP);
		/* Another CPU has opened the same. */
		return put > 0 ? 0 : -1;
	}
	opening->node = s->src6;
	opening->peer_be = peer_be;
	opening->v4_be = to->v4_be;
	opening->node_port_be = s->src_port_be;
	opening->peer_port_be = s->dst_port_be;
	opening->v4_port_be = to->v4_port_be;
	opening->prefix = prefix;
	opening->told = told;
	opening->term = term;
	bpf_ringbuf_submit(opening, 0);
	return put ? -1 : 0;
}

#endif
