/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * apply.h - a change, made to a packet of a tc hook.
 *
 *   checksum_guard           the last guard: whose checksum is left to the device?
 *   apply_4to6, apply_6to4   all of it; once bpf_skb_change_proto is called there
 *                            is no way back: what fails is lost
 */
#ifndef DIOLKOS_TC_APPLY_H
#define DIOLKOS_TC_APPLY_H

#include "../change.h"
#include "../packet.h"
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
 * In a tunnel the checksum that is left to the device may be that of the packet inside. Then the tunnel's own is whole,
 * and no helper changes it. No program is told whose it is; but a checksum that the device finishes is the sum of its
 * pseudo-header. (Of 65535 whole ones, one has that value too. Such a packet is lost.)
 *
 * An echo that leaves its checksum to the device comes from a virtual machine or a packet socket, not from a kernel. It
 * would need another pseudo-header, or lose it.
 */
static __always_inline int checksum_guard(struct __sk_buff *skb, __u32 l4, const struct seen *s, __u64 pseudo_sum,
					  struct checksum *sum)
{
	int is_partial;

	if (s->l4_proto == IPPROTO_ICMP) {
		is_partial =
		    checksum_is_partial(skb, l4 + __builtin_offsetof(struct icmp_echo, checksum_be), s->checksum_be);
		return is_partial < 0 ? DIOLKOS_FAILED : is_partial ? DIOLKOS_DECLINE_OFFLOAD : 0;
	}
	if (!sum->moves || s->l4_proto != IPPROTO_UDP)
		return 0;
	is_partial = checksum_is_partial(skb, l4 + __builtin_offsetof(struct udphdr, check), s->checksum_be);
	if (is_partial < 0)
		return DIOLKOS_FAILED;
	pseudo_sum += bpf_htons(s->payload_len) + bpf_htons(IPPROTO_UDP);
	if (is_partial && !csum_delta_is_zero(csum_delta(pseudo_sum, s->checksum_be)))
		return DIOLKOS_DECLINE_OFFLOAD;
	sum->is_partial = is_partial;
	return 0;
}

/*
 * The TCP or UDP header at l4, behind the new network header. gone, come: sums of what is overwritten, and by what. 0, or
 * -1 if the packet cannot be written to.
 */
static __always_inline int apply_l4(struct __sk_buff *skb, __u32 l4, const struct seen *s, struct checksum *sum,
				    const struct renumbering *port, __u64 *gone, __u64 *come)
{
	int failed;

	if (!sum->moves)
		return 0;
	/*
	 * Only here, for TCP has nothing to decline: the sender's queue often shares a segment, which would be copied
	 * for the question and once more to make room for the header.
	 */
	if (s->l4_proto == IPPROTO_TCP) {
		int is_partial = checksum_is_partial(skb, l4 + checksum_at(s), s->checksum_be);

		if (is_partial < 0)
			return -1;
		sum->is_partial = is_partial;
	}
	failed = write_l4((void *)(long)skb->data + l4, (void *)(long)skb->data_end, s, sum, port, gone, come);
	barrier(); /* as in checksum_is_partial */
	return failed;
}

/* l2: bytes of link-layer header in front of the packet. The fate of the packet. */
static __always_inline int apply_4to6(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct change *c)
{
	__u64 from = (__u64)s->src4_be + s->dst4_be, to = csum_in6(&c->src6) + csum_in6(&c->dst6);
	struct checksum sum = checksum_for(s, csum_delta(from, to), &c->port);
	int fate = checksum_guard(skb, l2 + sizeof(struct iphdr), s, from, &sum);
	/* As in apply_6to4: the sum of the IPv4 header was zero, and the bytes that the kernel put there are zeros. */
	__u64 gone = 0, come = 0;

	if (fate)
		return fate;
	if (s->padding && bpf_skb_change_tail(skb, l2 + sizeof(struct iphdr) + s->payload_len, 0))
		return DIOLKOS_DECLINE_HEADER;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IPV6), 0))
		return DIOLKOS_FAILED;
	if (apply_l4(skb, l2 + sizeof(struct ipv6hdr), s, &sum, &c->port, &gone, &come))
		return DIOLKOS_FAILED;

	struct ipv6hdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		write_echo(echo, s->new_icmp_type, &c->port, 0, icmpv6_pseudo_sum(&c->src6, &c->dst6, s->payload_len));
		come += echo_head_sum(echo);
	}
	*ip = header_4to6(s, c);
	come += ipv6_header_sum(ip);
	bpf_csum_update(skb, csum_delta(gone, come));
	return DIOLKOS_TRANSLATED_4TO6;
}

static __always_inline int apply_6to4(struct __sk_buff *skb, __u32 l2, const struct seen *s, const struct change *c)
{
	__u64 from = csum_in6(&s->src6) + csum_in6(&s->dst6), to = (__u64)c->src4_be + c->dst4_be;
	struct checksum sum = checksum_for(s, csum_delta(from, to), &c->port);
	int fate = checksum_guard(skb, l2 + sizeof(struct ipv6hdr), s, from, &sum);
	/*
	 * The network card may have summed the packet (CHECKSUM_COMPLETE). The kernel takes the first 20 bytes of the
	 * IPv6 header out of that sum with the bytes; the other 20, which are addresses, give way to an IPv4 header,
	 * whose sum is zero.
	 */
	__u64 gone = (__u64)s->src6.s6_addr32[3] + csum_in6(&s->dst6), come = 0;

	if (fate)
		return fate;
	if (bpf_skb_change_proto(skb, bpf_htons(ETH_P_IP), 0))
		return DIOLKOS_FAILED;
	if (apply_l4(skb, l2 + sizeof(struct iphdr), s, &sum, &c->port, &gone, &come))
		return DIOLKOS_FAILED;

	struct iphdr *ip = (void *)(long)skb->data + l2;
	struct icmp_echo *echo = (void *)(ip + 1);

	if ((void *)(echo + 1) > (void *)(long)skb->data_end)
		return DIOLKOS_FAILED;
	if (s->l4_proto == IPPROTO_ICMP) {
		gone += echo_head_sum(echo);
		write_echo(echo, s->new_icmp_type, &c->port, icmpv6_pseudo_sum(&s->src6, &s->dst6, s->payload_len), 0);
		come += echo_head_sum(echo);
	}
	*ip = header_6to4(s, c);
	bpf_csum_update(skb, csum_delta(gone, come));
	return DIOLKOS_TRANSLATED_6TO4;
}

#endif
