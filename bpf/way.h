/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * way.h - the way of a packet that is still to be translated, from what was seen of it and what it becomes.
 *
 *   ask_way_4to6, ask_way_6to4     the question
 *   look_up_way                    route, neighbour and MTU by the kernel's tables, and the exit by the operator's word
 *
 * A way is found only where everything is well. Nothing has to be known here about errors, fragments, neighbours that are
 * still to be found, routes that are none and destinations that are the router's own: then there is no way, and the
 * kernel, which gets the packet, decides all that and answers it.
 */
#ifndef DIOLKOS_WAY_H
#define DIOLKOS_WAY_H

#include "addr.h"
#include "change.h"
#include "maps.h"
#include "packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

const volatile struct diolkos_direct direct = {};

/*
 * The kernel refuses IPv4 sources that cannot be: its own addresses, and with a reverse-path filter those from which no
 * route leads back. An answer to a translated packet comes back through the translator: a source whose route leads to
 * another place is the kernel's to judge. (IPv6 sources it does not look at when it forwards.)
 */
static __always_inline int is_from_here(void *ctx, const struct bpf_fib_lookup *way)
{
	struct bpf_fib_lookup back = {
		.family = AF_INET,
		.ifindex = way->ifindex,
		.l4_protocol = way->l4_protocol,
		.ipv4_src = way->ipv4_dst,
		.ipv4_dst = way->ipv4_src,
	};

	/* Where no route leads out, the index stays as it was. */
	return bpf_fib_lookup(ctx, &back, sizeof(back), 0) >= 0 && back.ifindex == rules.tun_ifindex;
}

/* An interface of the translator's: nobody gave leave to pass by the rules of others. */
static __always_inline int is_exit(__u32 ifindex)
{
	for (__u32 i = 0; i < DIOLKOS_EXITS && i < direct.exits; i++) {
		if (direct.exit[i] == ifindex)
			return 1;
	}
	return 0;
}

/* What the kernel is asked of a packet's ports behind the translation, and of the length of one on the wire. 0, or -1. */
static __always_inline int ask_l4(const struct packet *p, const struct seen *s, const struct change *c, __u32 header,
				  struct bpf_fib_lookup *way)
{
	__u32 len = header + s->segment_len;

	if (len > 0xffff)
		return -1;
	/* Without a length, the helper would let a super-packet of any segments pass. */
	way->tot_len = len;
	way->ifindex = p->ifindex;
	way->l4_protocol = s->l4_proto;
	if (s->l4_proto == IPPROTO_ICMP)
		return 0;
	/* Rules may speak of ports. */
	way->sport = s->src_port_be;
	way->dport = s->dst_port_be;
	if (c->port.from_be == c->port.to_be)
		return 0;
	if (c->port.at)
		way->dport = c->port.to_be;
	else
		way->sport = c->port.to_be;
	return 0;
}

/* The question by which the kernel would look the way of a packet up that becomes IPv6. way: zeros. 0: there is none. */
static __always_inline int ask_way_4to6(const struct packet *p, const struct seen *s, const struct change *c,
					struct bpf_fib_lookup *way)
{
	if (!direct.exits || ask_l4(p, s, c, sizeof(struct ipv6hdr), way))
		return 0;
	way->family = AF_INET6;
	if (s->l4_proto == IPPROTO_ICMP)
		way->l4_protocol = IPPROTO_ICMPV6;
	way->flowinfo = bpf_htonl((__u32)traffic_class_behind(s) << 20);
	__builtin_memcpy(way->ipv6_src, &c->src6, sizeof(way->ipv6_src));
	__builtin_memcpy(way->ipv6_dst, &c->dst6, sizeof(way->ipv6_dst));
	return 1;
}

/* The same of one that becomes IPv4. */
static __always_inline int ask_way_6to4(const struct packet *p, const struct seen *s, const struct change *c,
					struct bpf_fib_lookup *way)
{
	if (!direct.exits || ask_l4(p, s, c, sizeof(struct iphdr), way))
		return 0;
	way->family = AF_INET;
	way->tos = traffic_class_behind(s);
	way->ipv4_src = c->src4_be;
	way->ipv4_dst = c->dst4_be;
	return 1;
}

/*
 * ctx: the hook's. checks_source: the source came with the packet, and was not chosen by the translator. 1: `way` is the
 * answer, with the MAC addresses of both its ends.
 */
static __always_inline int look_up_way(void *ctx, struct bpf_fib_lookup *way, int checks_source)
{
	if (checks_source && way->family == AF_INET && !is_from_here(ctx, way))
		return 0;
	return bpf_fib_lookup(ctx, way, sizeof(*way), 0) == BPF_FIB_LKUP_RET_SUCCESS && is_exit(way->ifindex);
}

#endif
