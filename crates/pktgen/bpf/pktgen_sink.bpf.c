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
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/csum.h"
#include "abi.h"
#include "converse.h"
#include "signature.h"

/* Bytes that bpf_csum_diff() takes at once. */
#define CHUNK 512
/* The longest transport header and payload of which the checksum is verified: those of a jumbo frame. */
#define VERIFIED (18 * CHUNK)
#define DELAY_BITS 40
#define ICMP_ECHO 8
#define ICMP_ECHO_REPLY 0
#define ICMPV6_ECHO 128
#define ICMPV6_ECHO_REPLY 129
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

struct scratch {
	__u8 bytes[VERIFIED + 4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

/* Where things are in a frame, from its beginning. */
struct place {
	__u32 l4;      /* the transport header */
	__u32 l4_len;  /* header and payload, as the IP header says */
	__u32 payload; /* behind the transport header */
	__u64 pseudo;  /* sum of the pseudo-header; of ICMPv4, which has none, 0 */
	__u16 sum;     /* checksum that came */
	bool sum_optional;
	__be32 src_be; /* the last 32 bits of the address */
	__be32 dst_be;
	__be16 sport_be; /* of UDP and TCP */
	__be16 dport_be;
};

/* One pointer: if the compiler made it anew for each use, the verifier would not know that it is the one it checked. */
static __always_inline void *pinned(void *pointer)
{
	asm volatile("" : "+r"(pointer));
	return pointer;
}

static __always_inline int find_transport(void *data, void *data_end, __u32 l4, __u8 protocol, struct place *place)
{
	void *head = pinned(data + l4);

	place->l4 = l4;
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = head;

		if ((void *)(udp + 1) > data_end)
			return -1;
		place->sum = udp->check;
		place->sport_be = udp->source;
		place->dport_be = udp->dest;
		place->payload = l4 + sizeof(*udp);
	} else if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = head;

		if ((void *)(tcp + 1) > data_end)
			return -1;
		place->sum = tcp->check;
		place->sport_be = tcp->source;
		place->dport_be = tcp->dest;
		place->payload = l4 + tcp->doff * 4;
	} else {
		struct icmp_echo {
			__u8 type, code;
			__u16 sum;
			__be16 id_be, seq_be;
		} *icmp = head;

		if ((void *)(icmp + 1) > data_end)
			return -1;
		if (protocol == IPPROTO_ICMP ? icmp->type != ICMP_ECHO && icmp->type != ICMP_ECHO_REPLY
					     : icmp->type != ICMPV6_ECHO && icmp->type != ICMPV6_ECHO_REPLY)
			return -1;
		place->sum = icmp->sum;
		place->payload = l4 + sizeof(*icmp);
	}
	return 0;
}

static __always_inline int find_ipv4(void *data, void *data_end, __u32 l3, struct place *place)
{
	struct iphdr *ip = data + l3;
	__u32 header;

	if ((void *)(ip + 1) > data_end)
		return -1;
	header = ip->ihl * 4;
	/* A fragment has no signature, or not all of what is signed. */
	if (ip->frag_off & bpf_htons(0x3fff) || header < sizeof(*ip) || bpf_ntohs(ip->tot_len) < header)
		return -1;
	if (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_ICMP)
		return -1;
	place->l4_len = bpf_ntohs(ip->tot_len) - header;
	place->sum_optional = ip->protocol == IPPROTO_UDP;
	place->src_be = ip->saddr;
	place->dst_be = ip->daddr;
	place->pseudo = 0;
	if (ip->protocol != IPPROTO_ICMP)
		place->pseudo = (__u64)ip->saddr + ip->daddr + bpf_htons(place->l4_len) + bpf_htons(ip->protocol);
	return find_transport(data, data_end, l3 + header, ip->protocol, place);
}

