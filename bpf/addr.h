/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * addr.h - IPv4 addresses in IPv6 addresses (RFC 6052 section 2.2).
 *
 * The length of the prefix is a constant to the verifier, so that of each
 * switch one case remains.
 */
#ifndef DIOLKOS_ADDR_H
#define DIOLKOS_ADDR_H

#include <linux/types.h> /* first: the headers of libbpf use its types */

#include <bpf/bpf_helpers.h> /* second: it makes __always_inline mean it */

#include "abi.h"
#include <bpf/bpf_endian.h>
#include <linux/in6.h>

/* The C library's header does not compile for BPF. */
#define AF_INET 2
#define AF_INET6 10

/* Bits of the fragment field of an IPv4 header. */
#define IPV4_DF 0x4000
#define IPV4_MF 0x2000
#define IPV4_OFFSET 0x1fff

/* Where an address is copied in two words. */
#define IN6_ALIGNED __attribute__((aligned(8)))

/* In two words. One of both may lie in a packet: where words have to be aligned in memory, its headers are. */
static __always_inline void in6_copy(struct in6_addr *to, const struct in6_addr *from)
{
	__u64 *out = (__u64 *)to;
	const __u64 *in = (const __u64 *)from;

	out[0] = in[0];
	out[1] = in[1];
}

/* As they lie in memory, one after the other. */
static __always_inline __u64 two_words(__u32 first, __u32 second)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return (__u64)second << 32 | first;
	return (__u64)first << 32 | second;
}

