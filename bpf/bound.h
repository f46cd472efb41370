/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* bound.h - bindings: programs of sessions open sessions by them, and forward.bpf.c keeps packets of ours here. */
#ifndef DIOLKOS_BOUND_H
#define DIOLKOS_BOUND_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

/* Every binding of UDP and TCP. The loader gives it its size. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_bound);
	__type(value, struct diolkos_bound_to);
} bound SEC(".maps");

#endif
