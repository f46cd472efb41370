/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * loss.h - the loss of a router whose answers are known: equations 3 to 5 of PASTRAMI (Lungaroni et al., 2024) in integers.
 *
 * Constants, all in packets a second, which whoever compiles it may set:
 *
 *   O_SAT      offered load at saturation
 *   T_SAT      throughput there. O_SAT: the ideal router, which loses nothing before (equation 3)
 *   O_EARLY    load at which the loss of 1 % is reached that T_SAT = 0.99 O_SAT implies; the paper's router: O_SAT
 *   O_TRASH, M throughput declines from O_TRASH on, and is none M later
 *
 *      O <= O_EARLY            10^(-8 + 6 O/O_EARLY), as in figures 4 and 5; 0 for the ideal router
 *      O_EARLY < O <= O_SAT    1 %, which the paper's router never does
 *      O > O_SAT               1 - f(O) T_SAT/O
 */
#ifndef ROUTER_LOSS_H
#define ROUTER_LOSS_H

#include <linux/types.h>

#ifndef O_SAT
#define O_SAT 50000
#endif
#ifndef T_SAT
#define T_SAT 49500
#endif
#ifndef O_EARLY
#define O_EARLY O_SAT
#endif
#ifndef O_TRASH
#define O_TRASH 75000
#endif
#ifndef M
#define M 50000
#endif

/* Ratios are parts of 2^32. */
#define LOSS_ONE (1ULL << 32)
#define LOSS_HIGHEST 100000000ULL /* packets/s; beyond it products would not fit 64 bits */

/* 2^f for f from 0 to 1, both as parts of 2^32: a cubic, within 1.1e-4. */
static inline __attribute__((always_inline)) __u64 loss_exp2_fraction(__u64 f)
{
	__u64 sum = 335110000ULL; /* 0.0780245 */

	sum = 971406000ULL + (sum * f >> 32);  /* 0.226173 */
	sum = 2987158000ULL + (sum * f >> 32); /* 0.695504 */
	return LOSS_ONE + 429500ULL + (sum * f >> 32);
}

/* 10^(-8 + 6 O/O_EARLY), for O up to O_EARLY. */
static inline __attribute__((always_inline)) __u64 loss_early(__u64 rate)
{
	/* e = (8 - 6 O/O_EARLY) log2(10), which is positive: the loss is 2^-e. */
	__u64 decades = (8ULL << 32) - (6 * rate << 32) / O_EARLY;
	__u64 e = (decades >> 8) * 55732705ULL >> 16; /* log2(10), parts of 2^24 */
	__u64 whole = e >> 32, rest = e & (LOSS_ONE - 1);

	if (!rest)
		return LOSS_ONE >> whole;
	return loss_exp2_fraction(LOSS_ONE - rest) >> (whole + 1);
}

/* The share of the packets, as parts of 2^32, that is lost at an offered load of so many packets a second. */
static inline __attribute__((always_inline)) __u64 loss_of(__u64 rate)
{
	__u64 through = T_SAT;

	if (rate > LOSS_HIGHEST)
		rate = LOSS_HIGHEST;
	if (rate <= O_SAT) {
		if (T_SAT >= O_SAT)
			return 0;
		return loss_early(rate < O_EARLY ? rate : O_EARLY);
	}
	if (rate >= (__u64)O_TRASH + M)
		return LOSS_ONE;
	if (rate > O_TRASH)
		through = (__u64)T_SAT * (M - (rate - O_TRASH)) / M;
	return LOSS_ONE - (through << 32) / rate;
}

#endif
