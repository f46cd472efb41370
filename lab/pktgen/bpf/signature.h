/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * signature.h - the signature's check, and the histogram's buckets: what generator and sink have to do alike.
 */
#ifndef PKTGEN_SIGNATURE_H
#define PKTGEN_SIGNATURE_H

#include <linux/types.h>

#include "abi.h"

/* Two multiplications are enough to let each bit of both words change about half of the 16. */
static __always_inline __u16 signature_check(__u64 key, __u64 first, __u64 second)
{
	__u64 x = (first ^ key) * 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 32) ^ second) * 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	return (__u16)(x ^ (x >> 16));
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u64 x = ns >> PKTGEN_SUB_BITS;
	__u32 shift = 0;

	if (ns >> PKTGEN_TOP_BITS)
		return PKTGEN_BUCKETS - 1;
	if (!x)
		return (__u32)ns;
	/* the highest bit of x, by halves: x has PKTGEN_TOP_BITS - PKTGEN_SUB_BITS = 30 of them */
	if (x >> 16) {
		x >>= 16;
		shift += 16;
	}
	if (x >> 8) {
		x >>= 8;
		shift += 8;
	}
	if (x >> 4) {
		x >>= 4;
		shift += 4;
	}
	if (x >> 2) {
		x >>= 2;
		shift += 2;
	}
	if (x >> 1)
		shift += 1;
	return ((shift + 1) << PKTGEN_SUB_BITS) + (__u32)((ns >> shift) & ((1 << PKTGEN_SUB_BITS) - 1));
}

#endif
