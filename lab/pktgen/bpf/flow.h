/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow.h - which 4-tuple a flow has: each another one, in an order that looks like chance (RFC 4814 section 4, RFC 9693
 * section 4.4).
 *
 *   number of the flow ─► place in the space of all 4-tuples, scattered ─► source port, destination port, addresses
 */
#ifndef PKTGEN_FLOW_H
#define PKTGEN_FLOW_H

#include <linux/types.h>

#include "abi.h"

/* A bijection of the numbers of so many bits: each step of each round is one. */
static __always_inline __u64 scatter(__u64 x, __u64 start, __u32 bits)
{
	__u64 mask = (1ULL << bits) - 1;
	__u32 half = (bits + 1) / 2;

	/* 0 would begin with 0, and small numbers with small steps. */
	x = (x + start + 0x94d049bb133111ebULL) & mask;
	x ^= x >> half;
	x = (x * 0x9e3779b97f4a7c15ULL) & mask;
	x ^= x >> half;
	x = (x * 0xd6e8feb86659fd93ULL) & mask;
	x ^= x >> half;
	x = (x * 0xbf58476d1ce4e5b9ULL) & mask;
	x ^= x >> half;
	return x;
}

/* The same, of the numbers below a space of less than all of them: what falls outside is scattered again. */
static __always_inline __u64 scatter_in(__u64 x, __u64 start, __u64 space, __u32 bits)
{
	if (space <= 1)
		return 0;
	/* More than half of the numbers are inside. */
	for (int i = 0; i < 64; i++) {
		x = scatter(x, start, bits);
		if (x < space)
			break;
	}
	return x;
}

/* The plan is volatile, or the compiler would take the zeros of the source for what will be loaded. */
static __always_inline struct pktgen_flow flow_at(const volatile struct pktgen_plan *plan, __u64 number)
{
	__u64 x = scatter_in(number, plan->scatter, plan->space, plan->space_bits);
	struct pktgen_flow flow = { plan->sport_low, plan->dport_low, plan->src_low, plan->dst_low };

	if (plan->sports > 1) {
		flow.sport += (__u32)(x % plan->sports);
		x /= plan->sports;
	}
	if (plan->dports > 1) {
		flow.dport += (__u32)(x % plan->dports);
		x /= plan->dports;
	}
	if (plan->srcs > 1) {
		flow.src += (__u32)(x % plan->srcs);
		x /= plan->srcs;
	}
	if (plan->dsts > 1)
		flow.dst += (__u32)(x % plan->dsts);
	return flow;
}

#endif
