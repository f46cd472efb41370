/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * packet.h - a frame of the XDP hook as a packet, for those who do not know the hook.
 *
 *   frame_type   what a frame carries that is sent to this host and has no VLAN tag
 *   frame        the packet in it
 */
#ifndef DIOLKOS_XDP_PACKET_H
#define DIOLKOS_XDP_PACKET_H

#include "../abi.h"
#include "../packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>

const volatile struct diolkos_ports ports = {};

/* The driver of an interface, or -1. */
static __always_inline int port_of(__u32 ifindex)
{
	for (int i = 0; i < DIOLKOS_EXITS && i < (int)ports.ports; i++) {
		if (ports.port[i].ifindex == ifindex)
			return i;
	}
	return -1;
}

/* The link-layer address is the interface's own. No kernel has looked at it yet. */
static __always_inline int is_to_port(const struct ethhdr *eth, __u32 ifindex)
{
	for (int i = 0; i < DIOLKOS_EXITS && i < (int)ports.ports; i++) {
		const volatile struct diolkos_port *port = &ports.port[i];

		if (port->ifindex != ifindex)
			continue;
		return eth->h_dest[0] == port->address[0] && eth->h_dest[1] == port->address[1] &&
		       eth->h_dest[2] == port->address[2] && eth->h_dest[3] == port->address[3] &&
		       eth->h_dest[4] == port->address[4] && eth->h_dest[5] == port->address[5];
	}
	return 0;
}

/* The EtherType, which is a VLAN's where a frame is in one; 0: the frame is not for this host. */
static __always_inline __be16 frame_type(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return 0;
	return is_to_port(eth, ctx->ingress_ifindex) ? eth->h_proto : 0;
}

static __always_inline __u32 frame_len(struct xdp_md *ctx)
{
	/* A constant: older kernels do not know the helper. */
	if (ports.takes_buffers)
		return bpf_xdp_get_buff_len(ctx);
	return ctx->data_end - ctx->data;
}

/* Of a frame that frame_type has seen. Its headers are in its first buffer, or the guards object. */
static __always_inline struct packet frame(struct xdp_md *ctx)
{
	return (struct packet){
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.l2 = ETH_HLEN,
		.len = frame_len(ctx) - ETH_HLEN,
		.ifindex = ctx->ingress_ifindex,
		.may_be_padded = 1,
	};
}

static __always_inline int is_in_buffers(struct xdp_md *ctx)
{
	return frame_len(ctx) != ctx->data_end - ctx->data;
}

#endif
