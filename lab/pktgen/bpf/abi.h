/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * abi.h - everything that the packet generator's programs share with the program that loads them.
 *
 * As with the fast path's abi.h, the Rust side generates its types from the BTF of the compiled objects.
 */
#ifndef PKTGEN_ABI_H
#define PKTGEN_ABI_H

#include <linux/types.h>

/*
 * The signature, which is the beginning of the payload of UDP, TCP and ICMP echo alike, in network byte order:
 *
 *   0  sequence, 64 bits
 *   8  stream, 8 bits; PKTGEN_MAGIC, 8 bits; time stamp, 48 bits: ns of CLOCK_MONOTONIC
 *  16  check of the above and the key, 16 bits
 *
 * 18 bytes are what the shortest frame (64 bytes with IPv4 and UDP, 84 with IPv6) has room for.
 */
#define PKTGEN_SIGNATURE 18
#define PKTGEN_MAGIC 0xd1
#define PKTGEN_STAMP_BITS 48

/* Ethernet, IPv6, TCP are 74 bytes; written eight at a time. */
#define PKTGEN_HEAD 80
/* Bytes behind the signature, which are the same in every frame. */
#define PKTGEN_FILLER 3072
/*
 * In front of each frame that the kernel makes, given back before the frame is written. Behind a router whose packets get
 * longer, a veth would copy each for a sink's XDP program, which wants 256 bytes of headroom: just what frames begin with.
 */
#define PKTGEN_SPARE 64

/* A histogram of nanoseconds: exact below 1024, then 1024 buckets for each power of two, up to 2^40. */
#define PKTGEN_SUB_BITS 10
#define PKTGEN_TOP_BITS 40
#define PKTGEN_BUCKETS ((PKTGEN_TOP_BITS - PKTGEN_SUB_BITS + 1) << PKTGEN_SUB_BITS)

/* A 4-tuple, in the byte order of the machine. The sink remembers those that arrive, as seen by whoever answers. */
struct pktgen_flow {
	__u32 sport;
	__u32 dport;
	__u32 src; /* the last 32 bits of the address */
	__u32 dst;
};

/* What is sent: read-only data of the generator's object, so constants to the verifier. */
struct pktgen_plan {
	__u64 count;          /* frames */
	__u64 duration_ns;    /* no burst begins later than so long after the first; 0: no limit */
	__u64 begin_ns;       /* no frame before, CLOCK_MONOTONIC */
	__u64 key;            /* of the signature's check */
	__u64 interval_ns;    /* between the beginnings of two bursts; 0 and no rest: as fast as it goes */
	__u64 interval_rest;  /* and this many parts of a nanosecond */
	__u64 interval_parts; /* of which there are so many in one */
	__u64 flows;          /* 4-tuples, which are used in turn */
	__u64 space;          /* 4-tuples that there are, of which flows is a part */
	__u64 scatter;        /* another one, another order of 4-tuples */
	__u32 space_bits;     /* the least with space <= 2^space_bits */
	__u32 burst;          /* frames that are sent without a gap */
	__u32 batch;          /* frames that the kernel asks for at once */
	__u32 ifindex;        /* where to */
	__u32 thread;         /* of the process that generates, for telling its frames from others' */
	__u32 stream;         /* 0 to 255 */
	__u32 sport_low;      /* ICMP: the identifier */
	__u32 sports;
	__u32 dport_low; /* ICMP: the sequence number */
	__u32 dports;
	__u32 src_low; /* the last 32 bits of the first address */
	__u32 srcs;
	__u32 dst_low;
	__u32 dsts;
	__u32 src_at; /* where these bits stand in the frame */
	__u32 dst_at;
	__u32 ip_sum_at;        /* where the checksum of the IPv4 header stands; 0: none */
	__u32 ip_sum;           /* of the IPv4 header without these bits, unfolded as raw memory */
	__u32 ports_at;         /* or ICMP's identifier and sequence number */
	__u32 l4_sum_at;        /* where the checksum of UDP, TCP or ICMP stands */
	__u32 l4_sum;           /* of what does not change, pseudo-header included */
	__u32 l4_is_udp;        /* a sum of zero is sent as ones (RFC 768) */
	__u32 l4_has_ips;       /* the pseudo-header has the addresses: not so for ICMPv4 */
	__u32 head_len;         /* bytes before the signature */
	__u32 filler_len;       /* bytes behind it */
	__u32 recalls;          /* 1: 4-tuples are those that a sink remembers, in the order of their numbers */
	__u8 head[PKTGEN_HEAD]; /* read in words */
};

