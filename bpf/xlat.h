/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * xlat.h - the translation itself (RFC 7915 sections 4.1 and 5.1): the other
 * header for a packet that the guards let through, and the one change to its
 * transport header.
 *
 *   xlat_4to6, xlat_6to4   all of it; from their first call on there is no way
 *                          back: what fails is lost
 */
#ifndef DIOLKOS_XLAT_H
#define DIOLKOS_XLAT_H

#include "icmp.h"
#include "parse.h"

#define IPV4_MIN_IPV6_MTU 1260 /* RFC 7915 section 5.1: 1280 less the difference of the headers */

/* A port or query identifier that becomes another (RFC 6146); in a stateless translator none does. */
struct renumbering {
	__be16 from_be;
	__be16 to_be;
	__u32 at; /* bytes behind the beginning of a TCP or UDP header */
};

static const struct renumbering none = {};

static __always_inline struct ipv6hdr xlat_header_4to6(const struct seen *s, const struct in6_addr *src,
						       const struct in6_addr *dst)
{
	struct ipv6hdr ip = {
		.payload_len = bpf_htons(s->payload_len),
		.nexthdr = s->l4_proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : s->l4_proto,
		.hop_limit = s->hop_limit - 1,
	};
	__u8 tc = rules.traffic_class_zero ? 0 : s->traffic_class;

	*(__be32 *)&ip = bpf_htonl(6U << 28 | (__u32)tc << 20); /* flow label 0 */
	ip.saddr = *src;
	ip.daddr = *dst;
	return ip;
}

static __always_inline struct iphdr xlat_header_6to4(const struct seen *s, __be32 src_be, __be32 dst_be)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = rules.traffic_class_zero ? 0 : s->traffic_class,
		.tot_len = bpf_htons(s->payload_len + sizeof(ip)),
		.ttl = s->hop_limit - 1,
		.protocol = s->l4_proto,
		.saddr = src_be,
		.daddr = dst_be,
	};

	/* A packet that fits the lowest IPv6 MTU may be fragmented on its way, and then needs an id. */
	if (s->segment_len + sizeof(ip) <= IPV4_MIN_IPV6_MTU)
		ip.id = bpf_htons(next_ipv4_id());
	else
		ip.frag_off = bpf_htons(IPV4_DF);

	const __u32 *w = (const __u32 *)&ip;

	ip.check = ~csum_fold16((__u64)w[0] + w[1] + w[2] + w[3] + w[4]);
	return ip;
}

/*
 * Adjusts the transport checksum of the header at off for a change of the
 * pseudo-header, and of a port. The helper knows whether the field holds a
 * whole checksum or, with CHECKSUM_PARTIAL, only the pseudo-header's sum, of
 * which the port is no part.
 */
static __always_inline int xlat_l4_checksum(struct __sk_buff *skb, __u32 off, __u8 l4_proto, __u16 delta,
					    const struct renumbering *port)
{
	__u16 port_delta = csum_delta(port->from_be, port->to_be);
	__u64 flags = 0;

	if (l4_proto == IPPROTO_TCP) {
		off += __builtin_offsetof(struct tcphdr, check);
	} else {
		off += __builtin_offsetof(struct udphdr, check);
		flags = BPF_F_MARK_MANGLED_0; /* RFC 768: a checksum of 0 is sent as 0xffff */
	}
	if (!csum_delta_is_zero(delta) && bpf_l4_csum_replace(skb, off, 0, delta, flags | BPF_F_PSEUDO_HDR))
		return -1;
	if (port->from_be != port->to_be && bpf_l4_csum_replace(skb, off, 0, port_delta, flags))
		return -1;
	return 0;
}

/*
 * ICMPv6 has a pseudo-header and ICMP has none, so that the checksum changes
 * by all of it (from or to is its sum, the other is 0), by the type and by the
 * identifier. Echo never comes with CHECKSUM_PARTIAL: no device computes its
 * checksum.
 */
