/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * trail.h - which packets were forwarded from here a moment ago.
 *
 *   flow_of6, flow_of4    packet → a number of its flow, by the cluster's secret key
 *   comes_back            whether it was forwarded from here already, and another node has sent it back
 *
 * Nodes of a cluster hear of a slice's new owner at different moments: the owner before forwards to the new one, which does
 * not know yet, and forwards back. A frozen node does so until its lease has ended.
 */
#ifndef DIOLKOS_TRAIL_H
#define DIOLKOS_TRAIL_H

#include "siphash.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

/* A power of two. Flows that share a place forget each other, and then a packet goes round once more. */
#define TRAIL_PLACES 4096
/* Of about a millisecond each: the longest time between two nodes. */
#define TRAIL_TIME 32

/* By flow: the high half of its number, the hop limit of the last packet, and when it was forwarded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRAIL_PLACES);
	__type(key, __u32);
	__type(value, __u64);
} trail SEC(".maps");

static __always_inline __u64 two_words(const __be32 *words)
{
	return (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
}

/* `ports`: of the packet, or any four bytes that packets of a flow have in common. */
static __always_inline __u64 flow_of6(const __u64 key[2], const struct ipv6hdr *ip, __u32 ports)
{
	__u64 source = siphash_of_address(key, two_words(&ip->saddr.s6_addr32[0]), two_words(&ip->saddr.s6_addr32[2]));

	return siphash_of_address(key, source ^ two_words(&ip->daddr.s6_addr32[0]),
				  two_words(&ip->daddr.s6_addr32[2]) ^ (__u64)ports << 32);
}

static __always_inline __u64 flow_of4(const __u64 key[2], const struct iphdr *ip, __u32 ports)
{
	return siphash_of_address(key, (__u64)ip->saddr << 32 | ip->daddr, (__u64)ports << 32 | ip->protocol);
}

/* Notes the packet, unless it comes back. On its way round, two routers at least have taken a hop each. */
static __always_inline int comes_back(__u64 flow, __u8 hop_limit)
{
	__u64 now = (bpf_ktime_get_ns() >> 20) & 0xffffff, passed, *last;
	__u32 at = flow & (TRAIL_PLACES - 1);

	last = bpf_map_lookup_elem(&trail, &at);
	if (!last)
		return 0;
	passed = *last;
	if (passed >> 32 == flow >> 32 && ((now - passed) & 0xffffff) < TRAIL_TIME &&
	    ((passed >> 24) & 0xff) >= (__u64)hop_limit + 2)
		return 1;
	*last = (flow >> 32) << 32 | (__u64)hop_limit << 24 | now;
	return 0;
}

#endif