/* The same as a number. */
static __always_inline __u64 number_of(const __be32 *words)
{
	return (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
}

/* Puts v4 behind the prefix. The u-octet (bits 64 to 71) and the suffix are zero. */
static __always_inline void addr_embed(const volatile struct diolkos_pref64 *pref64, __be32 v4_be, struct in6_addr *out)
{
	const volatile struct in6_addr *prefix = &pref64->prefix;
	__u32 v4 = bpf_ntohl(v4_be);

	if (pref64->bits == 96) {
		__u64 *word = (__u64 *)out;

		word[0] = *(const volatile __u64 *)prefix;
		word[1] = two_words(prefix->s6_addr32[2], v4_be);
		return;
	}
	out->s6_addr32[0] = prefix->s6_addr32[0];
	out->s6_addr32[1] = prefix->s6_addr32[1];
	out->s6_addr32[2] = prefix->s6_addr32[2];
	out->s6_addr32[3] = 0;

	switch (pref64->bits) {
	case 32:
		out->s6_addr32[1] = v4_be;
		break;
	case 40:
		out->s6_addr32[1] |= bpf_htonl(v4 >> 8);
		out->s6_addr32[2] = bpf_htonl((v4 & 0xff) << 16);
		break;
	case 48:
		out->s6_addr32[1] |= bpf_htonl(v4 >> 16);
		out->s6_addr32[2] = bpf_htonl((v4 & 0xffff) << 8);
		break;
	case 56:
		out->s6_addr32[1] |= bpf_htonl(v4 >> 24);
		out->s6_addr32[2] = bpf_htonl(v4 & 0xffffff);
		break;
	default: /* 64 */
		out->s6_addr32[2] = bpf_htonl(v4 >> 8);
		out->s6_addr32[3] = bpf_htonl((v4 & 0xff) << 24);
	}
}

/* 0 and the address, or -1 if addr lies outside the prefix. The u-octet and the suffix are ignored. */
static __always_inline int addr_extract(const volatile struct diolkos_pref64 *pref64, const struct in6_addr *addr,
					__be32 *v4_be)
{
	const volatile struct in6_addr *prefix = &pref64->prefix;
	__u32 w1, w2, w3, p1;

	if (addr->s6_addr32[0] != prefix->s6_addr32[0])
		return -1;
	if (pref64->bits == 96) {
		if (addr->s6_addr32[1] != prefix->s6_addr32[1] || addr->s6_addr32[2] != prefix->s6_addr32[2])
			return -1;
		*v4_be = addr->s6_addr32[3];
		return 0;
	}
	w1 = bpf_ntohl(addr->s6_addr32[1]);
	w2 = bpf_ntohl(addr->s6_addr32[2]);
	w3 = bpf_ntohl(addr->s6_addr32[3]);
	p1 = bpf_ntohl(prefix->s6_addr32[1]);

	switch (pref64->bits) {
	case 32:
		*v4_be = addr->s6_addr32[1];
		return 0;
	case 40:
		if ((w1 ^ p1) & 0xff000000)
			return -1;
		*v4_be = bpf_htonl(w1 << 8 | (w2 >> 16 & 0xff));
		return 0;
	case 48:
		if ((w1 ^ p1) & 0xffff0000)
			return -1;
		*v4_be = bpf_htonl(w1 << 16 | (w2 >> 8 & 0xffff));
		return 0;
	case 56:
		if ((w1 ^ p1) & 0xffffff00)
			return -1;
		*v4_be = bpf_htonl(w1 << 24 | (w2 & 0xffffff));
		return 0;
	default: /* 64 */
		if (w1 != p1)
			return -1;
		*v4_be = bpf_htonl(w2 << 8 | w3 >> 24);
		return 0;
	}
}

/* Read word by word: without `volatile` the compiler would take the zeros with which a global was built. */
static __always_inline struct in6_addr in6_load(const volatile struct in6_addr *a)
{
	struct in6_addr copy;

	copy.s6_addr32[0] = a->s6_addr32[0];
	copy.s6_addr32[1] = a->s6_addr32[1];
	copy.s6_addr32[2] = a->s6_addr32[2];
	copy.s6_addr32[3] = a->s6_addr32[3];
	return copy;
}

static __always_inline int in6_equal(const struct in6_addr *a, const volatile struct in6_addr *b)
{
	return a->s6_addr32[0] == b->s6_addr32[0] && a->s6_addr32[1] == b->s6_addr32[1] &&
	       a->s6_addr32[2] == b->s6_addr32[2] && a->s6_addr32[3] == b->s6_addr32[3];
}

/* The first bytes below 224 of what follows, modulo 64. */
#define SPECIAL_FIRST_BYTES                                                                                           \
	(1ULL << 0 | 1ULL << 10 | 1ULL << (127 & 63) | 1ULL << (169 & 63) | 1ULL << (192 & 63) | 1ULL << (100 & 63) | \
	 1ULL << (172 & 63) | 1ULL << (198 & 63) | 1ULL << (203 & 63))

/*
 * Addresses about which the slow path may have more to say: "this network",
 * loopback, link-local, multicast and reserved; with the well-known prefix
 * also everything that is not globally reachable (RFC 6052 section 3.1). The
 * test errs on the side of declining whole blocks.
 */
static __always_inline int addr_v4_is_special(__be32 v4_be, int only_global)
{
	__u32 v4 = bpf_ntohl(v4_be);
	__u32 a = v4 >> 24;

	/* Most addresses are known by their first byte. */
	if (a < 224 && !(SPECIAL_FIRST_BYTES >> (a & 63) & 1))
		return 0;
	if (a == 0 || a == 127 || a >= 224 || v4 >> 16 == 0xa9fe)
		return 1;
	if (!only_global)
		return 0;
	if (v4 >> 8 == 0xc00000) /* 192.0.0.0/24: .9, .10 are global; .170, .171 are RFC 7050's */
		return !((v4 & 0xff) == 9 || (v4 & 0xff) == 10 || (v4 & 0xfe) == 170);
	return a == 10 || v4 >> 22 == 0x191 /* 100.64/10 */ || v4 >> 20 == 0xac1 /* 172.16/12 */ ||
	       v4 >> 16 == 0xc0a8 /* 192.168/16 */ || v4 >> 17 == 0x6309 /* 198.18/15 */ ||
	       v4 >> 8 == 0xc00002 /* 192.0.2/24 */ || v4 >> 8 == 0xc63364 /* 198.51.100/24 */ ||
	       v4 >> 8 == 0xcb0071 /* 203.0.113/24 */ || v4 >> 8 == 0xc05863 /* 192.88.99/24 */;
}

/* The same for IPv6: unspecified, loopback, embedded IPv4 of the host's own (::ffff:0:0/96), link-local, multicast. */
static __always_inline int addr_v6_is_special(const struct in6_addr *a)
{
	__u32 first = bpf_ntohl(a->s6_addr32[0]);

	return !(first | a->s6_addr32[1]) || first >> 22 == 0x3fa /* fe80::/10 */ || first >> 24 == 0xff;
}

#endif
