/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * label.h - a packet's mark and priority on its way through the TUN device, which carries bytes alone.
 *
 *   struct diolkos_label        in front of a packet that the slow path reads (label_format.h)
 *   struct diolkos_label_slot   beside the queue by which it writes one
 *
 * All that the programs share with the slow path.
 */
#ifndef DIOLKOS_LABEL_H
#define DIOLKOS_LABEL_H

#include "label_format.h"
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* By so many of its first bytes, and by its length, a packet that is written is known. */
#define DIOLKOS_LABEL_HEAD 48

struct diolkos_label_slot {
	__u32 is_set; /* 1: the packet below is being written */
	__u32 len;    /* bytes */
	__u32 mark;
	__u32 priority;
	__u64 head[DIOLKOS_LABEL_HEAD / 8]; /* zero beyond the packet */
};

/* What became of labels that could not be given, packets. */
struct diolkos_label_count {
	__u64 dropped; /* dropped with them: the kernel had no memory */
	__u64 lost;    /* went on without them: too long */
};

_Static_assert(sizeof(struct diolkos_label_count) == 16, "no padding");
_Static_assert(sizeof(struct diolkos_label_slot) == 64, "no padding");

/* One for each queue of the device. Memory that the slow path shares: a slot costs it no call into the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct diolkos_label_slot);
} label_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct diolkos_label_count);
} label_count SEC(".maps");

#endif