static __always_inline int find_ipv6(void *data, void *data_end, __u32 l3, struct place *place)
{
	struct ipv6hdr *ip = data + l3;
	__u8 protocol;

	if ((void *)(ip + 1) > data_end)
		return -1;
	protocol = ip->nexthdr;
	place->l4_len = bpf_ntohs(ip->payload_len);
	l3 += sizeof(*ip);
	if (protocol == IPPROTO_FRAGMENT) {
		/* An atomic fragment (RFC 6946) is whole. */
		struct {
			__u8 nexthdr, reserved;
			__be16 frag_off;
			__be32 id;
		} *fragment = data + l3;

		if ((void *)(fragment + 1) > data_end || fragment->frag_off & bpf_htons(0xfff9) ||
		    place->l4_len < sizeof(*fragment))
			return -1;
		protocol = fragment->nexthdr;
		place->l4_len -= sizeof(*fragment);
		l3 += sizeof(*fragment);
	}
	if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP && protocol != IPPROTO_ICMPV6)
		return -1;
	place->sum_optional = false;
	place->src_be = ip->saddr.in6_u.u6_addr32[3];
	place->dst_be = ip->daddr.in6_u.u6_addr32[3];
	place->pseudo = csum_in6(&ip->saddr) + csum_in6(&ip->daddr) + bpf_htons(place->l4_len) + bpf_htons(protocol);
	return find_transport(data, data_end, l3, protocol, place);
}

static __always_inline int find(void *data, void *data_end, struct place *place)
{
	struct ethhdr *eth = data;
	__u32 l3 = sizeof(*eth);
	__be16 ethertype_be;

	if ((void *)(eth + 1) > data_end)
		return -1;
	ethertype_be = eth->h_proto;
	if (ethertype_be == bpf_htons(ETH_P_8021Q)) {
		__be16 *tag = data + l3;

		if ((void *)(tag + 2) > data_end)
			return -1;
		ethertype_be = tag[1];
		l3 += 4;
	}
	if (ethertype_be == bpf_htons(ETH_P_IP))
		return find_ipv4(data, data_end, l3, place);
	if (ethertype_be == bpf_htons(ETH_P_IPV6))
		return find_ipv6(data, data_end, l3, place);
	return -1;
}

enum sum {
	RIGHT,
	WRONG,
	UNFINISHED,
};

/* The bytes are copied first: they may lie anywhere, and the helper wants lengths that it can divide by four. */
static __always_inline enum sum verify(struct xdp_md *ctx, const struct place *place)
{
	__u32 first = 0, len = place->l4_len;
	struct scratch *bytes = bpf_map_lookup_elem(&scratch, &first);
	__u64 sum = place->pseudo;

	if (!bytes)
		return RIGHT;
	/* Both bounds in one comparison, of the register that then has the length. What the compiler makes of two, verifiers
	   up to Linux 6.12 do not follow, and one before 6.8 learns nothing from `len != 0`. */
	len -= 1;
	asm volatile("" : "+r"(len));
	if (len >= VERIFIED)
		return RIGHT;
	asm volatile("" : "+r"(len));
	len += 1;
	/* Left to the one who sends it out: the sum of the pseudo-header stands there (CHECKSUM_PARTIAL). */
	if (place->pseudo && place->sum == csum_fold16(place->pseudo))
		return UNFINISHED;
	if (place->sum_optional && !place->sum)
		return RIGHT;
	if (bpf_xdp_load_bytes(ctx, place->l4, bytes->bytes, len))
		return WRONG; /* cut off */
	if (len & 3)
		__builtin_memset(bytes->bytes + len, 0, 3);
	for (__u32 at = 0; at < VERIFIED; at += CHUNK) {
		__s64 part;
		__u32 rest;

		if (at >= len)
			break;
		rest = (len - at + 3) & ~3u;
		if (rest > CHUNK)
			rest = CHUNK;
		part = bpf_csum_diff(NULL, 0, (__be32 *)(bytes->bytes + at), rest, 0);
		sum += (__u32)part;
	}
	return csum_fold16(sum) == 0xffff ? RIGHT : WRONG;
}

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
