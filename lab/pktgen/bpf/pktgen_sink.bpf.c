// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * pktgen_sink.bpf.c - the packet sink: an XDP program that knows frames by their signature, counts them and drops them.
 *
 *   where is the payload? ─► is it signed? ─► is it unharmed? ─► was it here before? in order? in time? ─► delay, IPDV;
 *   its 4-tuple, for an answer ─► the next segment of its connection
 *
 * Whatever is not ours goes on to the kernel: ARP and Neighbour Discovery, for a start. Frames may come on several CPUs
 * at once; what they share is changed by atomic operations.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "checksum.h"
#include "converse.h"
#include "place.h"
#include "signature.h"

#define DELAY_BITS 40
/* Sequence numbers that one word of `seen` remembers; the other half of the word says which. */
#define SEQS_PER_WORD 32
/* How often a CPU tries again, because another one was faster. */
#define TRIES 16

const volatile struct pktgen_watch watch;

/* Of each stream, and one after them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct pktgen_tally);
	__uint(max_entries, 1);
} tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct pktgen_stream);
	__uint(max_entries, 1);
} streams SEC(".maps");

/* Which sequence numbers came: 2^slot_bits words of each stream. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} received SEC(".maps");

/* 4-tuples of stream 0, by sequence number, turned round: what an answer has (RFC 9693: the responder's state table). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct pktgen_flow);
	__uint(max_entries, 1);
} memory SEC(".maps");

enum novelty {
	NEW,
	AGAIN,
	TOO_OLD,
};

/*
 * Remembers a sequence number. A word has a bit for each of 32, and says in its other half how often the window has
 * gone round before them; the first of a later round takes the word over. So nothing has to be cleared, and a CPU that
 * was held up cannot bring old ones back. A stream has less than 2^(37 + slot_bits) frames.
 */
static __always_inline enum novelty remember(__u32 stream, __u64 seq)
{
	__u64 word_number = seq / SEQS_PER_WORD;
	__u32 at = (stream << watch.slot_bits) + (__u32)(word_number & ((1u << watch.slot_bits) - 1));
	__u64 round = word_number >> watch.slot_bits & 0xffffffff;
	__u64 bit = 1ULL << (seq % SEQS_PER_WORD);
	__u64 *word = bpf_map_lookup_elem(&seen, &at);

	if (!word)
		return TOO_OLD;
	for (int i = 0; i < TRIES; i++) {
		__u64 old = *(volatile __u64 *)word, now;

		if (old >> 32 > round)
			return TOO_OLD;
		if (old >> 32 == round && old & bit)
			return AGAIN;
		now = old >> 32 == round ? old | bit : round << 32 | bit;
		if (__sync_val_compare_and_swap(word, old, now) == old)
			return NEW;
	}
	return TOO_OLD;
}

