// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * pktgen_witness.bpf.c - did a CPU stand still? A timer's interrupt looks at the clock again and again.
 *
 *   a timer ran out ─► how long ago was the last look? ─► longer than it should be: a stall
 *
 * The timer is a perf event of the kernel's own clock, on each CPU by itself, that samples nothing: a CPU with nothing to
 * do has no ticks, and without ticks the kernel soon holds back whoever takes samples. So the look is taken at the raw
 * tracepoint of all timers, which nothing switches off, neither idleness nor a system call on a BPF map. It interrupts
 * programs, kernel threads and software interrupts alike, however busy they are, so that what makes it late is the
 * hypervisor that gave the CPU to somebody else, or a kernel that has switched interrupts off.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

const volatile struct pktgen_vigil vigil;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct pktgen_looks);
	__uint(max_entries, 1);
} looks SEC(".maps");

/* When it is full, the first ones stay. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, struct pktgen_stall);
	__uint(max_entries, 4096);
} stalls SEC(".maps");

SEC("raw_tp/hrtimer_expire_entry")
int pktgen_witness(void *ctx)
{
	__u32 zero = 0;
	struct pktgen_looks *mine = bpf_map_lookup_elem(&looks, &zero);
	struct pktgen_stall stall;
	__u64 last, now;

	(void)ctx;
	if (!mine || !mine->are_wanted)
		return 0;
	last = mine->last_ns;
	now = bpf_ktime_get_ns();
	/* Timers of software interrupts come by here too, and before Linux 6.1 nothing keeps an interrupt's look out of theirs. */
	if (now <= last)
		return 0;
	mine->last_ns = now;
	mine->count++;
	if (!last) {
		mine->first_ns = now;
		return 0;
	}
	if (now - last < vigil.period_ns + vigil.stall_ns)
		return 0;
	stall.until_ns = now;
	stall.stood_still_ns = now - last - vigil.period_ns;
	stall.cpu = bpf_get_smp_processor_id();
	bpf_map_push_elem(&stalls, &stall, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
