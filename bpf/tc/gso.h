/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * gso.h - are the segments of a UDP super-packet datagrams of their own?
 *
 * They may also be those of a TCP inside a tunnel (VXLAN). __sk_buff has the size of a segment and not its kind
 * (gso_type), so the program reads that from the kernel's own packet. The loader says where it lies, by the BTF of the
 * running kernel. Without BTF, or where programs may not read the kernel's memory, nothing is read: nobody knows then.
 */
#ifndef DIOLKOS_TC_GSO_H
#define DIOLKOS_TC_GSO_H

#include "../abi.h"
#include <bpf/bpf_helpers.h>

const volatile struct diolkos_gso gso = {};

static __always_inline int has_datagrams(struct __sk_buff *skb)
{
	void *packet = skb, *head = 0;
	__u32 end = 0, kind = 0;

	if (gso.udp_under_test)
		return 1;
	/* A constant to the verifier, which does not look at calls of a helper that this kernel does not give. */
	if (!gso.kind_udp)
		return 0;
	if (bpf_probe_read_kernel(&head, sizeof(head), packet + gso.head_at) ||
	    bpf_probe_read_kernel(&end, sizeof(end), packet + gso.end_at) ||
	    bpf_probe_read_kernel(&kind, sizeof(kind), head + end + gso.kind_at))
		return 0;
	/* Another bit says that there is more to it: a tunnel, or a list of packets (FRAGLIST). */
	return (kind & ~gso.kind_dodgy) == gso.kind_udp;
}

#endif
