/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * checksum.h - is the transport checksum of a frame right (RFC 768, RFC 9293, RFC 4443)?
 */
#ifndef PKTGEN_CHECKSUM_H
#define PKTGEN_CHECKSUM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/csum.h"
#include "place.h"

/* Bytes that bpf_csum_diff() takes at once. */
#define CHUNK 512
/* The longest transport header and payload of which the checksum is verified: those of a jumbo frame. */
#define VERIFIED (18 * CHUNK)

struct scratch {
	__u8 bytes[VERIFIED + 4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

enum sum {
	RIGHT,
	WRONG,
	UNFINISHED,
};

/* The bytes are copied first: they may lie anywhere, and the helper wants lengths that it can divide by four. */
static __always_inline enum sum verify(struct xdp_md *ctx, const struct place *place)
{
	__u32 first = 0, len = place->l4_len;
	struct scratch *bytes = bpf_map_lookup_elem(&scratch, &first);
	__u64 sum = place->pseudo;

	if (!bytes)
		return RIGHT;
	/* Both bounds in one comparison, of the register that then has the length. What the compiler makes of two, verifiers
	   up to Linux 6.12 do not follow, and one before 6.8 learns nothing from `len != 0`. */
	len -= 1;
	asm volatile("" : "+r"(len));
	if (len >= VERIFIED)
		return RIGHT;
	asm volatile("" : "+r"(len));
	len += 1;
	/* Left to the one who sends it out: the sum of the pseudo-header stands there (CHECKSUM_PARTIAL). */
	if (place->pseudo && place->sum == csum_fold16(place->pseudo))
		return UNFINISHED;
	if (place->sum_optional && !place->sum)
		return RIGHT;
	if (bpf_xdp_load_bytes(ctx, place->l4, bytes->bytes, len))
		return WRONG; /* cut off */
	if (len & 3)
		__builtin_memset(bytes->bytes + len, 0, 3);
	for (__u32 at = 0; at < VERIFIED; at += CHUNK) {
		__s64 part;
		__u32 rest;

		if (at >= len)
			break;
		rest = (len - at + 3) & ~3u;
		if (rest > CHUNK)
			rest = CHUNK;
		part = bpf_csum_diff(NULL, 0, (__be32 *)(bytes->bytes + at), rest, 0);
		sum += (__u32)part;
	}
	return csum_fold16(sum) == 0xffff ? RIGHT : WRONG;
}

#endif
