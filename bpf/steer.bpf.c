// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * steer.bpf.c - forwards packets of a NAT64 cluster that reach a node to which they do not belong.
 *
 *   steer_egress    tc, at the TUN device, in front of the translation: packet → slice → owner → sent to that node
 *   steer_probe     the same question under test, where packets have an Ethernet header; returns the node
 *
 * A packet stays as it is, but for its hop limit. One that comes back, because nodes disagree about the owner, is translated here.
 */
#include "steer.h"
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

/* The C library's header does not compile for BPF. */
#define AF_INET6 10
#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_ERROR(type) ((type) == ICMP_DEST_UNREACH || (type) == ICMP_TIME_EXCEEDED || (type) == ICMP_PARAMETERPROB)

struct ports {
	__be16 src_be, dst_be;
};

struct echo {
	__u8 type, code;
	__be16 checksum_be, id_be, seq_be;
};

/* The port of ours, or the identifier, in what a packet from the IPv4 side carries; 0: there is none. */
static __always_inline int port_of(struct __sk_buff *skb, __u32 off, __u8 protocol, int is_quoted, __u16 *port)
{
	struct ports ports;
	struct echo echo;

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, off, &ports, sizeof(ports)))
			return 0;
		/* What an error quotes has left here. */
		*port = bpf_ntohs(is_quoted ? ports.src_be : ports.dst_be);
		return 1;
	}
	if (protocol != IPPROTO_ICMP || bpf_skb_load_bytes(skb, off, &echo, sizeof(echo)))
		return 0;
	if (echo.type != ICMP_ECHO && echo.type != ICMP_ECHOREPLY)
		return 0;
	*port = bpf_ntohs(echo.id_be);
	return 1;
}

static __always_inline __u32 length_of(const struct iphdr *ip)
{
	return ip->ihl * 4;
}

static __always_inline int slice_of4(struct __sk_buff *skb, __u32 off, const struct iphdr *ip)
{
	struct iphdr quoted;
	struct echo icmp;
	__u16 port = 0;
	int has_port;

	/* Only the first fragment has a port. */
	if (ip->frag_off & bpf_htons(IP_OFFSET_MASK))
		return slice_of_port(ip->daddr, 0, 0);
	off += length_of(ip);
	if (ip->protocol == IPPROTO_ICMP && !bpf_skb_load_bytes(skb, off, &icmp, sizeof(icmp)) &&
	    ICMP_ERROR(icmp.type)) {
		off += sizeof(icmp);
		if (bpf_skb_load_bytes(skb, off, &quoted, sizeof(quoted)))
			return -1;
		has_port = !(quoted.frag_off & bpf_htons(IP_OFFSET_MASK)) &&
			   port_of(skb, off + length_of(&quoted), quoted.protocol, 1, &port);
		return slice_of_port(quoted.saddr, port, has_port);
	}
	has_port = port_of(skb, off, ip->protocol, 0, &port);
	return slice_of_port(ip->daddr, port, has_port);
}

/* The node to which a packet belongs; DIOLKOS_HERE also for one of unknown slice or owner. `off`: of its IP header. */
static __always_inline __u32 node_of(struct __sk_buff *skb, __u32 off, const struct diolkos_steering *c)
{
	__u32 at, *owner;
	int slice = -1;

	if (!c->slices)
		return DIOLKOS_HERE;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)) || !is_for_translator(c, &ip.daddr))
			return DIOLKOS_HERE;
		slice = slice_of_source(c, &ip.saddr);
	} else if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)))
			return DIOLKOS_HERE;
		slice = slice_of4(skb, off, &ip);
	}
	if (slice < 0)
		return DIOLKOS_HERE;
	at = slice;
	owner = bpf_map_lookup_elem(&owners, &at);
	return owner ? *owner : DIOLKOS_HERE;
}

/* What of a packet is forwarded. */
struct passage {
	__u64 flow;
	__u8 hop_limit;
};

/* The first four bytes behind the IP header, ports in most cases; 0 of a later fragment, or if there are none. */
static __always_inline __u32 ports_at(struct __sk_buff *skb, __u32 off, int is_later)
{
	__u32 ports;

	return is_later || bpf_skb_load_bytes(skb, off, &ports, sizeof(ports)) ? 0 : ports;
}

/* 0, or what a helper refused. */
static __always_inline int passage_of(struct __sk_buff *skb, const __u64 key[2], struct passage *passage)
{
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
			return -1;
		passage->hop_limit = ip.hop_limit;
		passage->flow = flow_of6(key, &ip, ports_at(skb, sizeof(ip), 0));
	} else {
		struct iphdr ip;
		int is_later;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
			return -1;
		is_later = ip.frag_off & bpf_htons(IP_OFFSET_MASK);
		passage->hop_limit = ip.ttl;
		passage->flow = flow_of4(key, &ip, ports_at(skb, length_of(&ip), is_later));
	}
	return 0;
}

/* One hop less. 0, or what a helper refused. */
static __always_inline int shorten(struct __sk_buff *skb, __u8 hop_limit)
{
	__u8 less = hop_limit - 1;

	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_store_bytes(skb, __builtin_offsetof(struct ipv6hdr, hop_limit), &less, sizeof(less), 0);
	if (bpf_l3_csum_replace(skb, __builtin_offsetof(struct iphdr, check), bpf_htons(hop_limit << 8),
				bpf_htons(less << 8), sizeof(__be16)))
		return -1;
	return bpf_skb_store_bytes(skb, __builtin_offsetof(struct iphdr, ttl), &less, sizeof(less), 0);
}

SEC("tcx/egress")
int steer_egress(struct __sk_buff *skb)
{
	struct bpf_redir_neigh hop = { .nh_family = AF_INET6 };
	struct diolkos_steer_count *count;
	struct diolkos_steer_node *node;
	struct diolkos_steering *c;
	struct passage passage = {};
	__u32 zero = 0, at;

	c = bpf_map_lookup_elem(&steering, &zero);
	at = c ? node_of(skb, 0, c) : DIOLKOS_HERE;
	if (at == DIOLKOS_HERE)
		return TC_ACT_UNSPEC;
	node = bpf_map_lookup_elem(&nodes, &at);
	count = bpf_map_lookup_elem(&forwarded, &at);
	if (!node || !node->ifindex || !count)
		return TC_ACT_UNSPEC;
	if (passage_of(skb, c->key, &passage) || passage.hop_limit <= 1)
		return TC_ACT_UNSPEC;
	if (comes_back(passage.flow, passage.hop_limit)) {
		count->returned++;
		return TC_ACT_UNSPEC;
	}
	__builtin_memcpy(hop.ipv6_nh, node->next_hop, sizeof(hop.ipv6_nh));
	/* bpf_redirect_neigh writes an Ethernet header over one that is there. */
	if (shorten(skb, passage.hop_limit) || bpf_skb_change_head(skb, ETH_HLEN, 0)) {
		count->dropped++;
		return TC_ACT_SHOT;
	}
	count->packets++;
	count->bytes += skb->len - ETH_HLEN;
	return bpf_redirect_neigh(node->ifindex, &hop, sizeof(hop), 0);
}

/* For BPF_PROG_TEST_RUN. */
SEC("?tcx/egress")
int steer_probe(struct __sk_buff *skb)
{
	struct diolkos_steering *c;
	__u32 zero = 0;

	c = bpf_map_lookup_elem(&steering, &zero);
	return c ? node_of(skb, ETH_HLEN, c) : DIOLKOS_HERE;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
