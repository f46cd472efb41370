/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * label.h - a packet's mark, priority and next gateway on its way through the TUN device, which carries bytes alone.
 *
 *   struct diolkos_label        in front of a packet that the slow path reads (label_format.h)
 *   struct diolkos_label_slot   beside the queue by which it writes one
 *
 * All that the programs share with the slow path.
 */
#ifndef DIOLKOS_LABEL_H
#define DIOLKOS_LABEL_H

#include "gateways.h"
#include "label_format.h"
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* By so many of its first bytes, and by its length, a packet that is written is known. */
#define DIOLKOS_LABEL_HEAD 48

/*
 * A packet for another gateway is written spoilt: the kernel drops it, if it does not meet its slot. Of IPv6, the first byte of
 * the source is that of a group (RFC 4291 section 2.7), of IPv4, the last byte of the header checksum is wrong. The slot
 * has the right byte.
 */
#define DIOLKOS_SPOILT6 8
#define DIOLKOS_SPOILT4 11

struct diolkos_label_slot {
	__u32 state; /* below */
	__u32 len;   /* bytes */
	__u32 mark;
	__u32 priority;
	__u64 head[DIOLKOS_LABEL_HEAD / 8]; /* zero beyond the packet */
};

/* The state of a slot is one number, so that nobody reads half of it. 0: no packet is being written. */
#define DIOLKOS_SLOT_SET 1
#define DIOLKOS_SLOT_GATEWAY(state) ((state) >> 8 & 0xff) /* to which the packet goes; 0: to none */
#define DIOLKOS_SLOT_RIGHT(state) ((state) >> 16 & 0xff)  /* its right byte then */

/* What became of packets, and of labels that could not be given. */
struct diolkos_label_count {
	__u64 dropped; /* dropped: the kernel had no memory for the label or the frame */
	__u64 lost;    /* went on without their label: too long */
	__u64 forged;  /* dropped: they began like a label */
	__u64 no_way;  /* dropped: their gateway is not reached */
};

_Static_assert(sizeof(struct diolkos_label_count) == 32, "no padding");
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
