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

/* Those of tc are for packets whose neighbour the kernel has seen in use (tc/send.h). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_SETS);
	__type(key, __u32);
	__type(value, struct route_set);
} xdp_routes SEC(".maps");

/* The exit's driver transmits it. */
static __always_inline int is_sendable(struct xdp_md *ctx, __u32 exit)
{
	int port = port_of(exit);
	__u8 sends = port < 0 ? DIOLKOS_SENDS_NOTHING : ports.port[port & (DIOLKOS_EXITS - 1)].sends;
	__u8 turns = port < 0 ? 0 : ports.port[port & (DIOLKOS_EXITS - 1)].turns;

	/* Out where it came in, the driver does not redirect. */
	if (exit == ctx->ingress_ifindex ? !turns : sends < DIOLKOS_SENDS_FRAMES)
		return 0;
	return sends >= DIOLKOS_SENDS_BUFFERS || !is_in_buffers(ctx);
}

/* There is a route, the exit's driver can go it, and the kernel knows that the next hop is in use. */
static __always_inline int finds_route(struct xdp_md *ctx, const struct route_key *k, struct bpf_fib_lookup *route,
				       int checks_source)
{
	int found = find_route(ctx, &xdp_routes, k, route, AT_XDP | (checks_source ? CHECKS_SOURCE : 0));

	if (!found || !is_sendable(ctx, route->ifindex))
		return 0;
	return found & KNOWN_ROUTE || is_confirmed(route);
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
	struct bpf_fib_lookup route = { .ifindex = ctx->ingress_ifindex };
	__be16 type_be = frame_type(ctx);
	struct route_key k;
	struct change c = {};
	struct seen s = {};
	struct packet p;
	__u32 len;
	int fate;

	if (type_be == bpf_htons(ETH_P_IP)) {
		p = frame(ctx);
		if (decide_4to6(&p, from_v4, &s, &c) || is_unfinished(&s, 0))
			return XDP_PASS;
		if (has_tables && (s.hop_limit <= HOPS_SENT_XDP ||
				   !(route_key_4to6(&p, &s, &c, &k) && finds_route(ctx, &k, &route, 0))))
			return XDP_PASS;
		s.hop_limit -= has_tables ? HOPS_SENT_XDP - 1 : 0;
		len = sizeof(struct ipv6hdr) + s.payload_len;
		fate = apply_frame_4to6(ctx, &s, &c, &route);
	} else if (type_be == bpf_htons(ETH_P_IPV6)) {
		p = frame(ctx);
		if (decide_6to4(&p, from_v6, &s, &c) || is_unfinished(&s, 1))
			return XDP_PASS;
		if (has_tables && (s.hop_limit <= HOPS_SENT_XDP ||
				   !(route_key_6to4(&p, &s, &c, &k) && finds_route(ctx, &k, &route, checks_source))))
			return XDP_PASS;
		s.hop_limit -= has_tables ? HOPS_SENT_XDP - 1 : 0;
		len = sizeof(struct iphdr) + s.payload_len;
		fate = apply_frame_6to4(ctx, &s, &c, &route);
	} else {
		return XDP_PASS;
	}

	if (!fate)
		return XDP_PASS;
	count(fate, p.len - s.padding);
	if (fate == DIOLKOS_FAILED)
		return XDP_DROP;
	count(DIOLKOS_SENT_XDP, len);
	return route.ifindex == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(route.ifindex, 0);
}

#endif
