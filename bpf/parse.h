/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * parse.h - packet → seen. Each function looks at a packet and says either what
 * it is or why the fast path declines it; none changes a byte.
 *
 *   parse_v4, parse_v6     network header
 *   parse_l4               transport header, shared by both
 *   guard_4to6, guard_6to4 can it become a packet of the other family?
 */
#ifndef DIOLKOS_PARSE_H
#define DIOLKOS_PARSE_H

#include "addr.h"
#include "csum.h"
#include "icmp.h"
#include "maps.h"
#include "packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define TCP_FLAGS_AT 13
#define TCP_FIN_SYN_RST 0x07
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_MSS_KIND_AND_LEN 0x0204 /* RFC 9293 section 3.2 */

/* The option where most systems send it: directly behind the header. */
struct tcp_mss_option {
	__be16 kind_and_len_be;
	__be16 mss_be;
};

/* What the translation needs of a packet, copied out before anything is touched. */
struct seen {
	struct in6_addr src6 IN6_ALIGNED, dst6 IN6_ALIGNED; /* of an IPv6 packet */
	__be32 src4_be, dst4_be;                            /* of an IPv4 packet */
	__u16 payload_len;                                  /* bytes behind the network header */
	__u16 segment_len;      /* bytes behind the network header of one packet on the wire */
	__u16 segment_data_len; /* of them, behind the TCP or UDP header; 0 if it is no super-packet */
	__u8 l4_proto;          /* IPPROTO_ICMP also for ICMPv6 */
	__u8 hop_limit;
	__u8 traffic_class; /* as it is sent on */
	__u8 icmp_type;
	__u8 new_icmp_type; /* of an echo, in the other family */
	__u8 tcp_flags;
	__u8 df;
	__u8 padding;                    /* behind an IPv4 packet, bytes */
	__be16 src_port_be, dst_port_be; /* of an echo, both are the identifier */
	__be16 icmp_seq_be;
	__be16 checksum_be; /* of the transport header */
	__be16 mss_be;      /* the maximum segment size of a SYN that becomes rules.tcp_mss; 0: none does */
	__u8 l2;            /* bytes of link-layer header in front, at XDP */
};

/*
 * Is the maximum segment size of a SYN to be lowered? Behind other options, the slow path looks for it. (Where the packet is
 * not linear so far, too: to make it so for all would copy the data of segments that have no option.)
 */
static __always_inline int parse_mss(const struct tcphdr *tcp, const void *end, struct seen *s)
{
	const struct tcp_mss_option *option = (const void *)(tcp + 1);

	if (tcp->doff * 4 == sizeof(*tcp))
		return 0;
	if ((const void *)(option + 1) > end || option->kind_and_len_be != bpf_htons(TCP_MSS_KIND_AND_LEN))
		return DIOLKOS_DECLINE_MSS;
	if (bpf_ntohs(option->mss_be) > rules.tcp_mss)
		s->mss_be = option->mss_be;
	return 0;
}

static __always_inline int parse_l4(const struct packet *p, __u32 off, struct seen *s)
{
	void *l4 = p->data + off, *end = p->end;
	__u32 header_len = 0;

	s->tcp_flags = 0;
	s->icmp_type = 0;
	s->mss_be = 0;
	switch (s->l4_proto) {
	case IPPROTO_TCP: {
		struct tcphdr *tcp = l4;

		if ((void *)(tcp + 1) > end)
			return DIOLKOS_DECLINE_HEADER;
		header_len = tcp->doff * 4;
		if (header_len < sizeof(*tcp))
			return DIOLKOS_DECLINE_HEADER;
		s->tcp_flags = ((__u8 *)tcp)[TCP_FLAGS_AT];
		s->src_port_be = tcp->source;
		s->dst_port_be = tcp->dest;
		s->checksum_be = tcp->check;
		if (rules.tcp_mss && s->tcp_flags & TCP_SYN && parse_mss(tcp, end, s))
			return DIOLKOS_DECLINE_MSS;
		break;
	}
	case IPPROTO_UDP: {
		struct udphdr *udp = l4;

		if ((void *)(udp + 1) > end)
			return DIOLKOS_DECLINE_HEADER;
		header_len = sizeof(*udp);
		if (bpf_ntohs(udp->len) != s->payload_len)
			return DIOLKOS_DECLINE_HEADER;
		/* RFC 7915 section 4.5: policy of the slow path. Over IPv6 it is illegal (RFC 8200 section 8.1). */
		if (!udp->check)
			return DIOLKOS_DECLINE_CHECKSUM;
		s->src_port_be = udp->source;
		s->dst_port_be = udp->dest;
		s->checksum_be = udp->check;
		break;
	}
	case IPPROTO_ICMP: {
		struct icmp_echo *icmp = l4;

		if ((void *)(icmp + 1) > end)
			return DIOLKOS_DECLINE_HEADER;
		header_len = sizeof(*icmp);
		s->icmp_type = icmp->type;
		if (icmp->code)
			return DIOLKOS_DECLINE_ICMP;
		/*
		 * If all the rest is zeros too, the IPv4 checksum is 0xffff, and by difference it would come out as 0
		 * (RFC 1624 section 3). To know that, every byte has to be looked at.
		 */
		if (icmp->type == ICMPV6_ECHO_REPLY && !(icmp->id_be | icmp->seq_be))
			return DIOLKOS_DECLINE_CHECKSUM;
		s->src_port_be = s->dst_port_be = icmp->id_be;
		s->icmp_seq_be = icmp->seq_be;
		s->checksum_be = icmp->checksum_be;
		break;
	}
	default:
		return DIOLKOS_DECLINE_TRANSPORT;
	}

	/* What is read behind a short packet is padding. */
	if (header_len > s->payload_len)
		return DIOLKOS_DECLINE_HEADER;
	/* A super-packet obeys every rule of size as the packets into which it will be cut. */
	s->segment_len = s->payload_len;
	s->segment_data_len = 0;
	if (p->gso_size) {
		if (s->l4_proto == IPPROTO_ICMP)
			return DIOLKOS_DECLINE_OFFLOAD;
		if (header_len + p->gso_size < s->payload_len) {
			s->segment_len = header_len + p->gso_size;
			s->segment_data_len = p->gso_size;
		}
	}
	return 0;
}

