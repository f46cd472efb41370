/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * change.h - what a packet becomes (RFC 7915 sections 4.1 and 5.1): the other
 * header for a packet that the guards let through, and the one change to its
 * transport header.
 *
 *   struct change                what was decided about a packet
 *   header_4to6, header_6to4     the new network header
 *   checksum_for, write_l4       the transport header, with its checksum
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

/* A port or query identifier that becomes another (RFC 6146); in a stateless translator none does. */
struct renumbering {
	__be16 from_be;
	__be16 to_be;
	__u32 at; /* bytes behind the beginning of a TCP or UDP header */
};

/* From one family to the other: addresses of the header to be. */
struct change {
	struct in6_addr src6, dst6; /* of an IPv4 packet */
	__be32 src4_be, dst4_be;    /* of an IPv6 packet */
	struct renumbering port;
};

static __always_inline __u8 traffic_class_behind(const struct seen *s)
{
	return rules.traffic_class_zero ? 0 : s->traffic_class;
}

/* The first word of an IPv6 header: version, traffic class, flow label 0. */
static __always_inline __be32 first_word_behind(const struct seen *s)
{
	return bpf_htonl(6U << 28 | (__u32)traffic_class_behind(s) << 20);
}

static __always_inline struct ipv6hdr header_4to6(const struct seen *s, const struct change *c)
{
	struct ipv6hdr ip = {
		.payload_len = bpf_htons(s->payload_len),
		.nexthdr = s->l4_proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : s->l4_proto,
		.hop_limit = s->hop_limit - 1,
	};

	*(__be32 *)&ip = first_word_behind(s);
	ip.saddr = c->src6;
	ip.daddr = c->dst6;
	return ip;
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

static __always_inline struct iphdr header_6to4(const struct seen *s, const struct change *c)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = traffic_class_behind(s),
		.tot_len = bpf_htons(s->payload_len + sizeof(ip)),
		.ttl = s->hop_limit - 1,
		.protocol = s->l4_proto,
		.saddr = c->src4_be,
		.daddr = c->dst4_be,
	};

	/*
	 * A packet that fits the lowest IPv6 MTU may be fragmented on its way, and then needs an id. Who cuts a
	 * super-packet counts on from it (RFC 6864 section 4.2).
	 */
	if (s->segment_len + sizeof(ip) <= IPV4_MIN_IPV6_MTU)
		ip.id = bpf_htons(next_ipv4_ids(segments(s)));
	else
		ip.frag_off = bpf_htons(IPV4_DF);

	const __u32 *w = (const __u32 *)&ip;

	ip.check = ~csum_fold16((__u64)w[0] + w[1] + w[2] + w[3] + w[4]);
	return ip;
}

/* What becomes of the checksum of a TCP or UDP header. */
struct checksum {
	__u16 addresses; /* the change of the pseudo-header, as csum_delta gives it */
	__u8 moves;      /* 1: it is not the same behind the translation */
	__u8 is_partial; /* 1: the device finishes it (CHECKSUM_PARTIAL) */
};

static __always_inline struct checksum checksum_for(const struct seen *s, __u16 addresses,
						    const struct renumbering *port)
{
	return (struct checksum){
		.addresses = addresses,
		.moves =
		    s->l4_proto != IPPROTO_ICMP && (!csum_delta_is_zero(addresses) || port->from_be != port->to_be),
	};
}

/* Where it stands, bytes behind the beginning of a TCP or UDP header. */
static __always_inline __u32 checksum_at(const struct seen *s)
{
	return s->l4_proto == IPPROTO_TCP ? __builtin_offsetof(struct tcphdr, check)
					  : __builtin_offsetof(struct udphdr, check);
}

/* The field behind the translation. Ports are no part of the pseudo-header. */
static __always_inline __be16 checksum_behind(const struct seen *s, const struct checksum *sum,
					      const struct renumbering *port)
{
	__u64 total = sum->is_partial ? s->checksum_be : (__u16)~s->checksum_be;

	if (!csum_delta_is_zero(sum->addresses))
		total += sum->addresses;
	if (sum->is_partial)
		return csum_fold16(total);
	if (port->from_be != port->to_be)
		total += (__u64)(__u16)~port->from_be + port->to_be;

	__be16 whole_be = ~csum_fold16(total);

	return whole_be || s->l4_proto == IPPROTO_TCP ? whole_be : 0xffff; /* RFC 768: 0 is sent as 0xffff */
}

/* Checksum and port of the TCP or UDP header at l4. gone, come: sums of what is overwritten, and by what. 0, or -1. */
static __always_inline int write_l4(void *l4, void *end, const struct seen *s, const struct checksum *sum,
				    const struct renumbering *port, __u64 *gone, __u64 *come)
{
	__be16 *field = l4 + checksum_at(s);
	__be16 *number = l4 + port->at;

	if ((void *)(field + 1) > end || (void *)(number + 1) > end)
		return -1;
	*field = checksum_behind(s, sum, port);
	*gone += s->checksum_be;
	*come += *field;
	if (port->from_be != port->to_be) {
		*number = port->to_be;
		*gone += port->from_be;
		*come += port->to_be;
	}
	return 0;
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

/* Of all that write_echo changes. */
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

#endif
