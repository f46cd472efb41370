// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * nat64.bpf.c - the fast path of a NAT64 at the tc hooks.
 *
 *   nat64_egress        at the TUN device, to which routes lead
 *   nat64_egress_l2     the same under test, where packets have an Ethernet header
 *   nat64_ingress       at an Ethernet interface, `inline` and `direct` placement
 *   nat64_ingress_raw   at an interface of bare IP
 *
 * What begins a session goes to the controller behind the TUN device, and so
 * does everything that is not plain. Only UDP sessions of a node that has a
 * lease are opened here. Of segments that may move a session of TCP, the
 * controller is told (open.h).
 */
#include "abi.h"
#include "addr.h"
#include "isthmus.h"
#include "maps.h"
#include "open.h"
#include "parse.h"
#include "session.h"
#include "xlat.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Which prefix it is, and the IPv4 address in it; or -1. */
static __always_inline int find_pref64(const struct in6_addr *v6, __be32 *v4_be)
{
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < nat64.pref64s; i++) {
		if (!addr_extract(&nat64.pref64[i], v6, v4_be))
			return addr_v4_is_special(*v4_be, nat64.pref64[i].only_global) ? -1 : (int)i;
	}
	return -1;
}

/* How the peer sees the node, by a session of TCP or of a query. */
static __always_inline int seen_as_known(const struct seen *s, __be32 peer_be, int prefix,
					 struct diolkos_bound_to *seen_as)
{
	struct diolkos_outward_to *to = session_outward(s, peer_be);

	/* A node that begins to know its peer by another prefix changes the session. */
	if (!to || to->prefix != prefix)
		return DIOLKOS_DECLINE_STATE;
	/* With the new identifier, too, all the rest of an echo reply may be zeros; see parse_l4. */
	if (s->l4_proto == IPPROTO_ICMP && !(to->v4_port_be | s->icmp_seq_be))
		return DIOLKOS_DECLINE_CHECKSUM;
	/* What may move the session refreshes it or not: the controller decides. */
	if (!session_is_moved_by(s))
		session_stamp(&to->last_seen);
	seen_as->v4_be = to->v4_be;
	seen_as->v4_port_be = to->v4_port_be;
	return 0;
}

/* The same for UDP: by the session, or by one that is opened here. */
static __always_inline int udp_seen_as(const struct seen *s, __be32 peer_be, int prefix,
				       struct diolkos_bound_to *seen_as)
{
	int binding = copy_binding(s, seen_as);
	int session = binding > 0 ? use_session_of_udp(s, peer_be, prefix, seen_as) : 0;

	/* A node that begins to know its peer by another prefix changes the session. */
	if (binding < 0 || session < 0)
		return DIOLKOS_DECLINE_STATE;
	if (session)
		return 0;
	return open_session(s, peer_be, prefix, seen_as) ? DIOLKOS_DECLINE_STATE : 0;
}

/* From the node to the peer: the node's port becomes that of its binding. */
static __always_inline int to_peer(struct __sk_buff *skb, __u32 l2)
{
	struct renumbering port = { .at = 0 };
	struct diolkos_bound_to seen_as = {};
	struct seen s = {};
	__be32 peer_be = 0;
	int prefix, fate = parse_v6(skb, l2, &s);

	if (!fate)
		fate = guard_6to4(&s);
	if (fate)
		return fate;
	if (addr_v6_is_special(&s.src6))
		return DIOLKOS_DECLINE_ADDRESS;
	prefix = find_pref64(&s.dst6, &peer_be);
	if (prefix < 0)
		return DIOLKOS_DECLINE_ADDRESS;
	fate = s.l4_proto == IPPROTO_UDP ? udp_seen_as(&s, peer_be, prefix, &seen_as)
					 : seen_as_known(&s, peer_be, prefix, &seen_as);
	if (fate)
		return fate;
	if (session_is_moved_by(&s) && tell_moved_by_node(&s, peer_be, prefix, &seen_as))
		return DIOLKOS_DECLINE_STATE;
	port.from_be = s.src_port_be;
	port.to_be = seen_as.v4_port_be;
	return xlat_6to4(skb, l2, &s, seen_as.v4_be, peer_be, &port);
}

/* From the peer to the node. */
static __always_inline int to_node(struct __sk_buff *skb, __u32 l2)
{
	struct renumbering port = { .at = __builtin_offsetof(struct udphdr, dest) };
	struct diolkos_inward_to to = {}, *session;
	struct diolkos_inward key;
	struct in6_addr src6;
	struct seen s = {};
	int fate = parse_v4(skb, l2, &s);

	if (!fate)
		fate = guard_4to6(&s);
	if (fate)
		return fate;
	if (addr_v4_is_special(s.src4_be, 0) || addr_v4_is_special(s.dst4_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	session = session_inward(&s, &key, &to);
	if (!session)
		return DIOLKOS_DECLINE_STATE;
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < nat64.pref64s; i++) {
		__u32 number = i;

		/* So that the compiler goes on with i, which verifiers before Linux 6.8 know, and not with the equal prefix. */
		asm volatile("" : "+r"(number));
		if (number != to.prefix)
			continue;
		if (addr_v4_is_special(s.src4_be, nat64.pref64[i].only_global))
			return DIOLKOS_DECLINE_ADDRESS;
		addr_embed(&nat64.pref64[i], s.src4_be, &src6);
		goto embedded;
	}
	return DIOLKOS_DECLINE_ADDRESS;
embedded:
	if (!session_is_moved_by(&s))
		session_stamp(&session->last_seen);
	else if (tell_moved(&s, &key, session, &to, 1))
		return DIOLKOS_DECLINE_STATE;
	port.from_be = s.dst_port_be;
	port.to_be = to.node_port_be;
	return xlat_4to6(skb, l2, &s, &src6, &to.node, &port);
}

SEC("tcx/egress")
int nat64_egress(struct __sk_buff *skb)
{
	return isthmus(skb, 0, to_node, to_peer);
}

/* For BPF_PROG_TEST_RUN, which gives every packet an Ethernet header. Not loaded unless asked for. */
SEC("?tcx/egress")
int nat64_egress_l2(struct __sk_buff *skb)
{
	return isthmus(skb, ETH_HLEN, to_node, to_peer);
}

/* The source of a node's packet is one of the pool. */
#define CHECKS_SOURCE 0

/* Without routes, the sessions say what is to be translated. */
SEC("tcx/ingress")
int nat64_ingress(struct __sk_buff *skb)
{
	return isthmus_inline(skb, ETH_HLEN, to_node, to_peer, CHECKS_SOURCE);
}

SEC("tcx/ingress")
int nat64_ingress_raw(struct __sk_buff *skb)
{
	return isthmus_inline(skb, 0, to_node, to_peer, CHECKS_SOURCE);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
