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

/* 13 000 openings: more than come while the controller waits for a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} openings SEC(".maps");

static __always_inline __u64 mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

static __always_inline struct diolkos_lease *lease_of(const struct in6_addr *node)
{
	__u64 high = (__u64)bpf_ntohl(node->s6_addr32[0]) << 32 | bpf_ntohl(node->s6_addr32[1]);
	__u64 low = (__u64)bpf_ntohl(node->s6_addr32[2]) << 32 | bpf_ntohl(node->s6_addr32[3]);
	__u32 place = (__u32)mix(mix(nat64.lease_key, high), low) & (DIOLKOS_LEASES - 1);
	struct diolkos_lease *lease = bpf_map_lookup_elem(&leases, &place);

	return lease && in6_equal(node, &lease->node) ? lease : 0;
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

/* One of the sessions that may be opened. */
static __always_inline int lease_take_session(struct diolkos_lease *lease)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		__u32 left = *(volatile __u32 *)&lease->sessions;

		if (!left)
			return -1;
		if (__sync_val_compare_and_swap(&lease->sessions, left, left - 1) == left)
			return 0;
	}
	return -1;
}

/* A port of the wanted parity (RFC 4787 REQ-4), or -1. */
static __always_inline int lease_take_port(struct diolkos_lease *lease, int odd)
{
	struct diolkos_lease_ports *queue = &lease->parity[odd];

	for (int i = 0; i < ATTEMPTS; i++) {
		__u32 head = *(volatile __u32 *)&queue->head;
		__u16 port;

		if (head == *(volatile __u32 *)&queue->tail)
			return -1;
		port = *(volatile __u16 *)&queue->ports[head % DIOLKOS_LEASE_PORTS];
		if (__sync_val_compare_and_swap(&queue->head, head, head + 1) == head)
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

/* A new binding of the node's port; -1 if there is none, and told says whether a leased port is left over. */
static __always_inline int open_binding(const struct seen *s, struct diolkos_lease *lease, struct diolkos_bound_to *to,
					__u8 *told)
{
	struct diolkos_bound key = { .node = s->src6, .node_port_be = s->src_port_be };
	__u16 own = bpf_ntohs(s->src_port_be);
	int port;

	*told = DIOLKOS_BOUND;
	if (own < FIRST_USER_PORT || has_neighbour(s))
		return -1;
	port = lease_take_port(lease, own & 1);
	if (port < 0)
		return -1;
	to->v4_be = lease->v4_be;
	to->v4_port_be = bpf_htons(port);
	/* Another CPU, or the controller, may have been faster. */
	if (bpf_map_update_elem(&bound, &key, to, BPF_NOEXIST)) {
		*told = DIOLKOS_UNWANTED;
		return -1;
	}
	return 0;
}

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

	return bpf_map_update_elem(&inward, &key, &to_node, BPF_ANY) ? -1 : 0;
}

/*
 * Opens a UDP session. `to` is the node's binding if there is one, or will be. -1: the packet is the controller's. From
 * the binding on there is no way back: a session that does not fit into the map is told like the others, and the
 * controller translates for it.
 */
static __always_inline int open_session(const struct seen *s, __be32 peer_be, __u8 prefix, struct diolkos_bound_to *to,
					int is_bound)
{
	__u8 told = DIOLKOS_OPENED;
	struct diolkos_opening *opening;
	struct diolkos_lease *lease;
	int done = 0;

	if (!s->dst_port_be || is_own(peer_be))
		return -1;
	lease = lease_of(&s->src6);
	if (!lease || lease_take_session(lease))
		return -1;
	opening = bpf_ringbuf_reserve(&openings, sizeof(*opening), 0);
	/* At once: verifiers before Linux 6.4 ask for the release of a record that a later test finds missing. */
	if (!opening) {
		__sync_fetch_and_add(&lease->sessions, 1);
		return -1;
	}
	if (!is_bound)
		done = open_binding(s, lease, to, &told);
	if (done)
		__sync_fetch_and_add(&lease->sessions, 1);
	if (done && told != DIOLKOS_UNWANTED) {
		bpf_ringbuf_discard(opening, BPF_RB_NO_WAKEUP);
		return -1;
	}
	if (!done)
		done = put_session(s, peer_be, prefix, to);
	opening->node = s->src6;
	opening->peer_be = peer_be;
	opening->v4_be = to->v4_be;
	opening->node_port_be = s->src_port_be;
	opening->peer_port_be = s->dst_port_be;
	opening->v4_port_be = to->v4_port_be;
	opening->prefix = prefix;
	opening->told = told;
	bpf_ringbuf_submit(opening, 0);
	return done;
}

#endif