static __always_inline void xlat_echo(struct icmp_echo *echo, __u8 new_type, const struct renumbering *id, __u64 from,
				      __u64 to)
{
	__u16 *type_and_code = (__u16 *)echo;

	from += *type_and_code;
	echo->type = new_type;
	to += *type_and_code;
	if (id->from_be != id->to_be) {
		from += id->from_be;
		to += id->to_be;
		echo->id_be = id->to_be;
	}
	echo->checksum_be = ~csum_fold16((__u64)(__u16)~echo->checksum_be + csum_delta(from, to));
}

/* Of all that xlat_echo changes. */
static __always_inline __u64 echo_head_sum(const struct icmp_echo *echo)
{
	return (__u64) * (const __u32 *)echo + echo->id_be;
}

static __always_inline __u64 icmpv6_pseudo_sum(const struct in6_addr *src, const struct in6_addr *dst, __u16 len)
{
	return csum_in6(src) + csum_in6(dst) + bpf_htonl(len) + bpf_htonl(IPPROTO_ICMPV6);
}

static __always_inline __u64 ipv6_header_sum(const struct ipv6hdr *ip)
{
	const __u32 *w = (const __u32 *)ip;

	return (__u64)w[0] + w[1] + csum_in6(&ip->saddr) + csum_in6(&ip->daddr);
}

/* l2: bytes of link-layer header in front of the packet. 0, or -1 if the packet is lost. */
static __always_inline int xlat_4to6(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct in6_addr *src,
				     const struct in6_addr *dst, const struct renumbering *port)
{
	__u64 from = (__u64)s->src4_be + s->dst4_be, to = csum_in6(src) + csum_in6(dst);

	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IPV6), 0))
		return -1;
	if (s->l4_proto != IPPROTO_ICMP &&
	    xlat_l4_checksum(skb, l2 + sizeof(struct ipv6hdr), s->l4_proto, csum_delta(from, to), port))
		return -1;

	struct ipv6hdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return -1;

	/* As in xlat_6to4: the sum of the IPv4 header was zero, and the bytes that the kernel put there are zeros. */
	__u64 gone = 0, come = 0;

	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		xlat_echo(echo, s->new_icmp_type, port, 0, icmpv6_pseudo_sum(src, dst, s->payload_len));
		come += echo_head_sum(echo);
	} else if (port->from_be != port->to_be) {
		*(__be16 *)((void *)echo + port->at) = port->to_be;
	}
	*ip = xlat_header_4to6(s, src, dst);
	come += ipv6_header_sum(ip);
	bpf_csum_update(skb, csum_delta(gone, come));
	return 0;
}

static __always_inline int xlat_6to4(struct __sk_buff *skb, __u32 l2, const struct seen *s, __be32 src_be,
				     __be32 dst_be, const struct renumbering *port)
{
	__u64 from = csum_in6(&s->src6) + csum_in6(&s->dst6), to = (__u64)src_be + dst_be;

	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IP), 0))
		return -1;
	if (s->l4_proto != IPPROTO_ICMP &&
	    xlat_l4_checksum(skb, l2 + sizeof(struct iphdr), s->l4_proto, csum_delta(from, to), port))
		return -1;

	struct iphdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return -1;

	/*
	 * The network card may have summed the packet (CHECKSUM_COMPLETE). The kernel took the first 20 bytes of the
	 * IPv6 header out of that sum with the bytes; the other 20, which are addresses, give way to an IPv4 header,
	 * whose sum is zero. A port and the transport checksum move against each other.
	 */
	__u64 gone = (__u64)s->src6.s6_addr32[3] + csum_in6(&s->dst6), come = 0;

	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		xlat_echo(echo, s->new_icmp_type, port, icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len), 0);
		come += echo_head_sum(echo);
	} else if (port->from_be != port->to_be) {
		*(__be16 *)((void *)echo + port->at) = port->to_be;
	}
	*ip = xlat_header_6to4(s, src_be, dst_be);
	bpf_csum_update(skb, csum_delta(gone, come));
	return 0;
}

#endif
