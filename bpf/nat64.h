/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat64.h - what a NAT64 decides: seen → change, by its sessions.
 *
 * What begins a session goes to the controller behind the TUN device. Only
 * sessions of UDP and TCP of a node that has a lease are opened here. Of
 * segments that may move a session of TCP, the controller is told (open.h).
 * Without routes, the sessions say what is to be translated: a NAT64 decides
 * the same at every place. A session made from a copy of another gateway's
 * binding is none after the owner's deadline (copies.h).
 */
#ifndef DIOLKOS_NAT64_H
#define DIOLKOS_NAT64_H

#include "abi.h"
#include "addr.h"
#include "change.h"
#include "copies.h"
#include "open.h"
#include "parse.h"
#include "session.h"
#include "session_cache.h"
#include "unbound.h"
#include <bpf/bpf_helpers.h>

/* The source of a node's packet is one of the pool. */
#define NAT64_CHECKS_SOURCE 0

/* Which prefix it is, and the IPv4 address in it; or -1. */
static __always_inline int find_pref64(const struct in6_addr *v6, __be32 *v4_be)
{
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < nat64.pref64s; i++) {
		if (!addr_extract(&nat64.pref64[i], v6, v4_be))
			return addr_v4_is_special(*v4_be, nat64.pref64[i].only_global) ? -1 : (int)i;
	}
	return -1;
}

#define MAY_OPEN (-1) /* there is no session, and this packet may begin one */

/* How the peer sees the node, by a session of TCP or of a query. */
static __always_inline int find_known(const struct seen *s, __be32 peer_be, int prefix,
				      struct diolkos_bib_entry *seen_as)
{
	struct diolkos_session6 *to = session6_of(s, peer_be);
	int known_prefix;

	if (!to)
		return is_first_syn(s) ? MAY_OPEN : DIOLKOS_DECLINE_STATE;
	known_prefix = copy_session6(to, seen_as);
	if (!copy_serves(seen_as->owner))
		return DIOLKOS_DECLINE_COPY;
	/* A node that begins to know its peer by another prefix changes the session. */
	if (known_prefix != prefix)
		return DIOLKOS_DECLINE_STATE;
	/* With the new identifier, too, all the rest of an echo reply may be zeros; see parse_l4. */
	if (s->l4_proto == IPPROTO_ICMP && !(seen_as->v4_port_be | s->icmp_seq_be))
		return DIOLKOS_DECLINE_CHECKSUM;
	/* What may move the session refreshes it or not: the controller decides. */
	if (may_change_state(s))
		return tell_transition_by_node(s, peer_be, prefix, seen_as) ? DIOLKOS_DECLINE_STATE : 0;
	session_stamp(&to->last_seen);
	return 0;
}

/* The same for UDP. */
static __always_inline int find_known_udp(const struct seen *s, __be32 peer_be, int prefix,
					  struct diolkos_bib_entry *seen_as)
{
	int binding = copy_binding(s, seen_as);
	int session;

	if (binding > 0 && !copy_serves(seen_as->owner))
		return DIOLKOS_DECLINE_COPY;
	session = binding > 0 ? use_session_of_udp(s, peer_be, prefix, seen_as) : 0;
	/* A node that begins to know its peer by another prefix changes the session. */
	if (binding < 0 || session < 0)
		return DIOLKOS_DECLINE_STATE;
	return session ? 0 : MAY_OPEN;
}

/* By the tables. Out of line, as its twin below: the keys take much of the stack. */
static __noinline int find_session6(const struct seen *s, __be32 peer_be, __u8 prefix, const struct known_place *known,
				    struct diolkos_bib_entry *seen_as)
{
	int fate = s->l4_proto == IPPROTO_UDP ? find_known_udp(s, peer_be, prefix, seen_as)
					      : find_known(s, peer_be, prefix, seen_as);

