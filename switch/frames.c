/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* frames.c - see frames.h. One thread uses it. */
#include "frames.h"

#include <stdlib.h>

static struct frame *free_frames;

int frames_init(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct frame *f = malloc(sizeof(*f));

		if (!f)
			return -1;
		frame_put(f);
	}
	return 0;
}

struct frame *frame_get(void)
{
	struct frame *f = free_frames;

	if (f) {
		free_frames = f->next;
		f->next = NULL;
	}
	return f;
}

void frame_put(struct frame *f)
{
	f->next = free_frames;
	free_frames = f;
}

void queue_init(struct queue *q)
{
	q->first = NULL;
	q->last = &q->first;
	q->count = 0;
}

void queue_push(struct queue *q, struct frame *f)
{
	f->next = NULL;
	*q->last = f;
	q->last = &f->next;
	q->count++;
}

struct frame *queue_pop(struct queue *q)
{
	struct frame *f = q->first;

	if (!f)
		return NULL;
	q->first = f->next;
	if (!q->first)
		q->last = &q->first;
	q->count--;
	return f;
}
