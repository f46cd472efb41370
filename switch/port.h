/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * port.h - ports of the pipeline: devices (AF_PACKET), their shadows (TAP), and, for tests, frames of a pipe.
 *
 * Port 2n is a device, port 2n + 1 its shadow. A frame is in one place: the queue of a port, the pipeline, or the free list.
 */
#ifndef SWITCH_PORT_H
#define SWITCH_PORT_H

#include "frames.h"

#include <rte_swx_port.h>
#include <stdint.h>

#define PORTS 16u
#define PORT_DROP (PORTS - 1) /* what SWX's `drop` sends to */
#define PORT_PAIRS_MAX 7u
#define PORT_BURST 32u

struct port {
	int kind; /* PORT_NONE … */
	int fd;
	char name[16];
	struct queue in, out;
	uint64_t packets_in, bytes_in, packets_out, bytes_out, dropped, refused;
	int said_refused, said_down;
	/* Of a device: its index, and what its shadow has been told. */
	int index, has_carrier;
	uint32_t mtu;
	int is_gone; /* a shadow that was removed */
};

enum {
	PORT_NONE,
	PORT_DEVICE,
	PORT_SHADOW,
	PORT_PIPE
};

extern struct port ports[PORTS];
extern uint32_t ports_in_flight; /* frames that the pipeline has */
extern int ports_paused;         /* 1: it gets no further ones */

extern struct rte_swx_port_in_ops port_in_ops;
extern struct rte_swx_port_out_ops port_out_ops;

void ports_init(void);

/* 0, or -1 and a sentence in `error`. */
int port_open_device(uint32_t at, const char *device, char *error, uint32_t size);
int port_open_shadow(uint32_t at, const char *shadow, const char *device, char *error, uint32_t size);

/* Tells the shadow of this device what has changed. 0, or -1 and a sentence: the device is gone. */
int port_follow(uint32_t at, char *error, uint32_t size);

/* Frames that wait at the port; how many came. */
uint32_t port_fill(uint32_t at);
/* Sends what the pipeline has put out. */
void port_send(uint32_t at);

/*
 * A frame of a device as the program may see it: padding of the link is cut. 0: it is refused, since the program could not
 * know (shorter than Ethernet, or than its IP header says).
 */
int port_admits(struct frame *f);

#endif
