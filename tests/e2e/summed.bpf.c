// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * summed.bpf.c - what the kernel believes about the sum of a packet (CHECKSUM_COMPLETE), told by the packet's mark.
 *
 * Only IPv4 packets of PACKET_LEN bytes are looked at. No other helper tells whether there is a sum, and no tool what
 * it is: a wrong one costs a second look at every byte and is otherwise silent.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#define PACKET_LEN 128 /* as in test_clat_offloads.py */
#ifndef L2_LEN
#define L2_LEN 0 /* bytes of link-layer header in front, which is no part of the sum */
#endif

enum {
	RIGHT = 1,
	WRONG = 2,
	NONE = 3
};

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

SEC("tc")
int summed(struct __sk_buff *skb)
{
	__u32 packet[PACKET_LEN / 4];

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->len != L2_LEN + PACKET_LEN)
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(skb, L2_LEN, packet, sizeof(packet)))
		return TC_ACT_UNSPEC;

	/* The sum, unchanged, or an error where there is none. */
	__s64 believed = bpf_csum_update(skb, 0);

	if (believed < 0) {
		skb->mark = NONE;
		return TC_ACT_UNSPEC;
	}

	__u16 sum = fold((__u32)bpf_csum_diff(0, 0, packet, sizeof(packet), 0));
	__u16 is = fold((__u32)believed);

	/* 0 and 0xffff are one number. */
	skb->mark = sum == is || (__u16)(sum + 1) < 2 && (__u16)(is + 1) < 2 ? RIGHT : WRONG;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
