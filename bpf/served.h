/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * served.h - for which addresses neighbours are answered, by interface, and what became of their questions. All that the
 * program that answers shares with the program that loads it.
 */
#ifndef DIOLKOS_SERVED_H
#define DIOLKOS_SERVED_H

#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in6.h>

/*
 * What became of a packet that asks about a served address. One counter each; packets about other addresses are not
 * counted. DECLINE_* went on unchanged, to the translation and to the kernel.
 */
#define DIOLKOS_ANSWERS(X)                                                                 \
	X(ARP)                 /* an ARP request was answered */                           \
	X(NEIGHBOUR)           /* a neighbour solicitation was answered */                 \
	X(DUPLICATE)           /* Duplicate Address Detection of somebody was answered */  \
	X(ECHO4)               /* ICMP echo was answered */                                \
	X(ECHO6)               /* ICMPv6 echo was answered */                              \
	X(FAILED)              /* lost: a helper refused after the packet was changed */   \
	X(DECLINE_HEADER)      /* a header that does not look right */                     \
	X(DECLINE_HOP_LIMIT)   /* a solicitation that crossed a router: not 255 */         \
	X(DECLINE_CHECKSUM)    /* a wrong checksum, or an echo that may be all zeros */    \
	X(DECLINE_OPTIONS)     /* options of a solicitation that break RFC 4861 */         \
	X(DECLINE_DESTINATION) /* sent to other link-layer or IP addresses than it must */ \
	X(DECLINE_SOURCE)      /* from an address that nobody can have */                  \
	X(DECLINE_CONFLICT)    /* from an address that is served here */                   \
	X(DECLINE_OWN)         /* sent by this interface itself */                         \
	X(DECLINE_FRAGMENT)    /* a fragment of an echo request */                         \
	X(DECLINE_NO_ROOM)     /* a helper refused before the packet was changed */

enum diolkos_answer {
	DIOLKOS_NOT_ASKED, /* 0: about no address that is served */
#define X(name) DIOLKOS_ANSWER_##name,
	DIOLKOS_ANSWERS(X)
#undef X
	DIOLKOS_ANSWER_END,
};

/* Keys of tries: an address on an interface. The length counts the interface's 32 bits. */
struct diolkos_served4 {
	__u32 len;
	__u32 ifindex;
	__be32 addr_be;
};

struct diolkos_served6 {
	__u32 len;
	__u32 ifindex;
	struct in6_addr addr;
};

/* Values of these tries. */
#define DIOLKOS_SERVED 1
#define DIOLKOS_SERVED_ECHO 2 /* echo is answered, too */

/* An interface that answers. */
struct diolkos_announcer {
	__u8 mac[ETH_ALEN];
	__u8 pad[2];
};

_Static_assert(sizeof(struct diolkos_served4) == 12 && sizeof(struct diolkos_served6) == 24, "keys have no padding");
_Static_assert(sizeof(struct diolkos_announcer) == 8, "no implicit padding");

#define DIOLKOS_SERVED_MOST 131072

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, DIOLKOS_SERVED_MOST);
	__type(key, struct diolkos_served4);
	__type(value, __u32);
} served4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, DIOLKOS_SERVED_MOST);
	__type(key, struct diolkos_served6);
	__type(value, __u32);
} served6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct diolkos_announcer);
} announcers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DIOLKOS_ANSWER_END);
	__type(key, enum diolkos_answer);
	__type(value, __u64);
} answers SEC(".maps");

static __always_inline __u32 serves4(struct __sk_buff *skb, __be32 addr_be)
{
	struct diolkos_served4 key = { .len = 64, .ifindex = skb->ifindex, .addr_be = addr_be };
	__u32 *served = bpf_map_lookup_elem(&served4, &key);

	return served ? *served : 0;
}

static __always_inline __u32 serves6(struct __sk_buff *skb, const struct in6_addr *addr)
{
	struct diolkos_served6 key = { .len = 160, .ifindex = skb->ifindex, .addr = *addr };
	__u32 *served = bpf_map_lookup_elem(&served6, &key);

	return served ? *served : 0;
}

#endif
