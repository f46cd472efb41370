/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * forward.h - to which gateway of a cluster a packet goes for which there is no session here.
 *
 *   subject_of6   IPv6 packet → the host, and its port if the packet shows one
 *   goes_to6      not away, if its binding is ours; by the binding that another gateway has; or else to the host's home
 *   goes_to4      to the owner of the destination address
 */
#ifndef DIOLKOS_FORWARD_H
#define DIOLKOS_FORWARD_H

#include "bib.h"
#include "gateways.h"
#include "home.h"
#include "icmp.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

/*
 * Packets for a gateway. Place 0, which is of no other gateway: `returned` are packets that others have sent here and for which
 * there was no session, `dropped` those of them that the kernel had no memory to hand on, and `forged` packets that began like
 * a label.
 */
struct diolkos_forward_count {
	__u64 packets;
	__u64 bytes; /* from the IP header on; a super-packet counts whole */
	__u64 dropped;
	__u64 too_big; /* left to the daemon, which tells the sender or fragments */
	__u64 returned;
	__u64 hops;   /* left to the daemon: their hops run out */
	__u64 no_way; /* left to the daemon: the gateway is not reached */
	__u64 forged;
};

_Static_assert(sizeof(struct diolkos_forward_count) == 64, "no padding");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DIOLKOS_OWNERS);
	__type(key, __u32);
	__type(value, struct diolkos_forward_count);
} forwarded SEC(".maps");

/* Of each address of the pool, its owner. The loader gives the map its size. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __be32);
	__type(value, __u32);
} addresses SEC(".maps");

struct first_ports {
	__be16 src_be, dst_be;
};

/* What decides about an IPv6 packet. */
struct subject {
	struct in6_addr host;
	__be16 port_be;
	__u8 protocol; /* as a session has it; 0: the packet shows no port */
	__u8 pad;
};

static __always_inline int is_for_translator(const struct diolkos_cluster *c, const struct in6_addr *addr)
{
	__u64 high = number_of(&addr->s6_addr32[0]), low = number_of(&addr->s6_addr32[2]);

	for (__u32 i = 0; i < DIOLKOS_CLUSTER_PREF64S && i < c->pref64s; i++) {
		__u32 len = c->pref64[i].len;

		if (((high ^ c->pref64[i].high) & first_of_64(len)) == 0 &&
		    ((low ^ c->pref64[i].low) & first_of_64(len > 64 ? len - 64 : 0)) == 0)
			return 1;
	}
	return 0;
}

/* The host's port in a packet of its own, or, if it is quoted, in one that was sent to it. */
static __always_inline void read_port(struct __sk_buff *skb, __u32 off, __u8 next, int is_quoted, struct subject *s)
{
	struct first_ports ports;
	struct icmp_echo icmp;

	if (next == IPPROTO_TCP || next == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, off, &ports, sizeof(ports)))
			return;
		s->port_be = is_quoted ? ports.dst_be : ports.src_be;
		s->protocol = next;
	} else if (next == IPPROTO_ICMPV6) {
		if (bpf_skb_load_bytes(skb, off, &icmp, sizeof(icmp)))
			return;
		if (icmp.type != ICMPV6_ECHO_REQUEST && icmp.type != ICMPV6_ECHO_REPLY)
			return;
		s->port_be = icmp.id_be;
		s->protocol = IPPROTO_ICMP;
	}
}

/*
 * 0, or -1: it is not for the translator, or says nothing about a host.
 *
 * Of an error, the packet that it quotes decides: a node on the way may have sent it, and the quoted packet's destination is the
 * host whose binding it is about (RFC 6146 section 3.4, RFC 7915 section 5.2).
 *
 * Behind an extension header no port is read, not even that of a first fragment. So all fragments of a packet
 * go to the host's home, whose daemon knows by its copy who has the binding. Where bindings of such hosts may be ours, our daemon looks first.
 */
static __always_inline int subject_of6(struct __sk_buff *skb, __u32 off, const struct diolkos_cluster *c,
				       struct subject *s)
{
	struct ipv6hdr ip;
	__u8 type;

	if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)) || !is_for_translator(c, &ip.daddr))
		return -1;
	off += sizeof(ip);
	s->host = ip.saddr;
	if (ip.nexthdr == IPPROTO_ICMPV6 && !bpf_skb_load_bytes(skb, off, &type, sizeof(type)) &&
	    type < ICMPV6_ERRORS_END) {
		off += sizeof(struct icmp_echo);
		if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)) || ip.version != 6 ||
		    !is_for_translator(c, &ip.saddr))
			return -1;
		s->host = ip.daddr;
		read_port(skb, off + sizeof(ip), ip.nexthdr, 1, s);
		return 0;
	}
	read_port(skb, off, ip.nexthdr, 0, s);
	return 0;
}

/* Is the binding ours? Then the packet stays here, whoever is the host's home: its peer may be new, or it needs the slow path. */
static __always_inline int is_bound_here(const struct subject *s)
{
	struct diolkos_bib_key key = { .node = s->host, .node_port_be = s->port_be, .protocol = s->protocol };
	struct diolkos_bib_entry *to = bpf_map_lookup_elem(&bib, &key);

	return to && to->owner == DIOLKOS_OURS;
}

static __always_inline __u32 goes_to6(struct __sk_buff *skb, __u32 off, const struct diolkos_cluster *c)
{
	struct subject s = {};
	__u32 owner = DIOLKOS_OURS;
	__u64 bucket;

	if (subject_of6(skb, off, c, &s))
		return DIOLKOS_OURS;
	if (is_bound_here(&s))
		return DIOLKOS_OURS;
	if (s.protocol)
		owner = away_of(&s.host, s.port_be, s.protocol);
	if (owner != DIOLKOS_OURS)
		return owner;
	bucket = bucket_value_of(c, &s.host);
	if (!s.protocol && bucket & DIOLKOS_PORTLESS_HERE)
		return DIOLKOS_OURS;
	return (__u32)bucket;
}

/*
 * Of fragments and errors, too: an error goes to the source of the packet that it quotes (RFC 1122 section 3.2.2), which is the
 * address that the owner gave to it.
 */
static __always_inline __u32 goes_to4(struct __sk_buff *skb, __u32 off)
{
	struct iphdr ip;
	__u32 *owner;

	if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)))
		return DIOLKOS_OURS;
	owner = bpf_map_lookup_elem(&addresses, &ip.daddr);
	return owner ? *owner : DIOLKOS_OURS;
}

#endif
