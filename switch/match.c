/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* match.c - see match.h. */
#include "match.h"

#include <rte_swx_pipeline.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NONE UINT32_MAX
#define WORDS (MATCH_KEY_MAX / 8)

/* All entries with one mask. */
struct group {
	uint64_t mask[WORDS];
	uint32_t entries;
	uint32_t best; /* lowest priority of one of them, or lower */
};

struct entry {
	uint32_t next;
	uint32_t group;
	uint32_t priority;
	uint32_t used;
	uint64_t action_id;
	uint64_t key[WORDS];
	uint8_t data[];
};

struct match {
	struct match *next;
	char name[RTE_SWX_NAME_SIZE];
	uint32_t key_size, key_offset, words, data_size, entry_size, capacity, count, buckets_mask, free, groups;
	uint64_t key_mask[WORDS]; /* bytes of the key's struct that are part of it */
	uint32_t *buckets;
	uint8_t *entries;
	uint32_t order[MATCH_GROUPS_MAX]; /* groups with entries, best first */
	uint32_t orders;
	struct group group[MATCH_GROUPS_MAX];
};

static struct match *tables;
static uint64_t seed;

static struct entry *entry_at(const struct match *m, uint32_t at)
{
	return (struct entry *)(m->entries + (size_t)at * m->entry_size);
}

/* Keyed, so that who chooses addresses and ports does not choose buckets. */
static uint32_t bucket_of(const struct match *m, const uint64_t *key, uint32_t group)
{
	uint64_t h = seed ^ (group * 0x9e3779b97f4a7c15ULL);

	for (uint32_t i = 0; i < m->words; i++) {
		__uint128_t product = (__uint128_t)(h ^ key[i]) * 0xd6e8feb86659fd93ULL;

		h = (uint64_t)product ^ (uint64_t)(product >> 64) ^ seed;
	}
	h ^= h >> 32;
	return (uint32_t)h & m->buckets_mask;
}

static uint32_t find(const struct match *m, const uint64_t *key, uint32_t group)
{
	for (uint32_t at = m->buckets[bucket_of(m, key, group)]; at != NONE; at = entry_at(m, at)->next) {
		const struct entry *e = entry_at(m, at);

		if (e->group == group && !memcmp(e->key, key, m->words * 8))
			return at;
	}
	return NONE;
}

static void order_groups(struct match *m)
{
	m->orders = 0;
	for (uint32_t g = 0; g < m->groups; g++) {
		uint32_t at;

		if (!m->group[g].entries)
			continue;
		for (at = m->orders++; at && m->group[m->order[at - 1]].best > m->group[g].best; at--)
			m->order[at] = m->order[at - 1];
		m->order[at] = g;
	}
}

static void *create(struct rte_swx_table_params *params, const char *args)
{
	struct match *m;
	uint32_t buckets = 16;

	if (!params->key_size || params->key_size > MATCH_KEY_MAX || !params->n_keys_max ||
	    params->n_keys_max > 1u << 24)
		return NULL;
	if (!seed && (getrandom(&seed, sizeof(seed), 0) != sizeof(seed) || !seed))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	strncpy(m->name, args ? args : "", sizeof(m->name) - 1);
	m->key_size = params->key_size;
	m->key_offset = params->key_offset;
	m->words = (params->key_size + 7) / 8;
	memset(m->key_mask, 0, sizeof(m->key_mask));
	if (params->key_mask0)
		memcpy(m->key_mask, params->key_mask0, params->key_size);
	else
		memset(m->key_mask, 0xff, params->key_size);
	m->data_size = params->action_data_size;
	m->entry_size = (sizeof(struct entry) + m->data_size + 7) & ~7u;
	m->capacity = params->n_keys_max;
	while (buckets < m->capacity)
		buckets *= 2;
	m->buckets_mask = buckets - 1;
	m->buckets = malloc(buckets * sizeof(*m->buckets));
	m->entries = calloc(m->capacity, m->entry_size);
	if (!m->buckets || !m->entries) {
		free(m->buckets);
		free(m->entries);
		free(m);
		return NULL;
	}
	match_clear(m);
	m->next = tables;
	tables = m;
	return m;
}

static void *create_exact(struct rte_swx_table_params *params, struct rte_swx_table_entry_list *entries,
			  const char *args, int numa_node)
{
	struct match *m = create(params, args);

	(void)entries;
	(void)numa_node;
	if (m) {
		m->groups = 1;
		memcpy(m->group[0].mask, m->key_mask, sizeof(m->key_mask));
	}
	return m;
}

static void *create_ternary(struct rte_swx_table_params *params, struct rte_swx_table_entry_list *entries,
			    const char *args, int numa_node)
{
	(void)entries;
	(void)numa_node;
	return create(params, args);
}

static void destroy(void *table)
{
	struct match *m = table, **at;

	if (!m)
		return;
	for (at = &tables; *at && *at != m; at = &(*at)->next)
		;
	if (*at)
		*at = m->next;
	free(m->buckets);
	free(m->entries);
	free(m);
}

static void masked(const struct match *m, const uint8_t *bytes, const uint64_t *mask, uint64_t *out)
{
	uint64_t key[WORDS] = { 0 };

	memcpy(key, bytes, m->key_size);
	for (uint32_t i = 0; i < m->words; i++)
		out[i] = key[i] & mask[i];
}