/* 0, or the fate of the packet. */
static __always_inline int parse_v4(const struct packet *p, struct seen *s)
{
	struct iphdr *ip = p->data + p->l2;

	if ((void *)(ip + 1) > p->end)
		return DIOLKOS_DECLINE_HEADER;
	if (ip->version != 4)
		return DIOLKOS_DECLINE_HEADER;
	if (ip->ihl != 5)
		return DIOLKOS_DECLINE_HEADER;

	__u32 len = bpf_ntohs(ip->tot_len);

	if (len < sizeof(*ip))
		return DIOLKOS_DECLINE_HEADER;
	s->padding = 0;
	if (len != p->len) {
		/* A short packet fills its frame with zeros. */
		if (len > p->len || !p->may_be_padded || p->len > ETH_ZLEN)
			return DIOLKOS_DECLINE_HEADER;
		s->padding = p->len - len;
	}

	if (!csum_is_right(csum_ipv4(ip)))
		return DIOLKOS_DECLINE_HEADER;
	if (ip->frag_off & bpf_htons(IPV4_MF | IPV4_OFFSET))
		return DIOLKOS_DECLINE_FRAGMENT;
	if (ip->ttl <= 1)
		return DIOLKOS_DECLINE_HOP_LIMIT;
	s->src4_be = ip->saddr;
	s->dst4_be = ip->daddr;
	s->payload_len = len - sizeof(*ip);
	s->l4_proto = ip->protocol;
	s->hop_limit = ip->ttl;
	s->traffic_class = rules.traffic_class_zero ? 0 : ip->tos;
	s->df = !!(ip->frag_off & bpf_htons(IPV4_DF));
	return parse_l4(p, p->l2 + sizeof(struct iphdr), s);
}

/* The same. An IPv6 packet with any transport header is too long for padding. */
static __always_inline int parse_v6(const struct packet *p, struct seen *s)
{
	struct ipv6hdr *ip = p->data + p->l2;

	if ((void *)(ip + 1) > p->end)
		return DIOLKOS_DECLINE_HEADER;
	if (ip->version != 6)
		return DIOLKOS_DECLINE_HEADER;
	s->payload_len = bpf_ntohs(ip->payload_len);
	/* The IPv4 header counts into a 16-bit length, the IPv6 header does not. */
	if (s->payload_len + sizeof(*ip) != p->len || s->payload_len + sizeof(struct iphdr) > 0xffff)
		return DIOLKOS_DECLINE_HEADER;
	if (ip->hop_limit <= 1)
		return DIOLKOS_DECLINE_HOP_LIMIT;
	in6_copy(&s->src6, &ip->saddr);
	in6_copy(&s->dst6, &ip->daddr);
	s->hop_limit = ip->hop_limit;
	s->traffic_class = rules.traffic_class_zero ? 0 : (bpf_ntohs(*(__be16 *)ip) >> 4) & 0xff;
	s->l4_proto = ip->nexthdr;
	/* ICMP in IPv6 and ICMPv6 in IPv4 are not what their number says (RFC 7915 sections 4.2 and 5.2). */
	if (s->l4_proto == IPPROTO_ICMP)
		return DIOLKOS_DECLINE_TRANSPORT;
	if (s->l4_proto == IPPROTO_ICMPV6)
		s->l4_proto = IPPROTO_ICMP;
	return parse_l4(p, p->l2 + sizeof(struct ipv6hdr), s);
}

static __always_inline int guard_icmp(struct seen *s, int new_type)
{
	if (new_type < 0)
		return DIOLKOS_DECLINE_ICMP;
	s->new_icmp_type = new_type;
	return 0;
}

/* Of an echo. No compiler looks at it for other packets, too. */
static __always_inline __u8 echo_type(const struct seen *s)
{
	__u32 type = s->icmp_type;

	asm volatile("" : "+r"(type));
	return type;
}

static __always_inline int guard_4to6(struct seen *s)
{
	__u32 len6 = s->segment_len + sizeof(struct ipv6hdr);

	/* RFC 7915 section 4: too big needs an error; without DF the translator itself fragments to the lowest MTU. */
	if (len6 > rules.mtu6 || (!s->df && len6 > rules.lowest_ipv6_mtu))
		return DIOLKOS_DECLINE_SIZE;
	return s->l4_proto == IPPROTO_ICMP ? guard_icmp(s, icmp_echo_4to6(echo_type(s))) : 0;
}

static __always_inline int guard_6to4(struct seen *s)
{
	/* RFC 7915 section 5.1: too big needs an error. A card may hand over more than its MTU. */
	if (s->segment_len + sizeof(struct iphdr) > rules.mtu4)
		return DIOLKOS_DECLINE_SIZE;
	return s->l4_proto == IPPROTO_ICMP ? guard_icmp(s, icmp_echo_6to4(echo_type(s))) : 0;
}

#endif
