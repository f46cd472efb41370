/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* icmp.h - ICMP echo and ICMPv6 echo (RFC 7915 sections 4.2 and 5.2). Everything else is the slow path's. */
#ifndef DIOLKOS_ICMP_H
#define DIOLKOS_ICMP_H

#include <linux/types.h>

/* The kernel's own headers for these pull in the C library's. */
#define ICMP_ECHOREPLY 0
#define ICMP_ECHO 8
#define ICMPV6_ERRORS_END 128 /* types below are errors (RFC 4443 section 2.1) */
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129
#define ICMPV6_NEIGHBOUR_SOLICITATION 135 /* RFC 4861 section 4.3 */
#define ICMPV6_NEIGHBOUR_ADVERTISEMENT 136

/* What both protocols begin with. Echo is followed by identifier and sequence number. */
struct icmp_echo {
	__u8 type;
	__u8 code;
	__be16 checksum_be;
	__be16 id_be;
	__be16 seq_be;
};

/* The type on the other side, or -1. */
static __always_inline int icmp_echo_4to6(__u8 type)
{
	return type == ICMP_ECHO ? ICMPV6_ECHO_REQUEST : type == ICMP_ECHOREPLY ? ICMPV6_ECHO_REPLY : -1;
}

static __always_inline int icmp_echo_6to4(__u8 type)
{
	return type == ICMPV6_ECHO_REQUEST ? ICMP_ECHO : type == ICMPV6_ECHO_REPLY ? ICMP_ECHOREPLY : -1;
}

#endif
