/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * apply.h - a change, made to a packet of a tc hook.
 *
 *   checksum_guard           the last guard: whose checksum is left to the device, and what are the segments?
 *   apply_4to6, apply_6to4   all of it, and the EtherType; once bpf_skb_change_proto is called there
 *                            is no way back: what fails is lost
 */
#ifndef DIOLKOS_TC_APPLY_H
#define DIOLKOS_TC_APPLY_H

#include "../change.h"
#include "../packet.h"
#include "gso.h"
#include <bpf/bpf_helpers.h>

/*
 * Does the device finish the checksum at `at`? Only a helper knows: a change that is none of the pseudo-header it makes
 * in a whole checksum alone. That change is taken back. -1 if the packet cannot be written to.
 */
static __always_inline int checksum_is_partial(struct __sk_buff *skb, __u32 at, __be16 was_be)
{
	if (bpf_l4_csum_replace(skb, at, 0, 1, 0))
		return -1;

	__be16 *field = (void *)(long)skb->data + at;

	if ((void *)(field + 1) > (void *)(long)skb->data_end)
		return -1;

	int is_partial = *field == was_be;

	*field = was_be;
	/* Kept from here for one branch of two, skb->data would be a number to the compiler, and none to the verifier. */
	barrier();
	return is_partial;
}

/*
 * In a tunnel the checksum that is left to the device may be that of the packet inside. Then the tunnel's own is whole. A
 * program cannot ask whose it is; but a checksum that the device finishes is the sum of its pseudo-header. So a single packet
 * with another checksum is not asked about. (Of 65535 whole ones, one has that value too. In a tunnel, such a packet is lost.)
 *
 * An echo that leaves its checksum to the device comes from a virtual machine or a packet socket, not from a kernel. It
 * would need another pseudo-header, or lose it.
 */
static __always_inline int checksum_guard(struct __sk_buff *skb, __u32 l4, const struct seen *s,
					  const struct renumbering *port, __u64 addresses, struct checksum *sum)
{
	int is_partial, looks_partial;

	if (s->l4_proto == IPPROTO_ICMP) {
		is_partial =
		    checksum_is_partial(skb, l4 + __builtin_offsetof(struct icmp_echo, checksum_be), s->checksum_be);
		return is_partial < 0 ? DIOLKOS_FAILED : is_partial ? DIOLKOS_DECLINE_OFFLOAD : 0;
	}
	if (s->l4_proto != IPPROTO_UDP)
		return 0;
	/* Here and not where packets are parsed: it costs three calls, and most packets of an interface are not translated. */
	if (skb->gso_size && !has_datagrams(skb))
		return DIOLKOS_DECLINE_OFFLOAD;
	if (!checksum_moves(sum, port))
		return 0;
	/* To ask costs a fifth of the translation. A whole checksum is changed in the same way whatever is inside. */
	looks_partial = may_be_partial(s, addresses);
	if (!s->segment_data_len && !looks_partial)
		return 0;
	is_partial = checksum_is_partial(skb, l4 + __builtin_offsetof(struct udphdr, check), s->checksum_be);
	if (is_partial < 0)
		return DIOLKOS_FAILED;
	if (is_partial && !looks_partial)
		return DIOLKOS_DECLINE_OFFLOAD;
	sum->is_partial = is_partial;
	return 0;
}

/*
 * The rest of checksum_guard, behind the new network header. For TCP has nothing to decline, and the sender's queue often
 * shares a segment, which would be copied for the question and once more to make room for the header. A single packet is
 * asked about only if its checksum may be left to a device. addresses: the sum of the old ones. 0, or -1 if the packet
 * cannot be written to.
 */
static __always_inline int ask_of_tcp(struct __sk_buff *skb, __u32 l4, const struct seen *s, __u64 addresses,
				      struct checksum *sum)
{
	int is_partial;