static int lookup(void *table, void *mailbox, uint8_t **key, uint64_t *action_id, uint8_t **data, size_t *entry_id,
		  int *hit)
{
	struct match *m = table;
	uint32_t best = NONE, best_priority = UINT32_MAX;
	uint64_t bytes[WORDS];

	(void)mailbox;
	for (uint32_t i = 0; i < m->orders; i++) {
		const struct group *g = &m->group[m->order[i]];
		uint32_t at;

		if (best != NONE && g->best >= best_priority)
			break;
		masked(m, *key + m->key_offset, g->mask, bytes);
		at = find(m, bytes, m->order[i]);
		if (at != NONE && (best == NONE || entry_at(m, at)->priority < best_priority)) {
			best = at;
			best_priority = entry_at(m, at)->priority;
		}
	}
	*hit = best != NONE;
	if (*hit) {
		*action_id = entry_at(m, best)->action_id;
		*data = entry_at(m, best)->data;
		*entry_id = best;
	}
	return 1;
}

/* Nothing is kept between the steps of a lookup, but 22.11 calls this one although it may be absent. */
static uint64_t mailbox_size(void)
{
	return 8;
}

struct rte_swx_table_ops match_exact_ops = {
	.mailbox_size_get = mailbox_size, .create = create_exact, .lkp = lookup, .free = destroy
};
struct rte_swx_table_ops match_ternary_ops = {
	.mailbox_size_get = mailbox_size, .create = create_ternary, .lkp = lookup, .free = destroy
};

struct match *match_find(const char *name)
{
	for (struct match *m = tables; m; m = m->next) {
		if (!strcmp(m->name, name))
			return m;
	}
	return NULL;
}

static uint32_t group_of(struct match *m, const struct match_rule *rule, uint64_t *mask)
{
	masked(m, rule->mask, m->key_mask, mask);
	for (uint32_t g = 0; g < m->groups; g++) {
		if (!memcmp(m->group[g].mask, mask, m->words * 8))
			return g;
	}
	return NONE;
}

/* A group with this mask: a new one, or one whose entries are gone. */
static uint32_t group_with(struct match *m, const uint64_t *mask)
{
	uint32_t g;

	for (g = 0; g < m->groups && m->group[g].entries; g++)
		;
	if (g == MATCH_GROUPS_MAX)
		return NONE;
	if (g == m->groups)
		m->groups++;
	memcpy(m->group[g].mask, mask, sizeof(m->group[g].mask));
	m->group[g].best = UINT32_MAX;
	return g;
}

static void rule_of(const struct match *m, const struct entry *e, struct match_rule *rule, uint8_t *data)
{
	memcpy(rule->key, e->key, MATCH_KEY_MAX);
	memcpy(rule->mask, m->group[e->group].mask, MATCH_KEY_MAX);
	rule->priority = e->priority;
	rule->action_id = e->action_id;
	memcpy(data, e->data, m->data_size);
	rule->data = data;
}

enum match_result match_put(struct match *m, const struct match_rule *rule, struct match_rule *old, uint8_t *old_data)
{
	uint64_t mask[WORDS] = { 0 }, key[WORDS] = { 0 };
	uint32_t g = group_of(m, rule, mask), at = NONE;
	enum match_result result = MATCH_REPLACED;
	struct entry *e;

	masked(m, rule->key, mask, key);
	if (g != NONE)
		at = find(m, key, g);
	if (at == NONE) {
		uint32_t *bucket;

		result = MATCH_ADDED;
		if (m->free == NONE)
			return MATCH_FULL;
		if (g == NONE)
			g = group_with(m, mask);
		if (g == NONE)
			return MATCH_FULL;
		at = m->free;
		e = entry_at(m, at);
		m->free = e->next;
		memcpy(e->key, key, sizeof(e->key));
		e->group = g;
		e->used = 1;
		bucket = &m->buckets[bucket_of(m, key, g)];
		e->next = *bucket;
		*bucket = at;
		m->group[g].entries++;
		m->count++;
	} else {
		e = entry_at(m, at);
		rule_of(m, e, old, old_data);
	}
	e->priority = rule->priority;
	e->action_id = rule->action_id;
	memcpy(e->data, rule->data, m->data_size);
	if (rule->priority < m->group[g].best)
		m->group[g].best = rule->priority;
	if (m->orders == 0 || m->groups > 1 || m->group[g].entries == 1)
		order_groups(m);
	return result;
}

enum match_result match_remove(struct match *m, const struct match_rule *rule, struct match_rule *old,
			       uint8_t *old_data)
{
	uint64_t mask[WORDS] = { 0 }, key[WORDS] = { 0 };
	uint32_t g = group_of(m, rule, mask), at, *from;
	struct entry *e;

	if (g == NONE)
		return MATCH_ABSENT;
	masked(m, rule->key, mask, key);
	for (from = &m->buckets[bucket_of(m, key, g)]; (at = *from) != NONE; from = &entry_at(m, at)->next) {
		e = entry_at(m, at);
		if (e->group == g && !memcmp(e->key, key, m->words * 8))
			break;
	}
	if (at == NONE)
		return MATCH_ABSENT;
	rule_of(m, e, old, old_data);
	*from = e->next;
	e->used = 0;
	e->next = m->free;
	m->free = at;
	m->count--;
	if (!--m->group[g].entries)
		order_groups(m);
	return MATCH_REMOVED;
}

void match_clear(struct match *m)
{
	memset(m->buckets, 0xff, (m->buckets_mask + 1) * sizeof(*m->buckets));
	for (uint32_t i = 0; i < m->capacity; i++) {
		entry_at(m, i)->used = 0;
		entry_at(m, i)->next = i + 1 < m->capacity ? i + 1 : NONE;
	}
	m->free = 0;
	m->count = 0;
	for (uint32_t g = 0; g < m->groups; g++)
		m->group[g].entries = 0;
	m->orders = 0;
}

uint32_t match_key_size(const struct match *m)
{
	return m->key_size;
}

uint32_t match_data_size(const struct match *m)
{
	return m->data_size;
}

uint32_t match_count(const struct match *m)
{
	return m->count;
}

uint32_t match_capacity(const struct match *m)
{
	return m->capacity;
}
