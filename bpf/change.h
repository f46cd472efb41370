/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * change.h - what a packet becomes (RFC 7915 sections 4.1 and 5.1): the other
 * header for a packet that the guards let through, and the one change to its
 * transport header.
 *
 *   struct change                what was decided about a packet
 *   write_header_4to6, _6to4     the new network header
 *   checksum_for, write_l4       the transport header, with its checksum, and the maximum segment size of a SYN
 *   write_echo                   the same of ICMP
 *
 * Nothing here knows at which hook the packet is. What makes room for the
 * header is the hook's (tc/apply.h).
 */
#ifndef DIOLKOS_CHANGE_H
#define DIOLKOS_CHANGE_H

#include "icmp.h"
#include "parse.h"

#define IPV4_MIN_IPV6_MTU 1260 /* RFC 7915 section 5.1: 1280 less the difference of the headers */

/*
 * The node's port or query identifier, which becomes another (RFC 6146); in a stateless translator none does. Where it stands
 * in a TCP or UDP header: the node is the source of a packet that becomes IPv4, and the destination of one that becomes IPv6.
 */
struct renumbering {
	__be16 from_be;
	__be16 to_be;
};

#define AT_SOURCE __builtin_offsetof(struct udphdr, source)
#define AT_DESTINATION __builtin_offsetof(struct udphdr, dest)

/* From one family to the other: addresses of the header to be. */
struct change {
	struct in6_addr src6 IN6_ALIGNED, dst6 IN6_ALIGNED; /* of an IPv4 packet */
	__be32 src4_be, dst4_be;                            /* of an IPv6 packet */
	struct renumbering port;
};

/* The first word of an IPv6 header: version, traffic class, flow label 0. */
static __always_inline __be32 first_word_behind(const struct seen *s)
{
	return bpf_htonl(6U << 28 | (__u32)s->traffic_class << 20);
}

static __always_inline void write_header_4to6(struct ipv6hdr *ip, const struct seen *s, const struct change *c)
{
	__u32 next = s->l4_proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : s->l4_proto;
	__be32 *w = (__be32 *)ip;

	w[0] = first_word_behind(s);
	w[1] = bpf_htonl((__u32)s->payload_len << 16 | next << 8 | (__u8)(s->hop_limit - 1));
	in6_copy(&ip->saddr, &c->src6);
	in6_copy(&ip->daddr, &c->dst6);
}

/*
 * For how many packets it stands. The kernel would say (gso_segs), but not of a super-packet that came from a virtual
 * machine or a TUN device.
 */
static __always_inline __u32 segments(const struct seen *s)
{
	__u32 size = s->segment_data_len;

	return size ? (s->payload_len - s->segment_len + size + size - 1) / size : 1;
}

static __always_inline void write_header_6to4(struct iphdr *ip, const struct seen *s, const struct change *c)
{
	__be32 *w = (__be32 *)ip, w0, w1, w2;

	w0 = bpf_htonl(0x45U << 24 | (__u32)s->traffic_class << 16 | (s->payload_len + sizeof(*ip)));
	/*
	 * A packet that fits the lowest IPv6 MTU may be fragmented on its way, and then needs an id. Who cuts a
	 * super-packet counts on from it (RFC 6864 section 4.2).
	 */
	if (s->segment_len + sizeof(*ip) <= IPV4_MIN_IPV6_MTU)
		w1 = bpf_htonl((__u32)next_ipv4_ids(segments(s)) << 16);
	else
		w1 = bpf_htonl(IPV4_DF);
	w2 = bpf_htonl((__u32)(__u8)(s->hop_limit - 1) << 24 | (__u32)s->l4_proto << 16);
	w[0] = w0;
	w[1] = w1;
	w[2] = w2;
	w[3] = c->src4_be;
	w[4] = c->dst4_be;
	ip->check = ~csum_fold16((__u64)w0 + w1 + w2 + c->src4_be + c->dst4_be);
}

/* What becomes of the checksum of a TCP or UDP header. */
struct checksum {
	__u64 delta;     /* of the addresses in the pseudo-header: a sum that is not folded, and never 0 */
	__u8 is_partial; /* 1: the device finishes it (CHECKSUM_PARTIAL) */
};

/* from, to: sums of the addresses. */
static __always_inline struct checksum checksum_for(__u64 from, __u64 to)
{
	return (struct checksum){ .delta = to + (CSUM_ZERO - from) };
}

/* 0: a checksum-neutral translation (RFC 6052 section 4.1). Ports are no part of the pseudo-header. */
static __always_inline int checksum_moves(const struct checksum *sum, const struct renumbering *port)
{
	return port->from_be != port->to_be || !csum_delta_is_zero(csum_fold16(sum->delta));
}

/* Where it stands, bytes behind the beginning of a TCP or UDP header. */
static __always_inline __u32 checksum_at(const struct seen *s)
{
	return s->l4_proto == IPPROTO_TCP ? __builtin_offsetof(struct tcphdr, check)
					  : __builtin_offsetof(struct udphdr, check);
}

/*
 * A checksum that is left to a device is the sum of its pseudo-header. Of 65535 whole ones, one has that value too.
 * addresses: their sum.
 */
static __always_inline int may_be_partial(const struct seen *s, __u64 addresses)
{
	__u64 pseudo = addresses + bpf_htons(s->payload_len) + bpf_htons(s->l4_proto);

	return csum_delta_is_zero(csum_delta(pseudo, s->checksum_be));
}

