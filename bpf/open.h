/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * open.h - what a NAT64's program tells the controller, who owns all state: sessions of UDP and TCP that it opens by
 * itself, by a lease, and segments that may move a session of TCP.
 *
 *   open_session   the lease, the binding, the session; and the controller is told
 *   tell_transition     what a segment is, and of which session
 *
 * Whatever the tables would look at more closely is left to them: a port below 1024, one that wants to stand beside
 * another's, a peer that is a node of ours. What has been taken from a lease is always reported, so that nothing is lost
 * and the controller knows of a session before it sees any packet that follows from it.
 */
#ifndef DIOLKOS_OPEN_H
#define DIOLKOS_OPEN_H

#include "home.h"
#include "session_cache.h"
#include <bpf/bpf_endian.h>

#define FIRST_USER_PORT 1024
#define ATTEMPTS 4 /* with other CPUs at the same lease */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIOLKOS_LEASE_WAYS); /* the loader's: nat64.lease_sets * DIOLKOS_LEASE_WAYS */
	__type(key, __u32);
	__type(value, struct diolkos_lease);
} leases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader's */
	__type(key, __u32);
	__type(value, struct diolkos_wide_ports);
} wide_ports SEC(".maps");

/*
 * 43 600 records: more than come while the controller waits for a CPU. A connection is four, so at 100 000 a second they
 * last for 0.1 s.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} openings SEC(".maps");

/*
 * Of several gateways, whether it is this one that opens the host's bindings. Out of line, and before open_leased: the
 * stack that Linux 6.1 allows has no room for both at once.
 */
static __noinline int opens_here(const struct in6_addr *host, __be16 port_be, __u8 protocol)
{
	__u32 zero = 0;
	struct diolkos_cluster *c = bpf_map_lookup_elem(&cluster, &zero);

	if (!c || !c->is_on)
		return 1;
	return home_of(c, host) == DIOLKOS_OURS && away_of(host, port_be, protocol) == DIOLKOS_OURS;
}

#define NO_LEASE (~0ULL)

