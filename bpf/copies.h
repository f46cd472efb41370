/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * copies.h - until when sessions may be used that were made from copies of another gateway's bindings.
 *
 *   copy_serves    owner → whether its copies may be used now
 *
 * The daemon writes the deadlines. So a program whose daemon is frozen or dead stops in time, and the owner may give the
 * ports to others.
 */
#ifndef DIOLKOS_COPIES_H
#define DIOLKOS_COPIES_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

/* By owner, nanoseconds of CLOCK_BOOTTIME, which goes on while the machine sleeps. 0, as at the beginning: not at all. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DIOLKOS_OWNERS);
	__type(key, __u32);
	__type(value, __u64);
} copies SEC(".maps");

/* There is no coarse clock of this kind. */
static __always_inline int copy_is_in_time(__u32 owner)
{
	__u64 *until = bpf_map_lookup_elem(&copies, &owner);

	return until && bpf_ktime_get_boot_ns() < *(volatile __u64 *)until;
}

/* Of this gateway's own sessions, no map and no clock is read. */
static __always_inline int copy_serves(__u8 owner)
{
	return owner == DIOLKOS_OURS || copy_is_in_time(owner);
}

#endif
