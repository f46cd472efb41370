/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * converse.h - both ends of TCP connections that a generator opens: each segment is the answer to the one before, made of
 * it in place.
 *
 *   stream   0         1             2           3             4             5
 *   near     SYN ─►    ◄─ SYN, ACK   ACK ─►      ◄─ FIN, ACK   FIN, ACK ─►   ◄─ ACK
 *
 * Nothing is remembered: what a segment is its stream says, which counts up, and its numbers are those that the segment
 * before asks for (RFC 9293 section 3.4). So a connection is complete when its last segment arrives, as with a request that
 * the far end answers and closes.
 */
#ifndef PKTGEN_CONVERSE_H
#define PKTGEN_CONVERSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/csum.h"
#include "abi.h"
#include "signature.h"

#define TCP_FLAGS_AT 13
#define FIN 0x01
#define SYN 0x02
#define PSH 0x08
#define ACK 0x10

/* Of the segment with this stream. */
static __always_inline __u8 flags_of(__u64 stream)
{
	switch (stream) {
	case 1:
		return SYN | ACK;
	case 2:
		return PSH | ACK;
	case 3:
	case 4:
		return FIN | ACK;
	default:
		return ACK;
	}
}

static __always_inline void swap_macs(struct ethhdr *eth)
{
	__u8 other[ETH_ALEN];

	__builtin_memcpy(other, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, other, ETH_ALEN);
}

/*
 * The answer to a segment of which `data_len` bytes are payload, if it has one. `first` and `second` are those of its
 * signature. Frames of a generator have neither VLAN tag nor IP options. Nonzero: it has none.
 */
static __always_inline int answer(struct xdp_md *ctx, __u64 key, __u64 first, __u64 second, __u32 data_len)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u64 last = second >> 56, next = second + (1ULL << 56);
	__be64 second_be = bpf_cpu_to_be64(second), next_be = bpf_cpu_to_be64(next);
	__u16 check_be = bpf_htons(signature_check(key, first, second));
	__u16 next_check_be = bpf_htons(signature_check(key, first, next));
	__be32 seq_be, ack_be, next_ack_be;
	__u64 from, to;
	struct ethhdr *eth = data;
	__u8 flags = flags_of(last + 1);
	struct tcphdr *tcp;
	__u8 *flags_at;
	__be16 port_be;
	__u32 at;

	if ((void *)(eth + 1) > data_end || last + 1 >= PKTGEN_SEGMENTS)
		return -1;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + sizeof(*eth);
		__be32 address_be;

		if ((void *)(ip + 1) > data_end || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
			return -1;
		address_be = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = address_be;
		at = sizeof(*eth) + sizeof(*ip);
	} else {
		struct ipv6hdr *ip = data + sizeof(*eth);
		struct in6_addr address;

		if ((void *)(ip + 1) > data_end || ip->nexthdr != IPPROTO_TCP)
			return -1;
		address = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = address;
		at = sizeof(*eth) + sizeof(*ip);
	}
	tcp = data + at;
	if ((void *)(tcp + 1) + PKTGEN_SIGNATURE > data_end || tcp->doff != 5)
		return -1;
	swap_macs(eth);
	flags_at = (__u8 *)tcp + TCP_FLAGS_AT;
	seq_be = tcp->seq;
	ack_be = tcp->ack_seq;
	next_ack_be = bpf_htonl(bpf_ntohl(seq_be) + data_len + (*flags_at & (SYN | FIN) ? 1 : 0));
	/* Addresses and ports change places, which no sum sees; the word of the flags has its other half unchanged. */
	from = (__u64)seq_be + ack_be + bpf_htons(*flags_at) + (second_be & 0xffffffff) + (second_be >> 32) + check_be;
	to = (__u64)ack_be + next_ack_be + bpf_htons(flags) + (next_be & 0xffffffff) + (next_be >> 32) + next_check_be;
	tcp->check = ~csum_fold16((__u64)(__u16)~tcp->check + csum_delta(from, to));
	port_be = tcp->source;
	tcp->source = tcp->dest;
	tcp->dest = port_be;
	tcp->seq = ack_be;
	tcp->ack_seq = next_ack_be;
	*flags_at = flags;
	*(__be64 *)((void *)(tcp + 1) + 8) = next_be;
	*(__u16 *)((void *)(tcp + 1) + 16) = next_check_be;
	return 0;
}

#endif
