/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * translate.h - where the driver changes the family of a router's packets: packet → parse → decide → route → apply, at XDP.
 *
 * XDP_PASS is the answer to everything that is not plain, and the frame is untouched then: the kernel makes a packet of
 * it, and the program of tc at the same interface gets that (tc/translate.h). So there is no fate for it here.
 */
#ifndef DIOLKOS_XDP_TRANSLATE_H
#define DIOLKOS_XDP_TRANSLATE_H

#include "../decide.h"
#include "../maps.h"
#include "../route_cache.h"
#include "apply.h"
#include "neighbour.h"
#include "packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>

/*
 * There is a route, the exit's driver can go it, and the kernel knows that the next hop is in use. route: ifindex is that of
 * the card, see lead_by_card.
 */
static __always_inline int finds_route(struct xdp_md *ctx, const struct route_key *k, struct bpf_fib_lookup *route,
				       int checks_source)
{
	int found = find_route(ctx, k, route, AT_XDP | (checks_source ? CHECKS_SOURCE : 0)), at;

	if (!found)
		return 0;
	at = port_of(route->ifindex);
	if (!is_sendable(at, ctx->ingress_ifindex, is_in_buffers(ctx)))
		return 0;
	if (!(found & KNOWN_ROUTE) && !is_confirmed(route))
		return 0;
	lead_by_card(at, route);
	return 1;
}

/* The program's return value. fate: of a packet of so many bytes, which has become longer; 0: its frame is as it was. */
static __always_inline int leave(struct xdp_md *ctx, int fate, __u32 len, int longer,
				 const struct bpf_fib_lookup *route)
{
	if (!fate)
		return XDP_PASS;
	count(fate, len);
	if (fate == DIOLKOS_FAILED)
		return XDP_DROP;
	count(DIOLKOS_SENT_XDP, len + longer);
	return route->ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(route->ifindex, 0);
}

#define HAS_TABLES 1

/* As many hops as on the other ways of the same placement (tc/translate.h), of which change.h takes one. */
#define HOPS_SENT_XDP 2

/*
 * checks_source: see look_up_route. has_tables: 0 under test, where no packet is forwarded: each has a route, back to where
 * it came from.
 */
static __always_inline int translate_xdp(struct xdp_md *ctx, decide_fn from_v4, decide_fn from_v6, int checks_source,
					 int has_tables)
{
	struct arrival a = arrival(ctx);
	struct bpf_fib_lookup route = { .ifindex = ctx->ingress_ifindex, .h_vlan_TCI = a.vlan_be };
	struct route_key k;
	struct change c = {};
	struct seen s = { .l2 = a.l2 };
	struct packet p;

	if (a.type_be == bpf_htons(ETH_P_IP)) {
		p = frame(ctx, &a);
		if (decide_4to6(&p, from_v4, &s, &c) || is_unfinished(&s, 0))
			return XDP_PASS;
		if (has_tables && (s.hop_limit <= HOPS_SENT_XDP ||
				   !(route_key_4to6(&p, &s, &c, &k) && finds_route(ctx, &k, &route, 0))))
			return XDP_PASS;
		s.hop_limit -= has_tables ? HOPS_SENT_XDP - 1 : 0;
		return leave(ctx, apply_frame_4to6(ctx, &s, &c, &route), s.payload_len + sizeof(struct iphdr), LONGER,
			     &route);
	} else if (a.type_be == bpf_htons(ETH_P_IPV6)) {
		p = frame(ctx, &a);
		if (decide_6to4(&p, from_v6, &s, &c) || is_unfinished(&s, 1))
			return XDP_PASS;
		if (has_tables && (s.hop_limit <= HOPS_SENT_XDP ||
				   !(route_key_6to4(&p, &s, &c, &k) && finds_route(ctx, &k, &route, checks_source))))
			return XDP_PASS;
		s.hop_limit -= has_tables ? HOPS_SENT_XDP - 1 : 0;
		return leave(ctx, apply_frame_6to4(ctx, &s, &c, &route), s.payload_len + sizeof(struct ipv6hdr),
			     -LONGER, &route);
	}
	return XDP_PASS;
}

#endif