_Static_assert(__builtin_offsetof(struct pktgen_plan, head) % 8 == 0, "words are aligned");

/* How far the generator is. */
struct pktgen_state {
	__u64 seq;       /* of the next frame */
	__u64 flow;      /* of the next frame */
	__u64 bursts;    /* that have begun */
	__u64 begun_ns;  /* when the first one did */
	__u64 latest_ns; /* stamp of the last frame */
	__u64 burst_ns;  /* when the last burst began */
	__u64 due_ns;    /* when the next one should */
	__u64 due_rest;  /* see interval_rest */
	__u64 left;      /* frames of this burst to come */
	__u64 skip;      /* frames of this batch that are not used */
	__u64 done;      /* nothing more will be sent */
	__u64 accepted;  /* frames that the interface took */
	__u64 dropped;   /* and that it did not, for want of room */
};

/* Histograms of the generator. */
enum pktgen_sent {
	PKTGEN_GAP,  /* between the beginnings of two bursts */
	PKTGEN_LATE, /* from when a burst was due to when it began */
	PKTGEN_SENT_KINDS,
};

/* What is watched for: read-only data of the sink's object. */
struct pktgen_watch {
	__u64 key;
	__u64 late_ns;   /* a frame that took longer is late */
	__u32 streams;   /* 0 to streams - 1 */
	__u32 slot_bits; /* each stream remembers 2^slot_bits * 32 sequence numbers */
	__u32 verify;    /* 1: checksums too */
	__u32 remembers; /* 4-tuples of the first so many frames of stream 0 */
	__u32 converses; /* 1: segments of TCP connections are answered; see converse.h */
	__u32 pad;
};

/* Of a TCP connection, each a stream. */
#define PKTGEN_SEGMENTS 6

/* What came of one stream, on one CPU. The last one, after all streams, counts what belongs to none. */
struct pktgen_tally {
	__u64 received; /* first copies, unharmed */
	__u64 bytes;    /* of their frames, without FCS */
	__u64 duplicate;
	__u64 reordered;
	__u64 late;
	__u64 corrupted;
	__u64 foreign;    /* none of ours; only in the last one */
	__u64 forgotten;  /* so far behind that nobody knows whether they came before */
	__u64 unfinished; /* received before anybody had computed the checksum (an offload) */
	__u64 extent;     /* how far the one furthest behind was behind the highest, in sequence numbers */
	__u64 first_ns;   /* when the first came */
	__u64 latest_ns;  /* and the last */
};

/* What all CPUs share about a stream. */
struct pktgen_stream {
	__u64 next; /* the highest sequence number seen, and one (RFC 4737: NextExp) */
	__u64 last; /* of the last frame: 24 bits of sequence number, 40 bits of delay */
};

/* Histograms of each stream. */
enum pktgen_received {
	PKTGEN_DELAY,       /* from the stamp to the sink */
	PKTGEN_IPDV_LONGER, /* by how much a frame took longer than the one before (RFC 5481), or as long */
	PKTGEN_IPDV_SHORTER,
	PKTGEN_RECEIVED_KINDS,
};

/* What the witness is told. */
struct pktgen_vigil {
	__u64 period_ns; /* from one look at the clock to the next */
	__u64 stall_ns;  /* a look that is later by so much tells of a stall */
};

/* Its looks at the clock, on one CPU. */
struct pktgen_looks {
	__u64 are_wanted; /* 0: it is nobody's business how this CPU fares */
	__u64 first_ns;
	__u64 last_ns;
	__u64 count;
};

/* A time in which nothing ran on a CPU. */
struct pktgen_stall {
	__u64 until_ns;
	__u64 stood_still_ns; /* at least; it may have begun up to a period before */
	__u64 cpu;
};

#endif
