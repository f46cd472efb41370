/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* port.c - see port.h: what the pipeline calls, and what frames it gets. Devices: device.c. */
#include "port.h"

#include <string.h>

#define ETHERNET 14u
#define IPV4_HEADER 20u
#define IPV6_HEADER 40u

struct port ports[PORTS];
uint32_t ports_in_flight;
int ports_paused;

void ports_init(void)
{
	memset(ports, 0, sizeof(ports));
	for (uint32_t i = 0; i < PORTS; i++) {
		ports[i].fd = -1;
		queue_init(&ports[i].in);
		queue_init(&ports[i].out);
	}
}

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

int port_admits(struct frame *f)
{
	const uint8_t *d = f->data + f->offset;
	uint32_t type, length;

	if (f->length < ETHERNET)
		return 0;
	type = be16(d + 12);
	if (type == 0x0800) {
		if (f->length < ETHERNET + IPV4_HEADER)
			return 0;
		length = be16(d + ETHERNET + 2);
		if (length < IPV4_HEADER)
			return 0;
	} else if (type == 0x86dd) {
		if (f->length < ETHERNET + IPV6_HEADER)
			return 0;
		length = be16(d + ETHERNET + 4) + IPV6_HEADER;
	} else {
		return 1;
	}
	if (f->length < ETHERNET + length)
		return 0;
	f->length = ETHERNET + length;
	return 1;
}

/* What SWX calls. Its argument is the port itself, which is not its own. */

static void *take(void *args)
{
	return args;
}

static void leave(void *port)
{
	(void)port;
}

static int receive(void *port, struct rte_swx_pkt *pkt)
{
	struct port *p = port;
	struct frame *f;

	if (ports_paused || !(f = queue_pop(&p->in)))
		return 0;
	memset(f->data + f->offset + f->length, 0, FRAME_PAD);
	pkt->handle = f;
	pkt->pkt = f->data;
	pkt->offset = f->offset;
	pkt->length = f->length + FRAME_PAD;
	ports_in_flight++;
	return 1;
}

static void in_stats(void *port, struct rte_swx_port_in_stats *stats)
{
	const struct port *p = port;

	*stats = (struct rte_swx_port_in_stats){ .n_pkts = p->packets_in, .n_bytes = p->bytes_in };
}

static void transmit(void *port, struct rte_swx_pkt *pkt)
{
	struct port *p = port;
	struct frame *f = pkt->handle;

	ports_in_flight--;
	/* The program grew or shrank the front; the padding is still behind. */
	if (p->kind == PORT_NONE || pkt->offset > FRAME_HEADROOM + FRAME_MAX || pkt->length < FRAME_PAD + ETHERNET ||
	    pkt->offset + pkt->length > sizeof(f->data)) {
		p->dropped++;
		frame_put(f);
		return;
	}
	f->offset = pkt->offset;
	f->length = pkt->length - FRAME_PAD;
	queue_push(&p->out, f);
	if (p->kind != PORT_PIPE && p->out.count >= PORT_BURST)
		port_send((uint32_t)(p - ports));
}

/* No program of ours clones. */
static void fast_clone(void *port, struct rte_swx_pkt *pkt)
{
	(void)port;
	(void)pkt;
}

static void clone(void *port, struct rte_swx_pkt *pkt, uint32_t truncation_length)
{
	(void)truncation_length;
	fast_clone(port, pkt);
}

static void flush(void *port)
{
	struct port *p = port;

	if (p->kind == PORT_DEVICE || p->kind == PORT_SHADOW)
		port_send((uint32_t)(p - ports));
}

static void out_stats(void *port, struct rte_swx_port_out_stats *stats)
{
	const struct port *p = port;

	*stats = (struct rte_swx_port_out_stats){ .n_pkts = p->packets_out,
						  .n_bytes = p->bytes_out,
						  .n_pkts_drop = p->dropped };
}

struct rte_swx_port_in_ops port_in_ops = { .create = take, .free = leave, .pkt_rx = receive, .stats_read = in_stats };
struct rte_swx_port_out_ops port_out_ops = {
	.create = take,
	.free = leave,
	.pkt_tx = transmit,
	.pkt_fast_clone_tx = fast_clone,
	.pkt_clone_tx = clone,
	.flush = flush,
	.stats_read = out_stats,
};
