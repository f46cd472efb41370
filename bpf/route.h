/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * route.h - the route of a packet that is still to be translated, from what was seen of it and what it becomes.
 *
 *   route_key_4to6, route_key_6to4   the question
 *   look_up_route                    route, neighbour and MTU by the kernel's tables, and the exit by the operator's word
 *
 * A route is found only where everything is well. Nothing has to be known here about errors, fragments, neighbours that are
 * still to be found, routes that are none and destinations that are the router's own: then there is no route, and the
 * kernel, which gets the packet, decides all that and answers it.
 */
#ifndef DIOLKOS_ROUTE_H
#define DIOLKOS_ROUTE_H

#include "addr.h"
#include "change.h"
#include "maps.h"
#include "packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

const volatile struct diolkos_direct direct = {};

/* May packets leave here? Only by interfaces that the operator named: between others, firewall rules may apply. */
static __always_inline int is_exit(__u32 ifindex)
{
	for (__u32 i = 0; i < DIOLKOS_EXITS && i < direct.exits; i++) {
		if (direct.exit[i] == ifindex)
			return 1;
	}
	return 0;
}

/*
 * All that the kernel is asked of a packet behind the translation, and the length of one on the wire, on which no route
 * depends but whether it is wide enough. Words, for they are compared more often than asked.
 */
#define ROUTE_KEY_WORDS 6

/* Without ports, for those that they cannot matter to. */
#define WITHOUT_PORTS(first) ((first)&0xffffffff)

struct route_key {
	__u64 word[ROUTE_KEY_WORDS]; /* ports, family, protocol; interface, traffic class; source; destination */
	__u32 len;
};

/* Rules may speak of ports. 0, or -1. */
static __always_inline int ask_l4(const struct packet *p, const struct seen *s, const struct change *c, __u32 header,
				  __u8 family, __be32 flow_be, struct route_key *k)
{
	__u16 sport_be = s->src_port_be, dport_be = s->dst_port_be;
	__u32 protocol = s->l4_proto;

	k->len = header + s->segment_len;
	if (k->len > 0xffff)
		return -1;
	if (protocol == IPPROTO_ICMP) {
		sport_be = dport_be = 0;
		protocol = family == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	} else if (c->port.from_be != c->port.to_be) {
		if (family == AF_INET6)
			dport_be = c->port.to_be;
		else
			sport_be = c->port.to_be;
	}
	k->word[0] = (__u64)sport_be << 48 | (__u64)dport_be << 32 | (__u32)family << 8 | protocol;
	k->word[1] = (__u64)p->ifindex << 32 | flow_be;
	return 0;
}

/* The question by which the kernel looks up the route of a packet that becomes IPv6. 0: there is none. */
static __always_inline int route_key_4to6(const struct packet *p, const struct seen *s, const struct change *c,
					  struct route_key *k)
{
	__be32 flow_be = bpf_htonl((__u32)s->traffic_class << 20);

	if (!direct.exits || ask_l4(p, s, c, sizeof(struct ipv6hdr), AF_INET6, flow_be, k))
		return 0;
	in6_copy((struct in6_addr *)&k->word[2], &c->src6);
	in6_copy((struct in6_addr *)&k->word[4], &c->dst6);
	return 1;
}

/* The same of one that becomes IPv4. */
static __always_inline int route_key_6to4(const struct packet *p, const struct seen *s, const struct change *c,
					  struct route_key *k)
{
	if (!direct.exits || ask_l4(p, s, c, sizeof(struct iphdr), AF_INET, s->traffic_class, k))
		return 0;
	k->word[2] = c->src4_be;
	k->word[3] = 0;
	k->word[4] = c->dst4_be;
	k->word[5] = 0;
	return 1;
}

/* The question as the helper wants it. */
static __always_inline void ask(struct bpf_fib_lookup *route, const struct route_key *k)
{
	__builtin_memset(route, 0, sizeof(*route));
	route->family = (__u8)(k->word[0] >> 8);
	route->l4_protocol = (__u8)k->word[0];
	route->sport = k->word[0] >> 48;
	route->dport = (__u16)(k->word[0] >> 32);
	/* Without a length, the helper would let a super-packet of any segments pass. */
	route->tot_len = k->len;
	route->ifindex = k->word[1] >> 32;
	if (route->family == AF_INET) {
		route->tos = (__u8)k->word[1];
		route->ipv4_src = (__u32)k->word[2];
		route->ipv4_dst = (__u32)k->word[4];
	} else {
		route->flowinfo = (__u32)k->word[1];
		__builtin_memcpy(route->ipv6_src, &k->word[2], sizeof(route->ipv6_src));
		__builtin_memcpy(route->ipv6_dst, &k->word[4], sizeof(route->ipv6_dst));
	}
}

/*
 * The kernel refuses IPv4 sources that cannot be: its own addresses, and with a reverse-path filter those from which no
 * route leads back. An answer to a translated packet comes back through the translator: a source whose route leads to
 * another place is the kernel's to judge. (IPv6 sources it does not look at when it forwards.)
 */
static __always_inline int is_from_here(void *ctx, struct bpf_fib_lookup *back, const struct route_key *k)
{
	__builtin_memset(back, 0, sizeof(*back));
	back->family = AF_INET;
	back->ifindex = k->word[1] >> 32;
	back->l4_protocol = (__u8)k->word[0];
	back->ipv4_src = (__u32)k->word[4];
	back->ipv4_dst = (__u32)k->word[2];
	/* Where no route leads out, the index stays as it was. */
	return bpf_fib_lookup(ctx, back, sizeof(*back), 0) >= 0 && back->ifindex == rules.tun_ifindex;
}

/*
 * ctx: the hook's. checks_source: the source came with the packet, and was not chosen by the translator. 1: `route` is the
 * answer, with the MAC addresses of both its ends.
 */
static __always_inline int look_up_route(void *ctx, const struct route_key *k, struct bpf_fib_lookup *route,
					 int checks_source)
{
	if (checks_source && (__u8)(k->word[0] >> 8) == AF_INET && !is_from_here(ctx, route, k))
		return 0;
	ask(route, k);
	return bpf_fib_lookup(ctx, route, sizeof(*route), 0) == BPF_FIB_LKUP_RET_SUCCESS && is_exit(route->ifindex);
}

/* MAC addresses of both ends. */
static __always_inline void write_macs(struct ethhdr *eth, const struct bpf_fib_lookup *route)
{
	__u16 *out = (__u16 *)eth;
	const __u16 *smac = (const __u16 *)route->smac, *dmac = (const __u16 *)route->dmac;

	*out = *dmac;
	*(__u32 *)(out + 1) = *(const __u32 *)(dmac + 1);
	*(__u32 *)(out + 3) = *(const __u32 *)smac;
	out[5] = smac[2];
}

#endif