	if (!fate)
		remember_session6(s, peer_be, prefix, known, seen_as);
	return fate;
}

/* From the node to the peer: the node's port becomes that of its binding. */
static __always_inline int to_peer(const struct seen *s, struct change *c)
{
	struct diolkos_bib_entry seen_as = {};
	struct known_place known = {};
	int prefix, fate;

	if (addr_v6_is_special(&s->src6))
		return DIOLKOS_DECLINE_ADDRESS;
	prefix = find_pref64(&s->dst6, &c->dst4_be);
	if (prefix < 0)
		return DIOLKOS_DECLINE_ADDRESS;
	if (!recall_session6(s, c->dst4_be, prefix, &known, &seen_as)) {
		fate = find_session6(s, c->dst4_be, prefix, &known, &seen_as);
		if (fate == MAY_OPEN)
			fate = open_session(s, c->dst4_be, prefix, &seen_as) ? DIOLKOS_DECLINE_STATE : 0;
		if (fate)
			return fate;
	}
	c->src4_be = seen_as.v4_be;
	c->port = (struct renumbering){
		.from_be = s->src_port_be,
		.to_be = seen_as.v4_port_be,
	};
	return 0;
}

/* Whether a packet from this address goes through the prefix, which the session names. */
static __always_inline int is_special_in(__u8 prefix, __be32 v4_be)
{
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < nat64.pref64s; i++) {
		if (i == prefix)
			return addr_v4_is_special(v4_be, nat64.pref64[i].only_global);
	}
	return 1;
}

/* The node by the tables, for a peer's packet. */
static __noinline int find_session4(const struct seen *s, const struct known_place *known, struct in6_addr *node,
				    struct to_node *to)
{
	struct diolkos_session4_key key;
	struct diolkos_session4 copy, *session;

	if (addr_v4_is_special(s->dst4_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	session = session4_of(s, &key, &copy);
	if (!session)
		return addr_v4_is_special(s->src4_be, 0) ? DIOLKOS_DECLINE_ADDRESS : DIOLKOS_DECLINE_STATE;
	if (!copy_serves(owner_of(&copy)))
		return DIOLKOS_DECLINE_COPY;
	if (is_special_in(copy.prefix, s->src4_be))
		return DIOLKOS_DECLINE_ADDRESS;
	in6_copy(node, &copy.node);
	to->port_be = copy.node_port_be;
	to->prefix = copy.prefix;
	to->owner = owner_of(&copy);
	if (may_change_state(s))
		return tell_transition(s, &key, session, &copy, 1) ? DIOLKOS_DECLINE_STATE : 0;
	session_stamp(&session->last_seen);
	remember_session4(s, known, node, to);
	return 0;
}

/* From the peer to the node. */
static __always_inline int to_node(const struct seen *s, struct change *c)
{
	struct known_place known = {};
	struct to_node to;

	if (!recall_session4(s, &known, &c->dst6, &to)) {
		int fate = find_session4(s, &known, &c->dst6, &to);

		if (fate)
			return fate;
	}
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < nat64.pref64s; i++) {
		__u32 number = i;

		/* So that the compiler goes on with i, which verifiers before Linux 6.8 know, and not with the equal prefix. */
		asm volatile("" : "+r"(number));
		if (number != to.prefix)
			continue;
		addr_embed(&nat64.pref64[i], s->src4_be, &c->src6);
		goto embedded;
	}
	return DIOLKOS_DECLINE_ADDRESS;
embedded:
	c->port = (struct renumbering){
		.from_be = s->dst_port_be,
		.to_be = to.port_be,
	};
	return 0;
}

/* The same where routes have led the packet to the slow path. */
static __always_inline int to_node_at_device(const struct seen *s, struct change *c)
{
	int fate = to_node(s, c);

	return fate == DIOLKOS_DECLINE_STATE && is_unsolicited(s) ? DIOLKOS_DROP_NO_BINDING : fate;
}

#endif
