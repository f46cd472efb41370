/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* siphash.h - SipHash-1-3 of one IPv6 address, as the daemon computes it (Aumasson and Bernstein, 2012). */
#ifndef DIOLKOS_SIPHASH_H
#define DIOLKOS_SIPHASH_H

#include <linux/types.h> /* first: the headers of libbpf use its types */

#include <bpf/bpf_helpers.h>

struct sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 sip_turn(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = sip_turn(s->v1, 13) ^ s->v0;
	s->v0 = sip_turn(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = sip_turn(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = sip_turn(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = sip_turn(s->v1, 17) ^ s->v2;
	s->v2 = sip_turn(s->v2, 32);
}

static __always_inline void sip_word(struct sip *s, __u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

/* Of the 16 bytes whose first and last eight are `high` and `low` as numbers of the network's byte order. */
static __always_inline __u64 siphash_of_address(const __u64 key[2], __u64 high, __u64 low)
{
	struct sip s = {
		.v0 = key[0] ^ 0x736f6d6570736575,
		.v1 = key[1] ^ 0x646f72616e646f6d,
		.v2 = key[0] ^ 0x6c7967656e657261,
		.v3 = key[1] ^ 0x7465646279746573,
	};

	/* Words of the message are little-endian. */
	sip_word(&s, __builtin_bswap64(high));
	sip_word(&s, __builtin_bswap64(low));
	sip_word(&s, (__u64)16 << 56);
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif
