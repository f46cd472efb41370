// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * decoy.bpf.c - in front of a token bucket, at tc egress: makes the bucket hold each ICMPv6 echo request up for a known time.
 *
 *   echo request ─► decoy, a copy of it  ─► token bucket, full: passes at once
 *                └► the request itself   ─► token bucket, empty: waits until the tokens are there
 *
 * A token bucket delays nothing while its tokens last. So a decoy of the same length goes before each request and takes them.
 * With a rate of R bytes/s, a bucket of B bytes and frames of L bytes, L <= B < 2 L, a request waits (2 L - B)/R seconds. The
 * next one has to be that much later, and B/R on top, so that the bucket is full again.
 *
 * The decoy has another destination on its link, so the receiver's kernel ignores it.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#define DECOY 0x6465636f /* the mark of one */
#define ECHO_REQUEST 128
#define LAST_OCTET 5 /* of the destination */

SEC("tc")
int decoy(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct ipv6hdr *ip = (void *)(eth + 1);
	__u8 *type = (void *)(ip + 1), ours, other;

	if (skb->mark == DECOY || (void *)(type + 1) > end)
		return TC_ACT_OK;
	if (eth->h_proto != bpf_htons(ETH_P_IPV6) || ip->nexthdr != IPPROTO_ICMPV6 || *type != ECHO_REQUEST)
		return TC_ACT_OK;
	ours = eth->h_dest[LAST_OCTET];
	other = ours ^ 0xff;
	if (bpf_skb_store_bytes(skb, LAST_OCTET, &other, 1, 0))
		return TC_ACT_SHOT;
	skb->mark = DECOY;
	/* A request without its decoy would pass too early and spoil the figure unseen. A lost one is counted. */
	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		return TC_ACT_SHOT;
	skb->mark = 0;
	return bpf_skb_store_bytes(skb, LAST_OCTET, &ours, 1, 0) ? TC_ACT_SHOT : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