	if (s->l4_proto != IPPROTO_TCP || !(s->segment_data_len || may_be_partial(s, addresses)))
		return 0;
	is_partial = checksum_is_partial(skb, l4 + __builtin_offsetof(struct tcphdr, check), s->checksum_be);
	if (is_partial < 0)
		return -1;
	sum->is_partial = is_partial;
	return 0;
}

/*
 * Has the network card summed the packet (CHECKSUM_COMPLETE)? Then that sum has to follow what is written. Most cards have
 * not, and the sums of what goes and what comes need not be known.
 */
static __always_inline int is_summed(struct __sk_buff *skb)
{
	return bpf_csum_update(skb, 0) >= 0;
}

/* l2: bytes of link-layer header in front of the packet. The fate of the packet. */
static __always_inline int apply_4to6(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct change *c)
{
	__u64 from = (__u64)s->src4_be + s->dst4_be, to = csum_in6(&c->src6) + csum_in6(&c->dst6);
	struct checksum sum = checksum_for(from, to);
	int fate = checksum_guard(skb, l2 + sizeof(struct iphdr), s, &c->port, from, &sum);

	if (fate)
		return fate;
	if (s->padding && bpf_skb_change_tail(skb, l2 + sizeof(struct iphdr) + s->payload_len, 0))
		return DIOLKOS_DECLINE_HEADER;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IPV6), 0))
		return DIOLKOS_FAILED;
	if (ask_of_tcp(skb, l2 + sizeof(struct ipv6hdr), s, from, &sum))
		return DIOLKOS_FAILED;

	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip = data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP)
		write_echo(echo, s->new_icmp_type, &c->port, 0, icmpv6_pseudo_sum(&c->src6, &c->dst6, s->payload_len));
	else if (write_l4(echo, end, s, &sum, &c->port, AT_DESTINATION))
		return DIOLKOS_FAILED;
	write_header_4to6(ip, s, c);
	if (l2)
		((struct ethhdr *)data)->h_proto = bpf_htons(ETH_P_IPV6);
	/* As in apply_6to4: the sum of the IPv4 header was zero, and the bytes that the kernel put there are zeros. */
	if (is_summed(skb))
		bpf_csum_update(skb, csum_delta(l4_sum_before(s, &c->port),
						l4_sum_behind(echo, end, s, &c->port) + header_sum_4to6(s, c)));
	count_mss(s, sizeof(struct iphdr) + s->payload_len + s->padding);
	return DIOLKOS_TRANSLATED_4TO6;
}

static __always_inline int apply_6to4(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct change *c)
{
	__u64 from = csum_in6(&s->src6) + csum_in6(&s->dst6), to = (__u64)c->src4_be + c->dst4_be;
	struct checksum sum = checksum_for(from, to);
	int fate = checksum_guard(skb, l2 + sizeof(struct ipv6hdr), s, &c->port, from, &sum);

	if (fate)
		return fate;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IP), 0))
		return DIOLKOS_FAILED;
	if (ask_of_tcp(skb, l2 + sizeof(struct iphdr), s, from, &sum))
		return DIOLKOS_FAILED;

	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP)
		write_echo(echo, s->new_icmp_type, &c->port, icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len), 0);
	else if (write_l4(echo, end, s, &sum, &c->port, AT_SOURCE))
		return DIOLKOS_FAILED;
	write_header_6to4(ip, s, c);
	if (l2)
		((struct ethhdr *)data)->h_proto = bpf_htons(ETH_P_IP);
	/*
	 * The kernel takes the first 20 bytes of the IPv6 header out of the sum with the bytes; the other 20, which are
	 * addresses, give way to an IPv4 header, whose sum is zero.
	 */
	if (is_summed(skb))
		bpf_csum_update(skb, csum_delta(l4_sum_before(s, &c->port) + s->src6.s6_addr32[3] + csum_in6(&s->dst6),
						l4_sum_behind(echo, end, s, &c->port)));
	count_mss(s, sizeof(struct ipv6hdr) + s->payload_len);
	return DIOLKOS_TRANSLATED_6TO4;
}

#endif
