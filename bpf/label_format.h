/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* label_format.h - what programs put in front of a packet that the slow path reads (label.h, forward.bpf.c). */
#ifndef DIOLKOS_LABEL_FORMAT_H
#define DIOLKOS_LABEL_FORMAT_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/types.h>

/* No IP packet begins like this: the first four bits are its version. */
#define DIOLKOS_LABEL_MAGIC 0xd101c05e
/* Of a packet from another gateway. */
#define DIOLKOS_LABEL_FORWARDED 0xd101c05f

struct diolkos_label {
	__be32 magic_be;
	__u32 mark;
	__u32 priority;
};

struct diolkos_label_forwarded {
	struct diolkos_label label;
	__u32 link; /* the interface by which it came */
};

_Static_assert(sizeof(struct diolkos_label) == 12, "no padding");
_Static_assert(sizeof(struct diolkos_label_forwarded) == 16, "no padding");

/*
 * Whether the packet begins like a label. The kernel takes no such packet as one of IP. But flow tables of nftables forward IPv6
 * without a look at the version: a host could choose a mark, or pretend that another gateway has sent its packet.
 */
static __always_inline int has_label(struct __sk_buff *skb)
{
	__be32 first;

	if (bpf_skb_load_bytes(skb, 0, &first, sizeof(first)))
		return 0;
	return first == bpf_htonl(DIOLKOS_LABEL_MAGIC) || first == bpf_htonl(DIOLKOS_LABEL_FORWARDED);
}

#endif
