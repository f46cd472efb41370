// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * siit.bpf.c - the fast path of a SIIT at the tc hooks.
 *
 *   siit_egress        at the TUN device, to which routes lead
 *   siit_egress_l2     the same under test, where packets have an Ethernet header
 *   siit_ingress       at an Ethernet interface, `inline` and `direct` placement
 *   siit_ingress_raw   at an interface of bare IP
 *
 * The programs read first and decline what is not plain, by letting it go on
 * unchanged.
 */
#include "abi.h"
#include "addr.h"
#include "eamt.h"
#include "isthmus.h"
#include "maps.h"
#include "parse.h"
#include "xlat.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The IPv6 address of an IPv4 node: by its mapping, otherwise by the first prefix. 0, or why the packet is declined. */
static __always_inline int to_v6(__be32 v4_be, struct in6_addr *out)
{
	if (addr_v4_is_special(v4_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	if (!eamt_to_v6(v4_be, out))
		return 0;
	if (!siit.pref64s || addr_v4_is_special(v4_be, siit.pref64[0].only_global))
		return DIOLKOS_DECLINE_ADDRESS;
	addr_embed(&siit.pref64[0], v4_be, out);
	return 0;
}

/* The same for an IPv6 node. by_prefix: it is embedded in a translation prefix. */
static __always_inline int to_v4(const struct in6_addr *v6, __be32 *out_be, int *by_prefix)
{
	*by_prefix = 0;
	if (addr_v6_is_special(v6))
		return DIOLKOS_DECLINE_ADDRESS;
	if (siit.eam_in_pref64 && !eamt_to_v4(v6, out_be))
		return addr_v4_is_special(*out_be, 0) ? DIOLKOS_DECLINE_ADDRESS : 0;
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < siit.pref64s; i++) {
		if (addr_extract(&siit.pref64[i], v6, out_be))
			continue;
		*by_prefix = 1;
		return addr_v4_is_special(*out_be, siit.pref64[i].only_global) ? DIOLKOS_DECLINE_ADDRESS : 0;
	}
	if (siit.eam_in_pref64 || eamt_to_v4(v6, out_be) || addr_v4_is_special(*out_be, 0))
		return DIOLKOS_DECLINE_ADDRESS;
	return 0;
}

/* l2: bytes of link-layer header in front of the packet. The fate of the packet. */
static __always_inline int from_v4(struct __sk_buff *skb, __u32 l2)
{
	struct in6_addr src6, dst6;
	struct seen s = {};
	int fate = parse_v4(skb, l2, &s);

	if (!fate)
		fate = guard_4to6(&s);
	if (!fate)
		fate = to_v6(s.src4_be, &src6);
	if (!fate)
		fate = to_v6(s.dst4_be, &dst6);
	if (fate)
		return fate;
	return xlat_4to6(skb, l2, &s, &src6, &dst6, &none);
}

static __always_inline int from_v6(struct __sk_buff *skb, __u32 l2)
{
	__be32 src4_be = 0, dst4_be = 0;
	int src_by_prefix, dst_by_prefix;
	struct seen s = {};
	__u32 len;
	int fate = parse_v6(skb, l2, &s);

	if (!fate)
		fate = guard_6to4(&s);
	if (!fate)
		fate = to_v4(&s.src6, &src4_be, &src_by_prefix);
	if (!fate)
		fate = to_v4(&s.dst6, &dst4_be, &dst_by_prefix);
	if (fate)
		return fate;
	/* Back to IPv6, to a node with a mapping (RFC 7757 section 4.2). */
	if (dst_by_prefix && eamt_find_v4(dst4_be, &len))
		return DIOLKOS_DECLINE_HAIRPIN;
	return xlat_6to4(skb, l2, &s, src4_be, dst4_be, &none);
}

SEC("tcx/egress")
int siit_egress(struct __sk_buff *skb)
{
	return isthmus(skb, 0, from_v4, from_v6);
}

/* For BPF_PROG_TEST_RUN, which gives every packet an Ethernet header. Not loaded unless asked for. */
SEC("?tcx/egress")
int siit_egress_l2(struct __sk_buff *skb)
{
	return isthmus(skb, ETH_HLEN, from_v4, from_v6);
}

/* What the kernel routes to the TUN device; in front of the kernel's routing, these say it. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_route4);
	__type(value, __u8);
} routes4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct diolkos_route6);
	__type(value, __u8);
} routes6 SEC(".maps");

static __always_inline int inline_from_v4(struct __sk_buff *skb, __u32 l2)
{
	struct diolkos_route4 to = { .len = 32 };

	if (bpf_skb_load_bytes(skb, l2 + __builtin_offsetof(struct iphdr, daddr), &to.addr_be, sizeof(to.addr_be)) ||
	    !bpf_map_lookup_elem(&routes4, &to))
		return DIOLKOS_DECLINE_ADDRESS;
	return from_v4(skb, l2);
}

static __always_inline int inline_from_v6(struct __sk_buff *skb, __u32 l2)
{
	struct diolkos_route6 to = { .len = 128 };
	struct diolkos_route4 on = { .len = 32 };

	/* A node with a mapping inside a prefix is reached by a longer route, which only the kernel knows. */
	if (siit.eam_in_pref64)
		return DIOLKOS_DECLINE_ADDRESS;
	if (bpf_skb_load_bytes(skb, l2 + __builtin_offsetof(struct ipv6hdr, daddr), &to.addr, sizeof(to.addr)) ||
	    !bpf_map_lookup_elem(&routes6, &to))
		return DIOLKOS_DECLINE_ADDRESS;
	/* Nor is one whose IPv4 address leads here translated on its way: it has an IPv6 address, and a route to it. */
	for (__u32 i = 0; i < DIOLKOS_PREF64S && i < siit.pref64s; i++) {
		if (!addr_extract(&siit.pref64[i], &to.addr, &on.addr_be) && bpf_map_lookup_elem(&routes4, &on))
			return DIOLKOS_DECLINE_ADDRESS;
	}
	return from_v6(skb, l2);
}

/* A prefix embeds any source that a packet says it has. */
#define CHECKS_SOURCE 1

SEC("tcx/ingress")
int siit_ingress(struct __sk_buff *skb)
{
	return isthmus_inline(skb, ETH_HLEN, inline_from_v4, inline_from_v6, CHECKS_SOURCE);
}

SEC("tcx/ingress")
int siit_ingress_raw(struct __sk_buff *skb)
{
	return isthmus_inline(skb, 0, inline_from_v4, inline_from_v6, CHECKS_SOURCE);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
