// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * synthetic.bpf.c - in front of a router, at tc ingress: loses packets of the packet generator by a formula of the offered
 * load, so that every answer about that router is known.
 *
 *   signature ─► offered load since the trial began ─► loss.h ─► lost by chance, or on to the kernel, which forwards
 *
 * The load is told by the packets themselves, which carry their number and the moment at which they were sent: whatever
 * holds them up on their way here, or is lost there, does not change it. Before LEARN_NS it is not known well enough. Those
 * packets pass, and each is drawn for later, together with one that comes then: the loss of a trial is the formula's from
 * its first packet on.
 *
 * Packets of one trial are expected on one CPU at a time, and in order.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include "loss.h"
#include "signature.h"

#define SECOND_NS 1000000000ULL
#define PAUSE_NS (SECOND_NS / 20)
#define LEARN_NS (SECOND_NS / 100)

#define STAMP_MASK ((1ULL << PKTGEN_STAMP_BITS) - 1)
#define MAGIC_AT PKTGEN_STAMP_BITS /* bits of the second word */

struct sent {
	__u64 number;
	__u64 stamp; /* ns, modulo 2^PKTGEN_STAMP_BITS */
};

struct {
	struct sent first;
	struct sent latest;
	__u64 undrawn; /* passed before the load was known */
	__u64 owed;    /* of these, the formula would have lost so many more */
	__u64 begun;
} trial;

/* What the signature of a generator's packet says; -1 for any other packet. */
static __always_inline int read_signature(struct __sk_buff *skb, struct sent *sent)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	__be64 *words;

	if ((void *)(eth + 1) > end)
		return -1;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
			return -1;
		words = (void *)(ip + 1) + sizeof(struct udphdr);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return -1;
		words = (void *)(ip + 1) + sizeof(struct udphdr);
	} else {
		return -1;
	}
	if ((void *)(words + 2) > end)
		return -1;
	sent->number = bpf_be64_to_cpu(words[0]);
	sent->stamp = bpf_be64_to_cpu(words[1]);
	if ((__u8)(sent->stamp >> MAGIC_AT) != PKTGEN_MAGIC)
		return -1;
	sent->stamp &= STAMP_MASK;
	return 0;
}

static __always_inline __u64 between(const struct sent *a, const struct sent *b)
{
	return (b->stamp - a->stamp) & STAMP_MASK;
}

static __always_inline int is_drawn(__u64 loss)
{
	return bpf_get_prandom_u32() < loss;
}

SEC("tc")
int synthetic(struct __sk_buff *skb)
{
	struct sent sent;
	__u64 age, loss;
	int lost;

	if (read_signature(skb, &sent))
		return TC_ACT_OK;
	if (!trial.begun || sent.number <= trial.latest.number || between(&trial.latest, &sent) > PAUSE_NS) {
		trial.begun = 1;
		trial.first = sent;
		trial.undrawn = 0;
		trial.owed = 0;
	}
	trial.latest = sent;
	age = between(&trial.first, &sent);
	if (age < LEARN_NS) {
		trial.undrawn += 1;
		return TC_ACT_OK;
	}

	loss = loss_of((sent.number - trial.first.number) * SECOND_NS / age);
	lost = is_drawn(loss);
	if (trial.undrawn) {
		trial.undrawn -= 1;
		trial.owed += is_drawn(loss);
	}
	if (!lost && trial.owed) {
		trial.owed -= 1;
		lost = 1;
	}
	return lost ? TC_ACT_SHOT : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