/* The field where one of its two zeros comes or goes: they stay where nothing changes. */
static __always_inline __be16 checksum_of_zeros(const struct seen *s, const struct checksum *sum,
						const struct renumbering *port)
{
	__u64 total = sum->is_partial ? s->checksum_be : (__u16)~s->checksum_be;
	__u16 delta = csum_fold16(sum->delta);

	if (!checksum_moves(sum, port))
		return s->checksum_be;
	if (!csum_delta_is_zero(delta))
		total += delta;
	if (sum->is_partial)
		return csum_fold16(total);
	if (port->from_be != port->to_be)
		total += (__u64)(__u16)~port->from_be + port->to_be;

	__be16 whole_be = ~csum_fold16(total);

	return whole_be || s->l4_proto == IPPROTO_TCP ? whole_be : 0xffff; /* RFC 768: 0 is sent as 0xffff */
}

/* The field behind the translation. */
static __always_inline __be16 checksum_behind(const struct seen *s, const struct checksum *sum,
					      const struct renumbering *port)
{
	/* All ones: the field is the complement of its sum. A sum that a device goes on with is not. */
	__u16 whole = sum->is_partial ? 0 : 0xffff;
	__u64 total = (s->checksum_be ^ whole) + sum->delta;
	__be16 field_be;

	if (whole && port->from_be != port->to_be)
		total += (__u64)(__u16)~port->from_be + port->to_be;
	field_be = csum_fold16(total) ^ whole;
	/* The added sum is not 0, so the result is 0xffff even where 0 is right: a zero is decided apart. */
	return (whole ? field_be : s->checksum_be) ? field_be : checksum_of_zeros(s, sum, port);
}

/* Of a SYN whose maximum segment size is lowered. */
static __always_inline __be16 mss_behind(const struct seen *s)
{
	return rules.tcp_mss && s->mss_be ? bpf_htons(rules.tcp_mss) : 0;
}

/* Counts it. len: bytes of the packet as it arrived. */
static __always_inline void count_mss(const struct seen *s, __u32 len)
{
	if (mss_behind(s))
		count(DIOLKOS_MSS_CLAMPED, len);
}

/*
 * Lowers it, behind the header at l4 whose checksum fits the rest by now (RFC 1624 section 3). One that a device finishes does
 * not cover it yet. 0, or -1.
 */
static __always_inline int write_mss(void *l4, void *end, const struct seen *s, const struct checksum *sum)
{
	struct tcphdr *tcp = l4;
	struct tcp_mss_option *option = (void *)(tcp + 1);
	__be16 mss_be = mss_behind(s);

	if (!mss_be)
		return 0;
	if ((void *)(option + 1) > end)
		return -1;
	option->mss_be = mss_be;
	if (!sum->is_partial)
		tcp->check = ~csum_fold16((__u64)(__u16)~tcp->check + (__u16)~s->mss_be + mss_be);
	return 0;
}

/* Checksum and port, which is `at` there, of the TCP or UDP header at l4, whose first 8 bytes the verifier knows. 0, or -1. */
static __always_inline int write_l4(void *l4, void *end, const struct seen *s, const struct checksum *sum,
				    const struct renumbering *port, __u32 at)
{
	__be16 *field = l4 + checksum_at(s);
	__be16 *number = l4 + at;

	if ((void *)(field + 1) > end)
		return -1;
	*field = checksum_behind(s, sum, port);
	if (port->from_be != port->to_be)
		*number = port->to_be;
	return write_mss(l4, end, s, sum);
}

/*
 * ICMPv6 has a pseudo-header and ICMP has none, so that the checksum changes
 * by all of it (from or to is its sum, the other is 0), by the type and by the
 * identifier. It is whole: the hook has seen to that.
 */
static __always_inline void write_echo(struct icmp_echo *echo, __u8 new_type, const struct renumbering *id, __u64 from,
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

/* The sum of all that write_l4 or write_echo overwrite. */
static __always_inline __u64 l4_sum_before(const struct seen *s, const struct renumbering *port)
{
	__u64 sum = (__u64)s->checksum_be + port->from_be + (mss_behind(s) ? s->mss_be : 0);

	return s->l4_proto == IPPROTO_ICMP ? sum + bpf_htons((__u16)s->icmp_type << 8) : sum;
}

/* And of what they put there. l4: the header, of which the verifier knows the first 8 bytes. */
static __always_inline __u64 l4_sum_behind(const void *l4, const void *end, const struct seen *s,
					   const struct renumbering *port)
{
	const struct icmp_echo *echo = l4;
	const __be16 *field = l4 + checksum_at(s);

	if (s->l4_proto == IPPROTO_ICMP)
		return (__u64) * (const __u32 *)echo + port->to_be;
	return (void *)(field + 1) > end ? 0 : (__u64)*field + port->to_be + mss_behind(s);
}

static __always_inline __u64 icmpv6_pseudo_sum(const struct in6_addr *src, const struct in6_addr *dst, __u16 len)
{
	return csum_in6(src) + csum_in6(dst) + bpf_htonl(len) + bpf_htonl(IPPROTO_ICMPV6);
}

/* Of the header that write_header_4to6 writes. */
static __always_inline __u64 header_sum_4to6(const struct seen *s, const struct change *c)
{
	struct ipv6hdr ip IN6_ALIGNED;
	const __u32 *w = (const __u32 *)&ip;

	write_header_4to6(&ip, s, c);
	return (__u64)w[0] + w[1] + csum_in6(&ip.saddr) + csum_in6(&ip.daddr);
}

#endif
