/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* packet.h - a frame of the XDP hook as a packet, for those who do not know the hook. */
#ifndef DIOLKOS_XDP_PACKET_H
#define DIOLKOS_XDP_PACKET_H

#include "../packet.h"
#include "port.h"
#include <bpf/bpf_helpers.h>

static __always_inline __u32 frame_len(struct xdp_md *ctx)
{
	/* A constant: older kernels do not know the helper. */
	if (ports.takes_buffers)
		return bpf_xdp_get_buff_len(ctx);
	return ctx->data_end - ctx->data;
}

/* Of a frame that has arrived. Its headers are in its first buffer, or the guards object. */
static __always_inline struct packet frame(struct xdp_md *ctx, const struct arrival *a)
{
	return (struct packet){
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.l2 = a->l2,
		.len = frame_len(ctx) - a->l2,
		.ifindex = a->ifindex,
		.may_be_padded = 1,
	};
}

static __always_inline int is_in_buffers(struct xdp_md *ctx)
{
	return frame_len(ctx) != ctx->data_end - ctx->data;
}

#endif
