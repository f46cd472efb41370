/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * port.h - the interfaces whose drivers run the program, and VLANs on them.
 *
 *   arrival                     by which interface the kernel would receive a frame, and what the frame carries there
 *   is_sendable, lead_by_card   how a frame leaves by an interface
 *
 * Invariant: a frame counts as one of a VLAN only if it has that VLAN's tag and nothing but a packet behind it, and what is
 * sent out of a VLAN has its tag. A VLAN is known by the index of its interface, which the kernel's routes name: while the
 * interface is not there, no route leads to it, and the kernel finds none for what is received on it.
 */
#ifndef DIOLKOS_XDP_PORT_H
#define DIOLKOS_XDP_PORT_H

#include "../abi.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>

#define VLAN_NUMBER 0x0fff

const volatile struct diolkos_ports ports = {};

/* Between the addresses and the type of what a frame carries. */
struct vlan_tag {
	__be16 tci_be;
	__be16 type_be;
};

struct arrival {
	__u32 ifindex;
	__u32 l2;       /* bytes of link-layer header, with the tag */
	__be16 type_be; /* 0: the frame is left to the kernel */
	__be16 vlan_be; /* 0: it has no tag */
};

/* No kernel has looked at the link-layer address yet. */
static __always_inline int is_to_port(const struct ethhdr *eth, const volatile struct diolkos_port *port)
{
	return eth->h_dest[0] == port->address[0] && eth->h_dest[1] == port->address[1] &&
	       eth->h_dest[2] == port->address[2] && eth->h_dest[3] == port->address[3] &&
	       eth->h_dest[4] == port->address[4] && eth->h_dest[5] == port->address[5];
}

static __always_inline struct arrival arrival(struct xdp_md *ctx)
{
	struct arrival a = { .l2 = ETH_HLEN };
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	__be16 type_be;

	if ((void *)(eth + 1) > end)
		return a;
	type_be = eth->h_proto;
	/* A constant where there are no VLANs: tagged frames are of no type then that is translated. */
	if (ports.vlans && type_be == bpf_htons(ETH_P_8021Q)) {
		struct vlan_tag *tag = (void *)(eth + 1);

		if ((void *)(tag + 1) > end)
			return a;
		a.vlan_be = tag->tci_be & bpf_htons(VLAN_NUMBER);
		/* A priority and no network, which tc takes off (tc/vlan.h). */
		if (!a.vlan_be)
			return a;
		a.l2 += sizeof(*tag);
		type_be = tag->type_be;
	}
	for (int i = 0; i < DIOLKOS_EXITS && i < (int)ports.ports; i++) {
		const volatile struct diolkos_port *port = &ports.port[i];

		if (port->card != ctx->ingress_ifindex || port->vlan_be != a.vlan_be)
			continue;
		a.ifindex = port->ifindex;
		if (is_to_port(eth, port))
			a.type_be = type_be;
		return a;
	}
	return a;
}

/* Whose index routes name so, or -1. */
static __always_inline int port_of(__u32 ifindex)
{
	for (int i = 0; i < DIOLKOS_EXITS && i < (int)ports.ports; i++) {
		if (ports.port[i].ifindex == ifindex)
			return i;
	}
	return -1;
}

/* A driver transmits, out of a port, a frame that came by a card. in_buffers: it lies in several. */
static __always_inline int is_sendable(int at, __u32 came, int in_buffers)
{
	const volatile struct diolkos_port *port = &ports.port[at & (DIOLKOS_EXITS - 1)];

	if (at < 0)
		return 0;
	/* Out where it came in, the driver does not redirect. */
	if (port->card == came ? !port->turns : port->sends < DIOLKOS_SENDS_FRAMES)
		return 0;
	return port->sends >= DIOLKOS_SENDS_BUFFERS || !in_buffers;
}

/* Of the route: ifindex becomes the card, and h_vlan_TCI the number of the VLAN, or 0. */
static __always_inline void lead_by_card(int at, struct bpf_fib_lookup *route)
{
	const volatile struct diolkos_port *port = &ports.port[at & (DIOLKOS_EXITS - 1)];

	route->ifindex = port->card;
	route->h_vlan_TCI = port->vlan_be;
}

#endif