static __always_inline void note(__u32 stream, enum pktgen_received kind, __u64 ns)
{
	__u32 at = (stream * PKTGEN_RECEIVED_KINDS + kind) * PKTGEN_BUCKETS + bucket_of(ns);
	__u64 *count = bpf_map_lookup_elem(&received, &at);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* Whoever answers has source and destination the other way round. */
static __always_inline void remember_flow(__u64 seq, const struct place *place)
{
	__u32 at = seq;
	struct pktgen_flow *flow;

	if (seq >= watch.remembers)
		return;
	flow = bpf_map_lookup_elem(&memory, &at);
	if (!flow)
		return;
	flow->sport = bpf_ntohs(place->dport_be);
	flow->dport = bpf_ntohs(place->sport_be);
	flow->src = bpf_ntohl(place->dst_be);
	flow->dst = bpf_ntohl(place->src_be);
}

/* A frame is reordered if one with a higher number came before it (RFC 4737 section 3.3). */
static __always_inline void put_in_order(struct pktgen_stream *stream, struct pktgen_tally *tally, __u64 seq)
{
	for (int i = 0; i < TRIES; i++) {
		__u64 next = *(volatile __u64 *)&stream->next;

		if (seq < next) {
			tally->reordered += 1;
			if (next - seq > tally->extent)
				tally->extent = next - seq;
			return;
		}
		if (__sync_val_compare_and_swap(&stream->next, next, seq + 1) == next)
			return;
	}
}

/* RFC 5481 section 3.1: against the frame that was sent before, if it is the one that came before. */
static __always_inline void note_variation(struct pktgen_stream *stream, __u32 number, __u64 seq, __u64 delay)
{
	__u64 mask = (1ULL << DELAY_BITS) - 1;
	__u64 now = seq << DELAY_BITS | (delay > mask ? mask : delay);
	__u64 last = __sync_lock_test_and_set(&stream->last, now);

	if (!seq || (seq - 1) << DELAY_BITS >> DELAY_BITS != last >> DELAY_BITS || !last)
		return;
	last &= mask;
	now &= mask;
	if (now >= last)
		note(number, PKTGEN_IPDV_LONGER, now - last);
	else
		note(number, PKTGEN_IPDV_SHORTER, last - now);
}

/* A frame may be longer than a page; what is read of it directly lies in the first. */
SEC("xdp.frags")
int pktgen_sink(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u64 now = bpf_ktime_get_ns();
	__u32 number = watch.streams;
	struct pktgen_stream *stream;
	struct pktgen_tally *tally;
	struct place place = {};
	__u64 first, second, delay;
	enum sum sum = RIGHT;
	void *signature;

	if (find(data, data_end, &place)) {
		tally = bpf_map_lookup_elem(&tallies, &number);
		if (tally)
			tally->foreign += 1;
		return XDP_PASS;
	}
	signature = data + (place.payload & 0xff);
	if (signature + PKTGEN_SIGNATURE > data_end || place.payload + PKTGEN_SIGNATURE > place.l4 + place.l4_len) {
		tally = bpf_map_lookup_elem(&tallies, &number);
		if (tally)
			tally->foreign += 1;
		return XDP_PASS;
	}
	first = bpf_be64_to_cpu(*(__be64 *)signature);
	second = bpf_be64_to_cpu(*(__be64 *)(signature + 8));
	if (signature_check(watch.key, first, second) != bpf_ntohs(*(__be16 *)(signature + 16))) {
		bool ours = (__u8)(second >> PKTGEN_STAMP_BITS) == PKTGEN_MAGIC;

		tally = bpf_map_lookup_elem(&tallies, &number);
		if (tally) {
			if (ours)
				tally->corrupted += 1;
			else
				tally->foreign += 1;
		}
		return ours ? XDP_DROP : XDP_PASS;
	}
	if (second >> 56 < watch.streams)
		number = second >> 56;
	tally = bpf_map_lookup_elem(&tallies, &number);
	if (!tally)
		return XDP_DROP;
	if (number == watch.streams) {
		tally->foreign += 1;
		return XDP_DROP;
	}
	if (watch.verify) {
		sum = verify(ctx, &place);
		if (sum == WRONG) {
			tally->corrupted += 1;
			return XDP_DROP;
		}
	}
	stream = bpf_map_lookup_elem(&streams, &number);
	if (!stream)
		return XDP_DROP;
	switch (remember(number, first)) {
	case AGAIN:
		tally->duplicate += 1;
		return XDP_DROP;
	case TOO_OLD:
		tally->forgotten += 1;
		return XDP_DROP;
	case NEW:
		break;
	}
	tally->received += 1;
	tally->bytes += bpf_xdp_get_buff_len(ctx);
	if (sum == UNFINISHED)
		tally->unfinished += 1;
	if (!tally->first_ns)
		tally->first_ns = now;
	tally->latest_ns = now;
	put_in_order(stream, tally, first);
	if (!number)
		remember_flow(first, &place);
	delay = (now - second) & ((1ULL << PKTGEN_STAMP_BITS) - 1);
	if (delay > watch.late_ns)
		tally->late += 1;
	note(number, PKTGEN_DELAY, delay);
	note_variation(stream, number, first, delay);
	if (watch.converses && !answer(ctx, watch.key, first, second, place.l4 + place.l4_len - place.payload))
		/* Not XDP_TX, which leaves what it has sent in the ring of a veth whose peer has no XDP program. */
		return bpf_redirect(ctx->ingress_ifindex, 0);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
