// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * pktgen_send.bpf.c - the packet generator.
 *
 * The kernel runs it on frames that it makes for it (BPF_PROG_RUN with BPF_F_TEST_XDP_LIVE_FRAMES), and sends what is
 * redirected. A frame comes back after it was sent, as whoever had it left it: all of it is written each time.
 *
 *   due? (a burst) ─► flow (made, or recalled) ─► headers ─► checksums ─► signature ─► redirect         what of it the interface took
 *     └ not yet: the batch is not used, and softirqs run before the next one
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/csum.h"
#include "abi.h"
#include "flow.h"
#include "signature.h"

/* Looks at the clock, about 20 ns each, before a batch is given up because nothing is due yet. */
#define LOOKS 256

#define LOOPBACK 1

const volatile struct pktgen_plan plan;
/* At least one byte: a size of zero is refused. */
const volatile __u8 filler[PKTGEN_FILLER];

struct pktgen_state state;

/* 1: no further burst begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} stop SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, PKTGEN_SENT_KINDS *PKTGEN_BUCKETS);
} sent SEC(".maps");

/* What a sink remembers; that sink's own map where the plan says so. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct pktgen_flow);
	__uint(max_entries, 1);
} memory SEC(".maps");

static __always_inline void note(enum pktgen_sent kind, __u64 ns)
{
	__u32 at = kind * PKTGEN_BUCKETS + bucket_of(ns);
	__u64 *count = bpf_map_lookup_elem(&sent, &at);

	if (count)
		*count += 1;
}

/* Nothing is left to be sent. */
static __always_inline int is_over(__u64 now)
{
	__u32 first = 0;
	__u32 *stopped = bpf_map_lookup_elem(&stop, &first);

	return (stopped && *stopped) || state.seq >= plan.count ||
	       (plan.duration_ns && state.bursts && now - state.begun_ns >= plan.duration_ns);
}

/* When the next burst is due, exactly: the rest that no nanosecond holds is carried. */
static __always_inline void advance_due(void)
{
	state.due_ns += plan.interval_ns;
	state.due_rest += plan.interval_rest;
	if (state.due_rest >= plan.interval_parts) {
		state.due_rest -= plan.interval_parts;
		state.due_ns += 1;
	}
}

/* The time, if a burst begins now; 0 if not. The schedule is open-loop: what is late does not move what follows. */
static __always_inline __u64 begin_burst(void)
{
	__u64 now = bpf_ktime_get_ns();

	if (is_over(now)) {
		state.done = 1;
		return 0;
	}
	if (!state.due_ns)
		state.due_ns = plan.begin_ns;
	if (now < state.due_ns) {
		for (int i = 0; i < LOOKS && now < state.due_ns; i++)
			now = bpf_ktime_get_ns();
		if (now < state.due_ns) {
			state.skip = plan.batch - 1;
			return 0;
		}
	}
	if (state.bursts) {
		note(PKTGEN_GAP, now - state.burst_ns);
	} else {
		state.begun_ns = now;
		/* Nobody is late for the first one: it tells when the rest is due. */
		state.due_ns = now;
	}
	if (plan.interval_ns || plan.interval_rest) {
		note(PKTGEN_LATE, now - state.due_ns);
		advance_due();
	}
	state.bursts += 1;
	state.burst_ns = now;
	state.left = plan.burst;
	if (state.left > plan.count - state.seq)
		state.left = plan.count - state.seq;
	return now;
}

static __always_inline struct pktgen_flow next_flow(void)
{
	struct pktgen_flow nobody = {}, *known;
	__u32 at = state.flow;

	if (!plan.recalls)
		return flow_at(&plan, state.flow);
	known = bpf_map_lookup_elem(&memory, &at);
	return known ? *known : nobody;
}

