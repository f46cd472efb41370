/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * match.h - exact and ternary tables for SWX, which change in place.
 *
 * DPDK's own exact table is looked through in full at every change (rte_swx_ctl keeps its entries in a list), and its
 * wildcard table is built anew. A controller that opens thousands of sessions a second needs neither.
 *
 * An entry is found by its key under its mask. The masks of a ternary table are looked up one after the other, those with
 * the best (lowest) priority first. Exact tables have one mask. No lookup may be under way when an entry changes.
 */
#ifndef SWITCH_MATCH_H
#define SWITCH_MATCH_H

#include <rte_swx_table.h>
#include <stdint.h>

#define MATCH_KEY_MAX 64u
#define MATCH_GROUPS_MAX 512u /* masks of one table */

struct match;

/* Types of tables, as the pipeline names them; DPDK's own have the same match kinds. */
#define MATCH_EXACT "exact_in_place"
#define MATCH_TERNARY "ternary_in_place"

extern struct rte_swx_table_ops match_exact_ops, match_ternary_ops;

/* The table whose creation arguments in the pipeline were this name. NULL: none, or one without a key. */
struct match *match_find(const char *name);

struct match_rule {
	uint8_t key[MATCH_KEY_MAX]; /* as SWX keeps the fields */
	uint8_t mask[MATCH_KEY_MAX];
	uint32_t priority;
	uint64_t action_id;
	const uint8_t *data;
};

enum match_result {
	MATCH_ADDED,
	MATCH_REPLACED,
	MATCH_REMOVED,
	MATCH_FULL,
	MATCH_ABSENT
};

/* Adds or replaces; old: what was there, if MATCH_REPLACED; its data goes to old_data (match_data_size bytes). */
enum match_result match_put(struct match *m, const struct match_rule *rule, struct match_rule *old, uint8_t *old_data);
enum match_result match_remove(struct match *m, const struct match_rule *rule, struct match_rule *old,
			       uint8_t *old_data);
void match_clear(struct match *m);

uint32_t match_key_size(const struct match *m);
uint32_t match_data_size(const struct match *m);
uint32_t match_count(const struct match *m);
uint32_t match_capacity(const struct match *m);

#endif