/* The term and, below it, the place of the node's lease, if it has sessions left. Out of line as opens_here. */
static __noinline __u64 lease_of(const struct in6_addr *node)
{
	__u64 high = number_of(&node->s6_addr32[0]), low = number_of(&node->s6_addr32[2]);
	__u32 set = (__u32)mix(mix(nat64.lease_key, high), low) & (nat64.lease_sets - 1);

	for (__u32 way = 0; way < DIOLKOS_LEASE_WAYS; way++) {
		__u32 place = set * DIOLKOS_LEASE_WAYS + way;
		struct diolkos_lease *lease = bpf_map_lookup_elem(&leases, &place);
		__u64 sessions;

		/* Most nodes have none, and find others'. */
		if (!lease || !(__u32) * (volatile __u64 *)&lease->sessions || !in6_equal(node, &lease->node))
			continue;
		/* A barrier as well: the term is read before the node whose it is. */
		sessions = __sync_fetch_and_add(&lease->sessions, 0);
		if (!(__u32)sessions || !in6_equal(node, &lease->node))
			continue;
		return sessions >> 32 << 32 | place;
	}
	return NO_LEASE;
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

#define NOT_WIDE 0xffffffff /* lies beyond the end of wide_ports */

/*
 * A port of the wanted protocol and parity (RFC 4787 REQ-4), or -1. wide: the place among wide_ports that the lease had when
 * it was read, or NOT_WIDE; with a port of this term, it is of this term. It is on the stack, which has no room for a pointer.
 */
static __always_inline int lease_take_port(struct diolkos_lease *lease, __u32 term, const __u32 *wide, __u8 protocol,
					   __u32 odd)
{
	__u64 at = (protocol == IPPROTO_TCP ? 2 : 0) | (odd & 1);
	struct diolkos_lease_ports *queue;

	/* So that the bound is set where it is used: the verifier of Linux 6.1 forgets it on the way. */
	asm volatile("" : "+r"(at));
	queue = &lease->queues[at & 3];
	for (int i = 0; i < ATTEMPTS; i++) {
		__u64 head = *(volatile __u64 *)&queue->head;
		const struct diolkos_wide_ports *elsewhere;
		__u32 left;
		__u16 port;

		if (head >> 32 != term)
			return -1;
		/* A barrier as well: tail and port are read in this order. An older port may be somebody's. */
		left = __sync_fetch_and_add(&queue->tail, 0) - (__u32)head;
		if (left - 1 >= (*wide == NOT_WIDE ? DIOLKOS_LEASE_PORTS : DIOLKOS_WIDE_PORTS))
			return -1;
		elsewhere = bpf_map_lookup_elem(&wide_ports, wide);
		if (elsewhere) {
			__u64 n = (at & 3) * DIOLKOS_WIDE_PORTS + head % DIOLKOS_WIDE_PORTS;

			/* As above. It is always below. */
			asm volatile("" : "+r"(n));
			if (n >= 4 * DIOLKOS_WIDE_PORTS)
				return -1;
			port = *(const volatile __u16 *)&elsewhere->ports[n];
		} else {
			port = *(volatile __u16 *)&queue->ports[head % DIOLKOS_LEASE_PORTS];
		}
		if (__sync_val_compare_and_swap(&queue->head, head, head >> 32 << 32 | (__u32)(head + 1)) == head)
			return port;
	}
	return -1;
}

/* RTCP wants the port after that of its RTP (RFC 4787 section 4.2.3), which only the pool can tell to be free. */
static __always_inline int has_neighbour(const struct seen *s)
{
	struct diolkos_bib_entry *rtp;
	__u16 port = bpf_ntohs(s->src_port_be);

	if (s->l4_proto != IPPROTO_UDP || !(port & 1))
		return 0;
	rtp = binding_of_udp(&s->src6, bpf_htons(port - 1));
	return rtp && !(bpf_ntohs(rtp->v4_port_be) & 1);
}

/* A new binding of the node's port. 1: there is none, and a leased port is left over; -1: there is none. */
static __always_inline int open_binding(const struct seen *s, struct diolkos_lease *lease, __u32 term, __u32 *wide,
					struct diolkos_bib_entry *to)
{
	struct diolkos_bib_key key = { .node = s->src6, .node_port_be = s->src_port_be, .protocol = s->l4_proto };
	__u16 own = bpf_ntohs(s->src_port_be);
	int port;

	if (own < FIRST_USER_PORT || has_neighbour(s))
		return -1;
	/* Read first: with a port of this term, it is of this term. */
	to->v4_be = *(volatile __be32 *)&lease->v4_be;
	*wide = *(volatile __u32 *)&lease->wide - 1;
	port = lease_take_port(lease, term, wide, s->l4_proto, own);
	if (port < 0)
		return -1;
	to->v4_port_be = bpf_htons(port);
	to->owner = DIOLKOS_OURS;
	to->check = check_of_bib(&key, to);
	/* Another CPU, or the controller, may have been faster. */
	return bpf_map_update_elem(&bib, &key, to, BPF_NOEXIST) ? 1 : 0;
}

/*
 * A session of TCP for the packets of the node. Before that of the peer's packets: if it has to go again, its key is the
 * node's own.
 */
static __always_inline int put_session6(const struct seen *s, __be32 peer_be, __u8 prefix,
					const struct diolkos_bib_entry *binding)
{
	struct diolkos_session6_key key = key6_of(s, peer_be);
	struct diolkos_session6 to_peer = {
		.v4_be = binding->v4_be,
		.v4_port_be = binding->v4_port_be,
		.prefix = prefix,
	};

	return bpf_map_update_elem(&sessions6, &key, &to_peer, BPF_NOEXIST);
}

static __always_inline void drop_session6(const struct seen *s, __be32 peer_be)
{
	struct diolkos_session6_key key = key6_of(s, peer_be);

	bpf_map_delete_elem(&sessions6, &key);
	forget_session6(s, peer_be);
}

/* A session for the packets of the peer. 1: it is there already. -1: it cannot be put there; the place may be another's. */
static __always_inline int put_session4(const struct seen *s, __be32 peer_be, __u8 prefix,
					const struct diolkos_bib_entry *binding)
{
	struct diolkos_session4_key key = key4_of(s, peer_be, binding);
	struct diolkos_session4 to_node = {
		.last_seen = bpf_ktime_get_coarse_ns(),
		.node = s->src6,
		.node_port_be = s->src_port_be,
		.prefix = prefix,
		.sent = s->l4_proto == IPPROTO_TCP ? DIOLKOS_SENT_SYN6 : 0,
	};
	struct diolkos_session4 *there;

	to_node.check = check_of_session4(&key, &to_node, DIOLKOS_OURS);
	if (!bpf_map_update_elem(&sessions4, &key, &to_node, BPF_NOEXIST))
		return 0;
	there = bpf_map_lookup_elem(&sessions4, &key);
	/* The check says whose it is, too. */
	return there && *(volatile __u32 *)&there->check == to_node.check ? 1 : -1;
}

/* As put_session4. Half a session of TCP is none. */
static __always_inline int put_session(const struct seen *s, __be32 peer_be, __u8 prefix,
				       const struct diolkos_bib_entry *binding)
{
	int put;

	if (s->l4_proto != IPPROTO_TCP)
		return put_session4(s, peer_be, prefix, binding);
	if (put_session6(s, peer_be, prefix, binding))
		return -1;
	put = put_session4(s, peer_be, prefix, binding);
	if (put)
		drop_session6(s, peer_be);
	return put ? -1 : 0;
}

/*
 * Out of line: it is rare, and longer than all that the other packets meet.
 *
 * Opens a session by a lease that lease_of has found; `to` will be the node's binding. -1: the packet is the controller's.
 *
 * The order matters. The controller takes a binding out of the map first, then waits until every record that was
 * reserved before is submitted, and only then may the port become another node's. So the record is reserved first, and
 * then the binding is looked up again: either the controller waits for this session, or there is no binding here.
 */
static __noinline int open_leased(const struct seen *s, __be32 peer_be, __u8 prefix, __u64 found,
				  struct diolkos_bib_entry *to)
{
	__u32 term = found >> 32, place = found;
	struct diolkos_opening *opening;
	struct diolkos_lease *lease;
	int binding, put;

	if (!s->dst_port_be || is_own(peer_be))
		return -1;
	lease = bpf_map_lookup_elem(&leases, &place);
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
	/* Here and not at the end: what stands in the record takes no room on the stack. */
	opening->peer_be = peer_be;
	opening->prefix = prefix;
	opening->term = term;
	opening->report = DIOLKOS_OPENED;
	binding = copy_binding(s, to);
	/* Of another gateway's binding, the controller decides. */
	if (binding > 0 && to->owner != DIOLKOS_OURS)
		binding = -1;
	put = binding < 0 ? -1 : 0;
	if (!binding) {
		opening->report = DIOLKOS_BOUND;
		put = open_binding(s, lease, opening->term, &place, to);
		if (put > 0)
			opening->report = DIOLKOS_UNWANTED;
	}
	if (!put) {
		put = put_session(s, opening->peer_be, opening->prefix, to);
		/* From the binding on there is no way back. */
		if (put && opening->report == DIOLKOS_BOUND)
			opening->report = DIOLKOS_ALONE;
	}
	/* A session that is reported is used up. */
	if (put && opening->report != DIOLKOS_ALONE)
		lease_take_session(lease, opening->term, -1);
	if (put && opening->report != DIOLKOS_ALONE && opening->report != DIOLKOS_UNWANTED) {
		bpf_ringbuf_discard(opening, BPF_RB_NO_WAKEUP);
		/* Another CPU has opened the same. */
		return put > 0 ? 0 : -1;
	}
	opening->node = s->src6;
	opening->v4_be = to->v4_be;
	opening->node_port_be = s->src_port_be;
	opening->peer_port_be = s->dst_port_be;
	opening->v4_port_be = to->v4_port_be;
	opening->protocol = s->l4_proto;
	__builtin_memset(opening->pad, 0, sizeof(opening->pad));
	bpf_ringbuf_submit(opening, 0);
	return put ? -1 : 0;
}

/* As open_leased, if this gateway is the host's home. */
static __always_inline int open_session(const struct seen *s, __be32 peer_be, __u8 prefix, struct diolkos_bib_entry *to)
{
	__u64 lease;

	if (!opens_here(&s->src6, s->src_port_be, s->l4_proto))
		return -1;
	lease = lease_of(&s->src6);
	return lease == NO_LEASE ? -1 : open_leased(s, peer_be, prefix, lease, to);
}

/*
 * A segment with SYN, FIN or RST of a known session. The controller will know the session by its node, so that nobody's
 * else is moved if that one has ended meanwhile. -1: the packet is the controller's; there may be no room to tell it.
 */
static __always_inline int tell_transition(const struct seen *s, const struct diolkos_session4_key *key,
					   struct diolkos_session4 *session, const struct diolkos_session4 *copy,
					   int is_from_peer)
{
	__u8 sent = 0, before = *(volatile __u8 *)&session->sent;
	struct diolkos_opening *moved;

	/* After an RST, what follows tells whether it was believed. */
	if (!(s->tcp_flags & TCP_RST)) {
		if (s->tcp_flags & TCP_SYN)
			sent = is_from_peer ? DIOLKOS_SENT_SYN4 : DIOLKOS_SENT_SYN6;
		else if ((before & DIOLKOS_SENT_SYNS) == DIOLKOS_SENT_SYNS)
			sent = is_from_peer ? DIOLKOS_SENT_FIN4 : DIOLKOS_SENT_FIN6;
	}
	/* The port is used again: what was sent before must be forgotten. */
	if (sent & DIOLKOS_SENT_SYNS && (before & DIOLKOS_SENT_FINS) == DIOLKOS_SENT_FINS)
		return -1;
	moved = bpf_ringbuf_reserve(&openings, sizeof(*moved), 0);
	if (!moved)
		return -1;
	/* The word of port, prefix and `sent`: no atomic operation is shorter. */
	__sync_fetch_and_or((__u32 *)&session->node_port_be, bpf_htonl(sent));
	moved->node = copy->node;
	moved->peer_be = key->peer_be;
	moved->v4_be = key->v4_be;
	moved->node_port_be = copy->node_port_be;
	moved->peer_port_be = key->peer_port_be;
	moved->v4_port_be = key->v4_port_be;
	moved->prefix = copy->prefix;
	moved->report = DIOLKOS_MOVED;
	moved->term = s->tcp_flags | (is_from_peer ? DIOLKOS_FROM_PEER : 0);
	moved->protocol = IPPROTO_TCP;
	__builtin_memset(moved->pad, 0, sizeof(moved->pad));
	bpf_ringbuf_submit(moved, 0);
	return 0;
}

/* The same of a packet of a node. -1 also: the session is not this node's any more. */
static __always_inline int tell_transition_by_node(const struct seen *s, __be32 peer_be, __u8 prefix,
						   const struct diolkos_bib_entry *seen_as)
{
	struct diolkos_session4_key key = key4_of(s, peer_be, seen_as);
	struct diolkos_session4 own = { .node = s->src6, .node_port_be = s->src_port_be, .prefix = prefix };
	struct diolkos_session4 *session = bpf_map_lookup_elem(&sessions4, &key);

	if (!session || *(volatile __u32 *)&session->check != check_of_session4(&key, &own, seen_as->owner))
		return -1;
	return tell_transition(s, &key, session, &own, 0);
}

#endif
