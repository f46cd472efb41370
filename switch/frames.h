/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* frames.h - buffers for frames, and the queue of a port. */
#ifndef SWITCH_FRAMES_H
#define SWITCH_FRAMES_H

#include <stdint.h>

#define FRAME_HEADROOM 256u      /* what headers may grow by */
#define FRAME_MAX (65536u + 64u) /* bytes of a frame */
/*
 * Zeros behind every frame while the program has it, taken away before it is sent. SWX's `extract` does not look at the
 * length: a header behind the end of a frame is zeros, and never what another packet left there.
 */
#define FRAME_PAD 256u

struct frame {
	struct frame *next;
	uint32_t offset, length; /* of the frame in `data`; without padding while the driver has it */
	uint8_t data[FRAME_HEADROOM + FRAME_MAX + FRAME_PAD + 8];
};

int frames_init(uint32_t count);
struct frame *frame_get(void); /* NULL: all are taken */
void frame_put(struct frame *f);

struct queue {
	struct frame *first, **last;
	uint32_t count;
};

void queue_init(struct queue *q);
void queue_push(struct queue *q, struct frame *f);
struct frame *queue_pop(struct queue *q);

#endif
