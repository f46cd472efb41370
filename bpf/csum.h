/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * csum.h - ones' complement sums (RFC 1071, RFC 1624).
 *
 * Sums are kept unfolded in 64 bits and in network byte order; the result is
 * the same on either endianness (RFC 1071 section 2(B)).
 */
#ifndef DIOLKOS_CSUM_H
#define DIOLKOS_CSUM_H

#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/types.h>

static __always_inline __u16 csum_fold16(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32); /* below 2^33 */
	sum = (sum & 0xffff) + (sum >> 16);     /* below 3 * 2^16 */
	sum = (sum & 0xffff) + (sum >> 16);     /* at most 2^16 */
	return (__u16)((sum & 0xffff) + (sum >> 16));
}

static __always_inline __u64 csum_in6(const struct in6_addr *a)
{
	return (__u64)a->s6_addr32[0] + a->s6_addr32[1] + a->s6_addr32[2] + a->s6_addr32[3];
}

/* Is a header right whose words, its checksum among them, have this sum? 0: no. */
static __always_inline int csum_is_right(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32); /* at most 2^32 + 3, of five words */
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff || sum == 2 * 0xffff;
}

/* Of an IPv4 header without options. */
static __always_inline __u64 csum_ipv4(const struct iphdr *ip)
{
	const __u32 *word = (const __u32 *)ip;

	return (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
}

#define CSUM_ZERO 0xffffffffffffULL /* 2^48 - 1 is a multiple of 0xffff, and above any sum of a few words */

/*
 * The difference to - from, folded so that it fits a helper's 32-bit argument.
 * 0 and 0xffff both say that nothing changes: a checksum-neutral translation
 * (RFC 6052 section 4.1).
 */
static __always_inline __u16 csum_delta(__u64 from, __u64 to)
{
	return csum_fold16(to + (CSUM_ZERO - from));
}

static __always_inline int csum_delta_is_zero(__u16 delta)
{
	return delta == 0 || delta == 0xffff;
}

#endif
