/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * translate.h - where a router's packets change family: packet → parse → decide → route → apply, at tc.
 *
 *   translate_device at the TUN device: a packet that a route led there leaves it in the other family, as received from
 *                    the device, so that the kernel routes it on, past all its rules. What is declined goes on to the
 *                    slow path unchanged
 *   translate_inline at the ingress of an interface, before any routing: a packet goes on as if it had been received in
 *                    the other family, or is sent out of another interface at once (route.h). A declined packet goes
 *                    through the TUN device
 */
#ifndef DIOLKOS_TC_TRANSLATE_H
#define DIOLKOS_TC_TRANSLATE_H

#include "../decide.h"
#include "../maps.h"
#include "../route_cache.h"
#include "apply.h"
#include "packet.h"
#include "send.h"
#include "vlan.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

/*
 * Decided, and from here on in memory. The compiler would hold what it knows in halves and wholes, and has registers for
 * neither.
 */
#define SETTLE(decided) asm volatile("" : "+m"(decided))

/*
 * Hops, of which change.h takes one. On the long way the kernel takes one to the device and one from there, so with a
 * placement at the interfaces nothing is taken at the device (device_hops), and a packet takes two hops whatever its
 * way: here and in the kernel's forwarding, or both here. One that cannot is left to the kernel, which tells its sender.
 */
#define HOPS_SENT 2

/* l2: bytes of link-layer header in front of the packet. A TUN device has none; under test there is one. */
static __always_inline int translate_device(struct __sk_buff *skb, __u32 l2, decide_fn from_v4, decide_fn from_v6)
{
	struct seen s; /* the program reads only what the parser fills */
	struct change c = {};
	struct packet p;
	int fate;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		p = packet_of(skb, l2, sizeof(struct iphdr));
		fate = decide_4to6(&p, from_v4, &s, &c);
		if (!fate) {
			s.hop_limit += 1 - rules.device_hops;
			fate = apply_4to6(skb, l2, &s, &c);
		}
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		p = packet_of(skb, l2, sizeof(struct ipv6hdr));
		fate = decide_6to4(&p, from_v6, &s, &c);
		if (!fate) {
			s.hop_limit += 1 - rules.device_hops;
			fate = apply_6to4(skb, l2, &s, &c);
		}
	} else {
		return TC_ACT_UNSPEC;
	}

	count(fate, p.len);
	switch (fate) {
	case DIOLKOS_TRANSLATED_4TO6:
	case DIOLKOS_TRANSLATED_6TO4:
		return bpf_redirect(rules.tun_ifindex, BPF_F_INGRESS);
	case DIOLKOS_FAILED:
	case DIOLKOS_DROP_NO_BINDING:
		return TC_ACT_SHOT;
	default:
		return TC_ACT_UNSPEC; /* the next program, then the slow path */
	}
}

/*
 * To the next program, then the kernel. No constant to the compiler, which would put it into a register in front of each
 * condition, for packets that meet them all.
 */
static __always_inline int pass_on(void)
{
	int verdict = TC_ACT_UNSPEC;

	asm volatile("" : "+r"(verdict));
	return verdict;
}

/*
 * l2: 14 on Ethernet, 0 on a bare IP link. checks_source: see look_up_route. What is declined here is counted at the
 * device, if it comes there. Rules may ask for a mark, and the look-up of a route does not know it before Linux 6.10.
 */
static __always_inline int translate_inline(struct __sk_buff *skb, __u32 l2, decide_fn from_v4, decide_fn from_v6,
					    int checks_source)
{
	__u32 len;
	struct bpf_fib_lookup route;
	struct route_key k;
	struct seen s; /* the program reads only what the parser fills */
	struct change c = {};
	struct packet p;
	int found = 0, fate;

	if (!is_for_host(skb))
		return pass_on();
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		p = packet_of(skb, l2, sizeof(struct iphdr));
		p.may_be_padded = 1;
		if (decide_4to6(&p, from_v4, &s, &c))
			return pass_on();
		SETTLE(s);
		if (l2 && !skb->mark && s.hop_limit > HOPS_SENT)
			found = route_key_4to6(&p, &s, &c, &k) ? find_route(skb, &k, &route, AT_TC) : 0;
		len = sizeof(struct iphdr) + s.payload_len;
		s.hop_limit -= found ? HOPS_SENT - 1 : 0;
		fate = apply_4to6(skb, l2, &s, &c);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		p = packet_of(skb, l2, sizeof(struct ipv6hdr));
		if (decide_6to4(&p, from_v6, &s, &c))
			return pass_on();
		SETTLE(s);
		if (l2 && !skb->mark && s.hop_limit > HOPS_SENT)
			found = route_key_6to4(&p, &s, &c, &k)
				    ? find_route(skb, &k, &route, AT_TC | (checks_source ? CHECKS_SOURCE : 0))
				    : 0;
		len = p.len;
		s.hop_limit -= found ? HOPS_SENT - 1 : 0;
		fate = apply_6to4(skb, l2, &s, &c);
	} else {
		return pass_on();
	}

	switch (fate) {
	case DIOLKOS_TRANSLATED_4TO6:
	case DIOLKOS_TRANSLATED_6TO4:
		count(fate, len);
		if (!found)
			return pass_on();
		if (fate == DIOLKOS_TRANSLATED_6TO4)
			skb->priority = priority_of(s.traffic_class);
		return send(skb, &route, found & KNOWN_ROUTE);
	case DIOLKOS_FAILED:
		count(fate, len);
		return TC_ACT_SHOT;
	default:
		return pass_on();
	}
}

#endif
