/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * answer_echo.h - answers echo to the addresses that are the translator's own.
 *
 *   answer_echo4       an echo request is answered by an echo reply (RFC 792)
 *   answer_echo6       the same of ICMPv6 (RFC 4443 section 4.2)
 */
#ifndef DIOLKOS_ANSWER_ECHO_H
#define DIOLKOS_ANSWER_ECHO_H

#include "answer.h"
#include "icmp.h"

/* A message of another type sums up to as much less. If all of it could be zeros, see RFC 1624 section 3, it is not asked. */
static __always_inline void echo_turn(struct icmp_echo *echo, __u8 to)
{
	__u16 from_word = bpf_htons(echo->type << 8), to_word = bpf_htons(to << 8);

	echo->checksum_be = ~csum_fold16((__u64)(__u16)~echo->checksum_be + (__u16)~from_word + to_word);
	echo->type = to;
}

/* Both link-layer addresses are those of one node, and the destination is ours. 0, or why not. */
static __always_inline int echo_macs(const struct ethhdr *eth, const struct diolkos_announcer *us)
{
	if (mac_is(eth->h_source, us->mac))
		return DIOLKOS_ANSWER_DECLINE_OWN;
	if (!mac_is(eth->h_dest, us->mac))
		return DIOLKOS_ANSWER_DECLINE_DESTINATION;
	return mac_is_of_one(eth->h_source) ? 0 : DIOLKOS_ANSWER_DECLINE_SOURCE;
}

static __always_inline void turn_macs(struct ethhdr *eth, const struct diolkos_announcer *us)
{
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, us->mac, ETH_ALEN);
}

static __always_inline int answer_echo4(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct ethhdr eth;
	struct iphdr ip;
	struct icmp_echo echo;
	__be32 to_be;
	__u32 len;
	int fate;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo)))
		return DIOLKOS_NOT_ASKED;
	if (ip.version != 4 || ip.ihl != 5 || ip.frag_off & bpf_htons(IPV4_OFFSET) || echo.type != ICMP_ECHO ||
	    !(serves4(skb, ip.daddr) & DIOLKOS_SERVED_ECHO))
		return DIOLKOS_NOT_ASKED;
	fate = echo_macs(&eth, us);
	if (fate)
		return fate;
	if (ip.frag_off & bpf_htons(IPV4_MF))
		return DIOLKOS_ANSWER_DECLINE_FRAGMENT;
	len = bpf_ntohs(ip.tot_len);
	if (len < sizeof(ip) + sizeof(echo) || ETH_HLEN + len > skb->len || skb->gso_size || !ip.ttl || echo.code)
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (!csum_is_right(csum_ipv4(&ip)) || !(echo.id_be | echo.seq_be))
		return DIOLKOS_ANSWER_DECLINE_CHECKSUM;
	if (!is_of_host4(ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (serves4(skb, ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;

	fate = answer_room(skb, ETH_HLEN + len);
	if (fate)
		return fate;
	turn_macs(&eth, us);
	to_be = ip.saddr;
	ip.saddr = ip.daddr;
	ip.daddr = to_be;
	ip.ttl = ANSWER_TTL;
	ip.check = 0;
	ip.check = ~csum_fold16(csum_ipv4(&ip));
	echo_turn(&echo, ICMP_ECHOREPLY);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo), 0))
		return DIOLKOS_ANSWER_FAILED;
	return DIOLKOS_ANSWER_ECHO4;
}

static __always_inline int answer_echo6(struct __sk_buff *skb, const struct diolkos_announcer *us)
{
	struct in6_addr to;
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct icmp_echo echo;
	__u32 len;
	int fate;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo)))
		return DIOLKOS_NOT_ASKED;
	if (ip.version != 6 || !(serves6(skb, &ip.daddr) & DIOLKOS_SERVED_ECHO))
		return DIOLKOS_NOT_ASKED;
	fate = echo_macs(&eth, us);
	if (fate)
		return fate;
	len = bpf_ntohs(ip.payload_len);
	if (len < sizeof(echo) || ETH_HLEN + sizeof(ip) + len > skb->len || skb->gso_size || !ip.hop_limit || echo.code)
		return DIOLKOS_ANSWER_DECLINE_HEADER;
	if (!is_of_host6(&ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_SOURCE;
	if (serves6(skb, &ip.saddr))
		return DIOLKOS_ANSWER_DECLINE_CONFLICT;

	fate = answer_room(skb, ETH_HLEN + sizeof(ip) + len);
	if (fate)
		return fate;
	turn_macs(&eth, us);
	to = ip.saddr;
	ip.saddr = ip.daddr;
	ip.daddr = to;
	ip.hop_limit = ANSWER_TTL;
	/* The traffic class stays; the label is that of another flow. */
	ip.flow_lbl[0] &= 0xf0;
	ip.flow_lbl[1] = 0;
	ip.flow_lbl[2] = 0;
	echo_turn(&echo, ICMPV6_ECHO_REPLY);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &echo, sizeof(echo), 0))
		return DIOLKOS_ANSWER_FAILED;
	return DIOLKOS_ANSWER_ECHO6;
}

#endif
