/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* bib.h - bindings: programs of sessions open sessions by them, and forward.bpf.c keeps packets of ours here. */
#ifndef DIOLKOS_BIB_H
#define DIOLKOS_BIB_H

#include "abi.h"
#include <bpf/bpf_helpers.h>

/* Every binding of UDP and TCP. The loader gives it its size. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_bib_key);
	__type(value, struct diolkos_bib_entry);
} bib SEC(".maps");

#endif
