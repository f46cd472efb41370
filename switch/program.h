/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * program.h - the running pipeline: layouts of its tables, and changes to them.
 *
 * Records of the control socket have fields one behind the other, big-endian; SWX keeps metadata in the machine's byte order,
 * headers in the network's, and an action's arguments as each is used. Only this file knows both.
 */
#ifndef SWITCH_PROGRAM_H
#define SWITCH_PROGRAM_H

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>
#include <stdint.h>

enum status {
	STATUS_DONE,
	STATUS_MALFORMED,
	STATUS_ABSENT,
	STATUS_NAME,
	STATUS_ACTION,
	STATUS_FULL,
	STATUS_RANGE,
	STATUS_MEMORY,
	STATUS_REFUSED,
	STATUS_NOT_TRIED,
};

#define PROGRAM_BYTES 48u /* of a key, a mask, and of data in a record */

struct change {
	int is_insert, is_default; /* otherwise: delete */
	uint32_t priority;
	const char *table, *action; /* ended by a zero byte */
	const uint8_t *key, *mask, *data;
};

/* After rte_swx_pipeline_build. 0, or -1. */
int program_init(struct rte_swx_pipeline *p);

/* All of them or none; status[i] of each. No packet may be under way. */
void program_change(const struct change *changes, uint32_t count, enum status *status);

/* Removes the entries of a table ("": of all), whose default action becomes that of the program. */
enum status program_flush(const char *table);
enum status program_count(const char *table, uint64_t *entries, uint64_t *capacity);

/* 0: no such array. */
uint32_t program_array_size(const char *array);
/* Entries that are within the array; clear: they become 0. */
void program_array_read(const char *array, uint32_t first, uint32_t count, int clear, uint64_t *out);

#endif
