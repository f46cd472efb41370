/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* control.h - the control socket (p4/PROTOCOL.md). */
#ifndef SWITCH_CONTROL_H
#define SWITCH_CONTROL_H

#include <poll.h>
#include <stdint.h>

#define CONTROL_CONNECTIONS 4u
#define CONTROL_POLLS (CONTROL_CONNECTIONS + 1)

/* drain: called before tables change; afterwards the pipeline has no packet. pairs: pairs of ports. 0, or -1 and a sentence. */
int control_open(const char *path, uint32_t pairs, void (*drain)(void), char *error, uint32_t size);

/* What to wait for; how many. */
uint32_t control_polls(struct pollfd *polls);

/* Takes connections and requests that are there. Returns at once. */
void control_serve(void);

void control_close(void);

#endif
