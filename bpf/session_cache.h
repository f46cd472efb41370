/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * session_cache.h - sessions that packets have found a moment ago, each in one line of the CPU's cache.
 *
 *   recall_session6, recall_session4      the session of a packet, if it is here
 *   remember_session6, remember_session4  keep what was found in the tables
 *
 * A look-up in a hash table touches a bucket and an element, an outward UDP packet does two; with thousands of flows, none of these
 * is in a cache of the CPU. Here a session has one place for each direction, by a hash of what the packet shows.
 *
 * Invariant: no packet is translated by a session that had left the tables, or changed there, before its program began, once who
 * removed it has gone on; nor after the end of the window, whoever was killed meanwhile.
 * Whoever removes or changes a session does so in the tables first, and then raises `changes` of both its places. A program
 * reads `changes` before it looks into the tables, and keeps the number with what it has found: so what was found before the
 * removal is never believed after it, however late it is written down.
 *
 * A session is looked up in the tables once in each window of time, and stamped there. So its stamp is late by less than a window,
 * for which the controller allows. What is found first in a window keeps its place.
 */
#ifndef DIOLKOS_SESSION_CACHE_H
#define DIOLKOS_SESSION_CACHE_H

#include "copies.h"
#include "session.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader's: nat64.known_sessions */
	__type(key, __u32);
	__type(value, struct diolkos_known_session);
} known_sessions SEC(".maps");

/* Where what is found in the tables may be kept. */
struct known_place {
	struct diolkos_known_session *at; /* 0: nowhere */
	__u32 changes;                    /* of that place, before anything is looked up */
	__u32 window;
};

/* Only these need nothing but the session's addresses and ports. */
static __always_inline int needs_only_addresses(const struct seen *s)
{
	return s->l4_proto == IPPROTO_UDP || (s->l4_proto == IPPROTO_TCP && !(s->tcp_flags & TCP_FIN_SYN_RST));
}

static __always_inline __u32 window_of_now(void)
{
	return coarse_now() >> DIOLKOS_KNOWN_WINDOW;
}

static __always_inline struct diolkos_known_session *known_session(__u64 hash)
{
	__u32 at = hash & (nat64.known_sessions - 1);

	return bpf_map_lookup_elem(&known_sessions, &at);
}

/* The packet's session is not at its place: whether what will be found in the tables may be kept there. */
static __always_inline void miss(struct diolkos_known_session *at, __u32 window, struct known_place *p)
{
	if (*(volatile __u32 *)&at->window == window && *(volatile __u32 *)&at->seen == *(volatile __u32 *)&at->changes)
		return;
	p->at = at;
	p->window = window;
	/* A barrier as well, between this number and the look-up in the tables. */
	p->changes = __sync_fetch_and_add(&at->changes, 0);
}

/* Two CPUs may write one place. What is read is believed only if the check fits all of it. */
static __always_inline __u32 check_of_known(__u64 hash, __u32 seen, __u32 window)
{
	return mix(hash, (__u64)seen << 32 | window);
}

/*
 * A keyed hash: the sum of these of all words. Without the keys, nobody can tell two sessions that have the same (NH of UMAC, RFC
 * 4418 section 5.2.2), so nobody can aim at the place of somebody else's.
 */
static __always_inline __u64 hash_of_word(__u64 word, __u32 at)
{
	__u32 low = (__u32)word + nat64.known_keys[2 * at], high = (__u32)(word >> 32) + nat64.known_keys[2 * at + 1];

	return (__u64)low * high;
}

/* Each bit of the sum matters to the lowest, which select the place. */
static __always_inline __u64 spread(__u64 sum)
{
	return mix(0, sum ^ sum >> 32);
}

/* Both are aligned for it. */
#define WORDS(address) ((const __u64 *)&(address))

/* What packets of a node show of their session. */
struct known6_key {
	__u64 high, low; /* of the node */
	__u64 peer;
	__u64 rest;
};

static __always_inline struct known6_key known6_key(const struct seen *s, __be32 peer_be)
{
	return (struct known6_key){
		.high = WORDS(s->src6)[0],
		.low = WORDS(s->src6)[1],
		.peer = (__u64)peer_be << 32 | (__u64)s->src_port_be << 16 | s->dst_port_be,
		.rest = s->l4_proto,
	};
}

static __always_inline __u64 hash_of_known6(const struct known6_key *k)
{
	return spread(hash_of_word(k->high, 0) + hash_of_word(k->low, 1) + hash_of_word(k->peer, 2) +
		      hash_of_word(k->rest, 3));
}

static __noinline int recall_session6(const struct seen *s, __be32 peer_be, __u8 prefix, struct known_place *p,
				      struct diolkos_bib_entry *seen_as)
{
	struct known6_key k = known6_key(s, peer_be);
	__u64 hash = hash_of_known6(&k), to;
	struct diolkos_known_session *at = known_session(hash);
	__u32 seen, window = window_of_now();

