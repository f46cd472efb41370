/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * xlat.h - the translation itself (RFC 7915 sections 4.1 and 5.1): the other
 * header for a packet that the guards let through, and the one change to its
 * transport header.
 *
 *   checksum_guard         the last guard: whose checksum is left to the device?
 *   xlat_4to6, xlat_6to4   all of it; once bpf_skb_change_proto is called there
 *                          is no way back: what fails is lost
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

/*
 * For how many packets it stands. The kernel would say (gso_segs), but not of a super-packet that came from a virtual
 * machine or a TUN device.
 */
static __always_inline __u32 segments(const struct seen *s)
{
	__u32 size = s->segment_data_len;

	return size ? (s->payload_len - s->segment_len + size + size - 1) / size : 1;
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

/*
 * Does the device finish the checksum at `at`? Only a helper knows: a change that is none of the pseudo-header it makes
 * in a whole checksum alone. That change is taken back. -1 if the packet cannot be written to.
 */
static __always_inline int checksum_is_partial(struct __sk_buff *skb, __u32 at, __be16 was_be)
{
	if (bpf_l4_csum_replace(skb, at, 0, 1, 0))
		return -1;

	__be16 *field = (void *)(long)skb->data + at;

	if ((void *)(field + 1) > (void *)(long)skb->data_end)
		return -1;

	int is_partial = *field == was_be;

	*field = was_be;
	/* Kept from here for one branch of two, skb->data would be a number to the compiler, and none to the verifier. */
	barrier();
	return is_partial;
}

/*
 * In a tunnel the checksum that is left to the device may be that of the packet inside. Then the tunnel's own is whole,
 * and no helper changes it. No program is told whose it is; but a checksum that the device finishes is the sum of its
 * pseudo-header. (Of 65535 whole ones, one has that value too. Such a packet is lost.)
 *
 * An echo that leaves its checksum to the device comes from a virtual machine or a packet socket, not from a kernel. It
 * would need another pseudo-header, or lose it.
 */
static __always_inline int checksum_guard(struct __sk_buff *skb, __u32 l4, const struct seen *s, __u64 pseudo_sum,
					  struct checksum *sum)
{
	int is_partial;

	if (s->l4_proto == IPPROTO_ICMP) {
		is_partial =
		    checksum_is_partial(skb, l4 + __builtin_offsetof(struct icmp_echo, checksum_be), s->checksum_be);
		return is_partial < 0 ? DIOLKOS_FAILED : is_partial ? DIOLKOS_DECLINE_OFFLOAD : 0;
	}
	if (!sum->moves || s->l4_proto != IPPROTO_UDP)
		return 0;
	is_partial = checksum_is_partial(skb, l4 + __builtin_offsetof(struct udphdr, check), s->checksum_be);
	if (is_partial < 0)
		return DIOLKOS_FAILED;
	pseudo_sum += bpf_htons(s->payload_len) + bpf_htons(IPPROTO_UDP);
	if (is_partial && !csum_delta_is_zero(csum_delta(pseudo_sum, s->checksum_be)))
		return DIOLKOS_DECLINE_OFFLOAD;
	sum->is_partial = is_partial;
	return 0;
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

/*
 * Writes checksum and port of the TCP or UDP header at l4. gone, come: sums of what is overwritten, and by what. 0, or
 * -1 if the packet cannot be written to.
 */
static __always_inline int xlat_l4(struct __sk_buff *skb, __u32 l4, const struct seen *s, struct checksum *sum,
				   const struct renumbering *port, __u64 *gone, __u64 *come)
{
	__u32 at = l4 + (s->l4_proto == IPPROTO_TCP ? __builtin_offsetof(struct tcphdr, check)
						    : __builtin_offsetof(struct udphdr, check));

	if (!sum->moves)
		return 0;
	/*
	 * Only here, for TCP has nothing to decline: the sender's queue often shares a segment, which would be copied
	 * for the question and once more to make room for the header.
	 */
	if (s->l4_proto == IPPROTO_TCP) {
		int is_partial = checksum_is_partial(skb, at, s->checksum_be);

		if (is_partial < 0)
			return -1;
		sum->is_partial = is_partial;
	}

	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__be16 *field = data + at;
	__be16 *number = data + l4 + port->at;

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
	barrier(); /* as in checksum_is_partial */
	return 0;
}

/*
 * ICMPv6 has a pseudo-header and ICMP has none, so that the checksum changes
 * by all of it (from or to is its sum, the other is 0), by the type and by the
 * identifier. It is whole: checksum_guard has seen to that.
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

/* l2: bytes of link-layer header in front of the packet. The fate of the packet. */
static __always_inline int xlat_4to6(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct in6_addr *src,
				     const struct in6_addr *dst, const struct renumbering *port)
{
	__u64 from = (__u64)s->src4_be + s->dst4_be, to = csum_in6(src) + csum_in6(dst);
	struct checksum sum = checksum_for(s, csum_delta(from, to), port);
	int fate = checksum_guard(skb, l2 + sizeof(struct iphdr), s, from, &sum);
	/* As in xlat_6to4: the sum of the IPv4 header was zero, and the bytes that the kernel put there are zeros. */
	__u64 gone = 0, come = 0;

	if (fate)
		return fate;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IPV6), 0))
		return DIOLKOS_FAILED;
	if (xlat_l4(skb, l2 + sizeof(struct ipv6hdr), s, &sum, port, &gone, &come))
		return DIOLKOS_FAILED;

	struct ipv6hdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		xlat_echo(echo, s->new_icmp_type, port, 0, icmpv6_pseudo_sum(src, dst, s->payload_len));
		come += echo_head_sum(echo);
	}
	*ip = xlat_header_4to6(s, src, dst);
	come += ipv6_header_sum(ip);
	bpf_csum_update(skb, csum_delta(gone, come));
	return DIOLKOS_TRANSLATED_4TO6;
}

static __always_inline int xlat_6to4(struct __sk_buff *skb, __u32 l2, const struct seen *s, __be32 src_be,
				     __be32 dst_be, const struct renumbering *port)
{
	__u64 from = csum_in6(&s->src6) + csum_in6(&s->dst6), to = (__u64)src_be + dst_be;
	struct checksum sum = checksum_for(s, csum_delta(from, to), port);
	int fate = checksum_guard(skb, l2 + sizeof(struct ipv6hdr), s, from, &sum);
	/*
	 * The network card may have summed the packet (CHECKSUM_COMPLETE). The kernel takes the first 20 bytes of the
	 * IPv6 header out of that sum with the bytes; the other 20, which are addresses, give way to an IPv4 header,
	 * whose sum is zero.
	 */
	__u64 gone = (__u64)s->src6.s6_addr32[3] + csum_in6(&s->dst6), come = 0;

	if (fate)
		return fate;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IP), 0))
		return DIOLKOS_FAILED;
	if (xlat_l4(skb, l2 + sizeof(struct iphdr), s, &sum, port, &gone, &come))
		return DIOLKOS_FAILED;

	struct iphdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		xlat_echo(echo, s->new_icmp_type, port, icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len), 0);
		come += echo_head_sum(echo);
	}
	*ip = xlat_header_6to4(s, src_be, dst_be);
	bpf_csum_update(skb, csum_delta(gone, come));
	return DIOLKOS_TRANSLATED_6TO4;
}

#endif
