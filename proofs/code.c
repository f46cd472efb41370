// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The fast path's arithmetic as a library of the host, so that tests can call it.
 * Words are in the host's order, as Python has them; the fast path keeps network order.
 */
#include "abi.h"
#include "csum.h"
#include "addr.h"
#include <string.h>

__u16 c_fold(__u64 sum)
{
	return csum_fold16(sum);
}

__u16 c_delta(__u64 from, __u64 to)
{
	return csum_delta(from, to);
}

int c_is_neutral(__u16 delta)
{
	return csum_delta_is_zero(delta);
}

static struct diolkos_pref64 prefix_of(const __u8 *bytes, __u32 bits)
{
	struct diolkos_pref64 pref64 = { .bits = bits };

	memcpy((void *)&pref64.prefix, bytes, 16);
	return pref64;
}

void c_embed(const __u8 *prefix, __u32 bits, __u32 v4, __u8 *out)
{
	struct diolkos_pref64 pref64 = prefix_of(prefix, bits);
	struct in6_addr addr;

	addr_embed(&pref64, bpf_htonl(v4), &addr);
	memcpy(out, &addr, 16);
}

/* -1 outside the prefix. */
long c_extract(const __u8 *prefix, __u32 bits, const __u8 *bytes)
{
	struct diolkos_pref64 pref64 = prefix_of(prefix, bits);
	struct in6_addr addr;
	__be32 v4_be;

	memcpy(&addr, bytes, 16);
	if (addr_extract(&pref64, &addr, &v4_be))
		return -1;
	return (long)bpf_ntohl(v4_be);
}
