/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* label_format.h - what programs put in front of a packet that the slow path reads (label.h, forward.bpf.c). */
#ifndef DIOLKOS_LABEL_FORMAT_H
#define DIOLKOS_LABEL_FORMAT_H

#include <linux/types.h>

/* No IP packet begins like this: the first four bits are its version. */
#define DIOLKOS_LABEL_MAGIC 0xd101c05e
#define DIOLKOS_LABEL_FORWARDED 0xd101c05f /* the packet comes from another gateway */

struct diolkos_label {
	__be32 magic_be;
	__u32 mark;
	__u32 priority;
};

_Static_assert(sizeof(struct diolkos_label) == 12, "no padding");

#endif
