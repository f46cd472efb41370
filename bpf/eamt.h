/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * eamt.h - the explicit address mapping table (RFC 7757 section 3).
 *
 * One hash map a side, keyed by network and length; the longest match is the
 * first hit among the lengths that occur, longest first. Tables in the field
 * have one or two lengths, and the lengths are constants to the verifier, so
 * that a look-up is one or two probes however many mappings there are. (In a
 * trie it would be a walk of as many cache misses as addresses differ in bits.)
 */
#ifndef DIOLKOS_EAMT_H
#define DIOLKOS_EAMT_H

#include "abi.h"
#include <bpf/bpf_helpers.h> /* before anything that is always inlined */

#include "addr.h"
#include <bpf/bpf_endian.h>

const volatile struct diolkos_siit siit = {};

/* The loader gives both the size of the table. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct diolkos_net4);
	__type(value, struct diolkos_eam6);
} eamt_by_v4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct diolkos_net6);
	__type(value, struct diolkos_eam4);
} eamt_by_v6 SEC(".maps");

/* All ones in front of len, 0 to 32. A shift by the whole width means nothing in C. */
static __always_inline __u32 mask32(__u32 len)
{
	return len ? 0xffffffffU << ((32 - len) & 31) : 0;
}

/* The mapping of an IPv4 address, and the length of its IPv4 network; or NULL. */
static __always_inline const struct diolkos_eam6 *eamt_find_v4(__be32 v4_be, __u32 *len)
{
	if ((v4_be & siit.eam4.mask_be) != siit.eam4.addr_be)
		return NULL;
	for (__u32 i = 0; i < DIOLKOS_V4_LENS && i < siit.v4_lens; i++) {
		struct diolkos_net4 net = { .addr_be = v4_be, .len = siit.v4_len[i] };

		if (net.len != 32)
			net.addr_be &= bpf_htonl(mask32(net.len));

		const struct diolkos_eam6 *eam = bpf_map_lookup_elem(&eamt_by_v4, &net);

		if (eam) {
			*len = net.len;
			return eam;
		}
	}
	return NULL;
}

/* IPv6 prefix, suffix of the IPv4 address, zeros for what remains (RFC 7757 section 3.3.1). 0, or -1 if nothing maps it. */
static __always_inline int eamt_to_v6(__be32 v4_be, struct in6_addr *out)
{
	__u32 len = 0;
	const struct diolkos_eam6 *eam = eamt_find_v4(v4_be, &len);

	if (!eam)
		return -1;

	if (len == 32) {
		in6_copy(out, &eam->v6);
		return 0;
	}

	/* The IPv4 suffix is the end of 128 bits; it moves to the front by so many of them. */
	__u64 suffix = bpf_ntohl(v4_be) & ~mask32(len), high = 0, low = 0;
	__u32 by = eam->longer;

	if (by < 64) {
		low = suffix << by;
		high = by ? suffix >> (64 - by) : 0;
	} else if (by < 128) {
		high = suffix << (by - 64);
	}
	out->s6_addr32[0] = eam->v6.s6_addr32[0] | bpf_htonl(high >> 32);
	out->s6_addr32[1] = eam->v6.s6_addr32[1] | bpf_htonl(high);
	out->s6_addr32[2] = eam->v6.s6_addr32[2] | bpf_htonl(low >> 32);
	out->s6_addr32[3] = eam->v6.s6_addr32[3] | bpf_htonl(low);
	return 0;
}

/* What is left of an IPv6 address are its first bits. */
static __always_inline void in6_mask(struct in6_addr *a, __u32 len)
{
	for (__u32 i = 0; i < 4; i++)
		a->s6_addr32[i] &= bpf_htonl(len > 32 * i ? mask32(len < 32 * i + 32 ? len - 32 * i : 32) : 0);
}

/* The bits behind the first ones, without the last ones. */
static __always_inline __u32 suffix_behind(const struct in6_addr *v6, __u32 len, __u32 longer)
{
	__u64 high = number_of(&v6->s6_addr32[0]), low = number_of(&v6->s6_addr32[2]);

	high &= len >= 64 ? 0 : len ? ~(~0ULL << (64 - len)) : ~0ULL;
	low &= len > 64 ? ~(~0ULL << (128 - len)) : ~0ULL;
	if (longer < 64)
		return longer ? low >> longer | high << (64 - longer) : low;
	return longer < 128 ? high >> (longer - 64) : 0;
}

/* IPv4 prefix, and as many bits of the IPv6 suffix as fit (RFC 7757 section 3.3.2). 0, or -1 if nothing maps it. */
static __always_inline int eamt_to_v4(const struct in6_addr *v6, __be32 *out_be)
{
	for (__u32 i = 0; i < DIOLKOS_V6_LENS && i < siit.v6_lens; i++) {
		__u32 len = siit.v6_len[i];
		struct diolkos_net6 net = { .addr = *v6, .len = len };
		const struct diolkos_eam4 *eam;

		if (len != 128)
			in6_mask(&net.addr, len);
		eam = bpf_map_lookup_elem(&eamt_by_v6, &net);
		if (!eam)
			continue;
		*out_be = eam->v4_be;
		if (len != 128)
			*out_be |= bpf_htonl(suffix_behind(v6, len, eam->longer));
		return 0;
	}
	return -1;
}

#endif