	if (!at || !needs_only_addresses(s))
		return 0;
	seen = *(volatile __u32 *)&at->seen;
	to = *(volatile __u64 *)&at->word[4];
	if (at->window != window || at->word[0] != k.high || at->word[1] != k.low || at->word[2] != k.peer ||
	    at->word[3] != k.rest || at->word[5] != AF_INET6 || (__u8)(to >> 8) != prefix ||
	    seen != *(volatile __u32 *)&at->changes ||
	    *(volatile __u32 *)&at->check != check_of_known(mix(hash, to), seen, window) || !copy_serves(to)) {
		miss(at, window, p);
		return 0;
	}
	seen_as->v4_be = to >> 32;
	seen_as->v4_port_be = to >> 16;
	seen_as->owner = to;
	return 1;
}

static __always_inline void remember_session6(const struct seen *s, __be32 peer_be, __u8 prefix,
					      const struct known_place *p, const struct diolkos_bib_entry *seen_as)
{
	struct known6_key k = known6_key(s, peer_be);
	__u64 to = (__u64)seen_as->v4_be << 32 | (__u64)seen_as->v4_port_be << 16 | (__u64)prefix << 8 | seen_as->owner;

	if (!p->at)
		return;
	p->at->word[0] = k.high;
	p->at->word[1] = k.low;
	p->at->word[2] = k.peer;
	p->at->word[3] = k.rest;
	p->at->word[4] = to;
	p->at->word[5] = AF_INET6;
	p->at->seen = p->changes;
	p->at->window = p->window;
	p->at->check = check_of_known(mix(hash_of_known6(&k), to), p->changes, p->window);
}

/* A session has left the table of this direction. */
static __always_inline void forget_session6(const struct seen *s, __be32 peer_be)
{
	struct known6_key k = known6_key(s, peer_be);
	struct diolkos_known_session *at = known_session(hash_of_known6(&k));
	__u32 changes;

	if (!at)
		return;
	/* A barrier as well, behind the removal. If it fails, somebody else has raised the number since. */
	changes = *(volatile __u32 *)&at->changes;
	__sync_val_compare_and_swap(&at->changes, changes, changes + 1);
}

/* What packets of a peer show of their session. */
struct known4_key {
	__u64 addresses;
	__u64 rest;
};

static __always_inline struct known4_key known4_key(const struct seen *s)
{
	return (struct known4_key){
		.addresses = (__u64)s->dst4_be << 32 | s->src4_be,
		.rest = (__u64)s->dst_port_be << 48 | (__u64)s->src_port_be << 32 | s->l4_proto,
	};
}

static __always_inline __u64 hash_of_known4(const struct known4_key *k)
{
	return spread(hash_of_word(k->addresses, 0) + hash_of_word(k->rest, 1));
}

/* Where the packets of a peer go, but for the node's address. */
struct to_node {
	__be16 port_be;
	__u8 prefix; /* by which the node knows the peer */
	__u8 owner;
};

static __noinline int recall_session4(const struct seen *s, struct known_place *p, struct in6_addr *node,
				      struct to_node *to)
{
	struct known4_key k = known4_key(s);
	__u64 hash = hash_of_known4(&k), high, low, rest;
	struct diolkos_known_session *at = known_session(hash);
	__u32 seen, window = window_of_now();

	if (!at || !needs_only_addresses(s))
		return 0;
	seen = *(volatile __u32 *)&at->seen;
	high = *(volatile __u64 *)&at->word[2];
	low = *(volatile __u64 *)&at->word[3];
	rest = *(volatile __u64 *)&at->word[4];
	if (at->window != window || at->word[0] != k.addresses || at->word[1] != k.rest || at->word[5] != AF_INET ||
	    seen != *(volatile __u32 *)&at->changes ||
	    *(volatile __u32 *)&at->check != check_of_known(mix(mix(mix(hash, high), low), rest), seen, window) ||
	    !copy_serves(rest)) {
		miss(at, window, p);
		return 0;
	}
	((__u64 *)node)[0] = high;
	((__u64 *)node)[1] = low;
	to->port_be = rest >> 16;
	to->prefix = rest >> 8;
	to->owner = rest;
	return 1;
}

static __always_inline void remember_session4(const struct seen *s, const struct known_place *p,
					      const struct in6_addr *node, const struct to_node *to)
{
	__u64 high = WORDS(*node)[0], low = WORDS(*node)[1];
	__u64 rest = (__u64)to->port_be << 16 | (__u64)to->prefix << 8 | to->owner;
	struct known4_key k = known4_key(s);

	if (!p->at)
		return;
	p->at->word[0] = k.addresses;
	p->at->word[1] = k.rest;
	p->at->word[2] = high;
	p->at->word[3] = low;
	p->at->word[4] = rest;
	p->at->word[5] = AF_INET;
	p->at->seen = p->changes;
	p->at->window = p->window;
	p->at->check = check_of_known(mix(mix(mix(hash_of_known4(&k), high), low), rest), p->changes, p->window);
}

#endif
