/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * apply.h - makes of a frame the one that was decided, with its link-layer header. XDP: no helper knows checksums.
 *
 *   is_unfinished                        a checksum that some device was to finish
 *   apply_frame_4to6, apply_frame_6to4   0: the frame is as it was. Otherwise the fate of the packet
 *
 * A tag comes, goes or changes with the headers.
 */
#ifndef DIOLKOS_XDP_APPLY_H
#define DIOLKOS_XDP_APPLY_H

#include "../change.h"
#include "../route.h"
#include "port.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>

/* What an IPv6 header is longer than an IPv4 header. */
#define LONGER ((int)(sizeof(struct ipv6hdr) - sizeof(struct iphdr)))

static __always_inline __u64 addresses_sum(const struct seen *s, int is_ipv6)
{
	return is_ipv6 ? csum_in6(&s->src6) + csum_in6(&s->dst6) : (__u64)s->src4_be + s->dst4_be;
}

/*
 * Virtual interfaces hand over packets of this machine, whose checksums were left to a device (CHECKSUM_PARTIAL), and a
 * frame does not say so. But such a field is the sum of the pseudo-header. Of 65535 whole ones, one has that value too,
 * and its packet goes the longer way.
 */
static __always_inline int is_unfinished(const struct seen *s, int is_ipv6)
{
	__u64 pseudo = 0;

	if (s->l4_proto != IPPROTO_ICMP)
		pseudo = addresses_sum(s, is_ipv6) + bpf_htons(s->payload_len) + bpf_htons(s->l4_proto);
	else if (is_ipv6)
		pseudo = icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len);
	return csum_delta_is_zero(csum_delta(pseudo, s->checksum_be));
}

/* Bytes of the link-layer header with which it leaves. */
static __always_inline __u32 l2_behind(const struct bpf_fib_lookup *route)
{
	return ports.vlans && route->h_vlan_TCI ? ETH_HLEN + sizeof(struct vlan_tag) : ETH_HLEN;
}

/* By how many bytes the link-layer header becomes shorter. */
static __always_inline int gone_l2(const struct seen *s, const struct bpf_fib_lookup *route)
{
	return ports.vlans ? (int)s->l2 - (int)l2_behind(route) : 0;
}

/* A tag has priority 0. */
static __always_inline void write_link_layer(struct ethhdr *eth, const struct bpf_fib_lookup *route, __be16 type_be)
{
	write_macs(eth, route);
	eth->h_proto = type_be;
	if (ports.vlans && route->h_vlan_TCI) {
		struct vlan_tag *tag = (void *)(eth + 1);

		eth->h_proto = bpf_htons(ETH_P_8021Q);
		tag->tci_be = route->h_vlan_TCI;
		tag->type_be = type_be;
	}
}

/* route: see lead_by_card. */
static __always_inline int apply_frame_4to6(struct xdp_md *ctx, const struct seen *s, const struct change *c,
					    const struct bpf_fib_lookup *route)
{
	__u64 to = csum_in6(&c->src6) + csum_in6(&c->dst6);
	struct checksum sum = checksum_for(addresses_sum(s, 0), to);
	int shorter = gone_l2(s, route) - LONGER;

	if (bpf_xdp_adjust_head(ctx, shorter))
		return 0;
	if (s->padding && bpf_xdp_adjust_tail(ctx, -(int)s->padding)) {
		/* The frame as it was: nothing is written yet. */
		return bpf_xdp_adjust_head(ctx, -shorter) ? DIOLKOS_FAILED : 0;
	}

	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct ipv6hdr *ip = (void *)eth + l2_behind(route);
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP)
		write_echo(echo, s->new_icmp_type, &c->port, 0, icmpv6_pseudo_sum(&c->src6, &c->dst6, s->payload_len));
	else if (write_l4(echo, end, s, &sum, &c->port, AT_DESTINATION))
		return DIOLKOS_FAILED;
	write_header_4to6(ip, s, c);
	write_link_layer(eth, route, bpf_htons(ETH_P_IPV6));
	count_mss(s, sizeof(struct iphdr) + s->payload_len + s->padding);
	return DIOLKOS_TRANSLATED_4TO6;
}

static __always_inline int apply_frame_6to4(struct xdp_md *ctx, const struct seen *s, const struct change *c,
					    const struct bpf_fib_lookup *route)
{
	__u64 to = (__u64)c->src4_be + c->dst4_be;
	struct checksum sum = checksum_for(addresses_sum(s, 1), to);
	int shorter = gone_l2(s, route) + LONGER;
	/* With a tag, the frame is long enough without it: who takes it off need not know. */
	int lacks = ETH_ZLEN - ETH_HLEN - (int)sizeof(struct iphdr) - (int)s->payload_len;

	/* Zeros up to the shortest frame of an Ethernet, before the frame is that short. */
	if (lacks > 0 && bpf_xdp_adjust_tail(ctx, lacks))
		return 0;
	if (bpf_xdp_adjust_head(ctx, shorter))
		return lacks > 0 && bpf_xdp_adjust_tail(ctx, -lacks) ? DIOLKOS_FAILED : 0;

	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)eth + l2_behind(route);
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP)
		write_echo(echo, s->new_icmp_type, &c->port, icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len), 0);
	else if (write_l4(echo, end, s, &sum, &c->port, AT_SOURCE))
		return DIOLKOS_FAILED;
	write_header_6to4(ip, s, c);
	write_link_layer(eth, route, bpf_htons(ETH_P_IP));
	count_mss(s, sizeof(struct ipv6hdr) + s->payload_len);
	return DIOLKOS_TRANSLATED_6TO4;
}

#endif