static __always_inline int write_frame(struct xdp_md *ctx, __u64 now)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct pktgen_flow flow = next_flow();
	/* As raw memory: a checksum is the same in either byte order (RFC 1071 section 2(B)). */
	__be32 ports_be = bpf_htonl(flow.sport << 16 | flow.dport);
	__be32 src_be = bpf_htonl(flow.src), dst_be = bpf_htonl(flow.dst);
	__u64 first = state.seq;
	__u64 second = (__u64)plan.stream << 56 | (__u64)PKTGEN_MAGIC << PKTGEN_STAMP_BITS |
		       (now & ((1ULL << PKTGEN_STAMP_BITS) - 1));
	__u16 check_be = bpf_htons(signature_check(plan.key, first, second));
	__be64 first_be = bpf_cpu_to_be64(first), second_be = bpf_cpu_to_be64(second);
	__u64 sum;
	__u16 l4_sum;

	/* The head is written in words, the last of which may reach into the signature, which comes after. */
	if (data + plan.head_len + PKTGEN_SIGNATURE > data_end)
		return -1;
#pragma unroll
	for (__u32 i = 0; i < PKTGEN_HEAD / 8; i++) {
		if (i * 8 < plan.head_len)
			((__u64 *)data)[i] = ((const volatile __u64 *)plan.head)[i];
	}
	*(__be32 *)(data + plan.src_at) = src_be;
	*(__be32 *)(data + plan.dst_at) = dst_be;
	*(__be32 *)(data + plan.ports_at) = ports_be;
	if (plan.ip_sum_at)
		*(__u16 *)(data + plan.ip_sum_at) = ~csum_fold16((__u64)plan.ip_sum + src_be + dst_be);

	sum = (__u64)plan.l4_sum + ports_be + check_be + (first_be & 0xffffffff) + (first_be >> 32) +
	      (second_be & 0xffffffff) + (second_be >> 32);
	if (plan.l4_has_ips)
		sum += (__u64)src_be + dst_be;
	l4_sum = ~csum_fold16(sum);
	if (plan.l4_is_udp && !l4_sum)
		l4_sum = 0xffff;
	*(__u16 *)(data + plan.l4_sum_at) = l4_sum;

	data += plan.head_len;
	*(__be64 *)data = first_be;
	*(__be64 *)(data + 8) = second_be;
	*(__u16 *)(data + 16) = check_be;
	if (plan.filler_len)
		return bpf_xdp_store_bytes(ctx, plan.head_len + PKTGEN_SIGNATURE, (void *)filler, plan.filler_len);
	return 0;
}

SEC("xdp")
int pktgen_send(struct xdp_md *ctx)
{
	__u64 now;

	if (state.done)
		return XDP_DROP;
	if (state.skip) {
		state.skip -= 1;
		return XDP_DROP;
	}
	if (state.left) {
		now = bpf_ktime_get_ns();
	} else {
		now = begin_burst();
		if (!now)
			return XDP_DROP;
	}
	if (bpf_xdp_adjust_head(ctx, PKTGEN_SPARE) || write_frame(ctx, now))
		return XDP_ABORTED;
	state.seq += 1;
	state.left -= 1;
	state.latest_ns = now;
	state.flow += 1;
	if (state.flow >= plan.flows)
		state.flow = 0;
	return bpf_redirect(plan.ifindex, 0);
}

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

/*
 * What the interface said to up to 16 frames at a time. Frames of the generator come from the loopback device, where
 * nothing else of this thread is redirected from; a system under test that runs in its softirq comes from elsewhere.
 */
SEC("tp_btf/xdp_devmap_xmit")
int pktgen_accepted(__u64 *arguments)
{
	const struct net_device *from = (const struct net_device *)arguments[0];
	const struct net_device *to = (const struct net_device *)arguments[1];
	int error = (int)arguments[4];

	if (from->ifindex != LOOPBACK || to->ifindex != (int)plan.ifindex ||
	    (__u32)bpf_get_current_pid_tgid() != plan.thread)
		return 0;
	state.accepted += (__u32)arguments[2];
	/* With an error the interface has looked at no frame: a veth whose peer has no place for them says so here before
	   Linux 6.3. */
	if (error >= 0)
		state.dropped += (__u32)arguments[3];
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
