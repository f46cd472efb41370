/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* program.c - see program.h. */
#include "program.h"
#include "match.h"

#include <stdlib.h>
#include <string.h>

#define TABLES_MAX 32u
#define ACTIONS_MAX 64u
#define FIELDS_MAX 16u
#define DATA_MAX 256u
#define CHANGES_MAX 64u

struct field {
	uint32_t at, size; /* bytes, in what SWX keeps */
	int network_order;
};

struct action {
	char name[RTE_SWX_CTL_NAME_SIZE];
	struct field arg[FIELDS_MAX];
	uint32_t args, size, wire;
};

struct table {
	char name[RTE_SWX_CTL_NAME_SIZE];
	struct match *match; /* NULL: no key */
	struct field key[FIELDS_MAX];
	uint32_t keys, wire, actions;
	int is_ternary, default_is_const;
	uint32_t action[ACTIONS_MAX];
	int for_entries[ACTIONS_MAX], for_default[ACTIONS_MAX];
	uint64_t first_action; /* the program's default action */
	uint8_t first_data[DATA_MAX];
	uint32_t first_size;
};

static struct rte_swx_pipeline *pipeline;
static struct rte_swx_ctl_pipeline *ctl;
static struct table tables[TABLES_MAX];
static struct action actions[ACTIONS_MAX];
static uint32_t table_count, action_count;
static struct rte_swx_ctl_pipeline_info info;

static int learn_action(uint32_t id)
{
	struct rte_swx_ctl_action_info found;
	struct action *a = &actions[id];

	if (rte_swx_ctl_action_info_get(pipeline, id, &found) || found.n_args > FIELDS_MAX)
		return -1;
	memcpy(a->name, found.name, sizeof(a->name));
	a->args = found.n_args;
	for (uint32_t i = 0; i < a->args; i++) {
		struct rte_swx_ctl_action_arg_info arg;

		if (rte_swx_ctl_action_arg_info_get(pipeline, id, i, &arg) || arg.n_bits % 8 || arg.n_bits > 64)
			return -1;
		a->arg[i] = (struct field){ a->size, arg.n_bits / 8, arg.is_network_byte_order };
		a->size += arg.n_bits / 8;
	}
	a->wire = a->size;
	return a->size <= DATA_MAX ? 0 : -1;
}

static int learn_table(uint32_t id, const struct rte_swx_table_state *state)
{
	struct rte_swx_ctl_table_info found;
	struct table *t = &tables[id];
	uint32_t first = UINT32_MAX;

	if (rte_swx_ctl_table_info_get(pipeline, id, &found) || found.n_match_fields > FIELDS_MAX ||
	    found.n_actions > ACTIONS_MAX)
		return -1;
	memcpy(t->name, found.name, sizeof(t->name));
	t->keys = found.n_match_fields;
	t->actions = found.n_actions;
	t->default_is_const = found.default_action_is_const;
	t->match = t->keys ? match_find(t->name) : NULL;
	if (t->keys && !t->match)
		return -1;
	for (uint32_t i = 0; i < t->keys; i++) {
		struct rte_swx_ctl_table_match_field_info f;

		if (rte_swx_ctl_table_match_field_info_get(pipeline, id, i, &f) || f.n_bits > 64)
			return -1;
		t->key[i] = (struct field){ f.offset / 8, f.n_bits / 8, f.is_header };
		t->wire += f.n_bits / 8;
		t->is_ternary |= f.match_type != RTE_SWX_TABLE_MATCH_EXACT;
		if (f.offset / 8 < first)
			first = f.offset / 8;
	}
	for (uint32_t i = 0; i < t->keys; i++) {
		t->key[i].at -= first;
		if (t->key[i].at + t->key[i].size > match_key_size(t->match))
			return -1;
	}
	for (uint32_t i = 0; i < t->actions; i++) {
		struct rte_swx_ctl_table_action_info a;

		if (rte_swx_ctl_table_action_info_get(pipeline, id, i, &a) || a.action_id >= action_count)
			return -1;
		t->action[i] = a.action_id;
		t->for_entries[i] = a.action_is_for_table_entries;
		t->for_default[i] = a.action_is_for_default_entry;
	}
	if (state->default_action_id >= action_count)
		return -1;
	t->first_action = state->default_action_id;
	t->first_size = actions[t->first_action].size;
	if (t->first_size && state->default_action_data)
		memcpy(t->first_data, state->default_action_data, t->first_size);
	return 0;
}

int program_init(struct rte_swx_pipeline *p)
{
	struct rte_swx_table_state *state;

	pipeline = p;
	ctl = rte_swx_ctl_pipeline_create(p);
	if (!ctl || rte_swx_ctl_pipeline_info_get(p, &info) || rte_swx_pipeline_table_state_get(p, &state))
		return -1;
	if (info.n_tables > TABLES_MAX || info.n_actions > ACTIONS_MAX)
		return -1;
	for (action_count = 0; action_count < info.n_actions; action_count++) {
		if (learn_action(action_count))
			return -1;
	}
	for (table_count = 0; table_count < info.n_tables; table_count++) {
		if (learn_table(table_count, &state[table_count]))
			return -1;
	}
	return 0;
}

static struct table *table_named(const char *name)
{
	for (uint32_t i = 0; i < table_count; i++) {
		if (!strcmp(tables[i].name, name))
			return &tables[i];
	}
	return NULL;
}

/* Index in t->action, or -1. */
static int action_named(const struct table *t, const char *name)
{
	for (uint32_t i = 0; i < t->actions; i++) {
		if (!strcmp(actions[t->action[i]].name, name))
			return (int)i;
	}
	return -1;
}

static int is_zero(const uint8_t *at, uint32_t size)
{
	while (size) {
		if (at[--size])
			return 0;
	}
	return 1;
}

/* Fields of a record to where SWX has them. */
static void place(const struct field *fields, uint32_t count, const uint8_t *wire, uint8_t *out)
{
	for (uint32_t i = 0; i < count; wire += fields[i].size, i++) {
		for (uint32_t b = 0; b < fields[i].size; b++)
			out[fields[i].at + (fields[i].network_order ? b : fields[i].size - 1 - b)] = wire[b];
	}
}

struct step {
	struct table *table;
	struct match_rule rule, old;
	uint8_t data[DATA_MAX], old_data[DATA_MAX];
	enum match_result result;
};

/* What can be known before anything is changed. */
static enum status check(const struct change *c, struct step *s)
{
	const struct action *a = NULL;
	int at = -1;

	s->table = table_named(c->table);
	if (!s->table)
		return STATUS_NAME;
	if (c->is_insert || c->is_default) {
		at = action_named(s->table, c->action);
		if (at < 0)
			return STATUS_NAME;
		if (!(c->is_default ? s->table->for_default[at] && !s->table->default_is_const
				    : s->table->for_entries[at]))
			return STATUS_ACTION;
		a = &actions[s->table->action[at]];
		if (a->wire > PROGRAM_BYTES)
			return STATUS_REFUSED;
		if (!is_zero(c->data + a->wire, PROGRAM_BYTES - a->wire))
			return STATUS_MALFORMED;
		place(a->arg, a->args, c->data, s->data);
		s->rule.action_id = s->table->action[at];
	} else if (c->action[0] || !is_zero(c->data, PROGRAM_BYTES)) {
		return STATUS_MALFORMED;
	}
	s->rule.data = s->data;
	if (c->is_default)
		return is_zero(c->key, PROGRAM_BYTES) && is_zero(c->mask, PROGRAM_BYTES) && !c->priority
			   ? STATUS_DONE
			   : STATUS_MALFORMED;
	if (!s->table->match || s->table->wire > PROGRAM_BYTES)
		return STATUS_REFUSED;
	if (!is_zero(c->key + s->table->wire, PROGRAM_BYTES - s->table->wire) ||
	    !is_zero(c->mask + (s->table->is_ternary ? s->table->wire : 0),
		     PROGRAM_BYTES - (s->table->is_ternary ? s->table->wire : 0)) ||
	    (!s->table->is_ternary && c->priority))
		return STATUS_MALFORMED;
	place(s->table->key, s->table->keys, c->key, s->rule.key);
	if (s->table->is_ternary)
		place(s->table->key, s->table->keys, c->mask, s->rule.mask);
	else
		memset(s->rule.mask, 0xff, sizeof(s->rule.mask));
	s->rule.priority = c->priority;
	return STATUS_DONE;
}

static int set_default(struct table *t, uint64_t action_id, uint8_t *data)
{
	struct rte_swx_table_entry entry = { .action_id = action_id,
					     .action_data = actions[action_id].size ? data : NULL };

	return rte_swx_ctl_pipeline_table_default_entry_add(ctl, t->name, &entry) ||
	       rte_swx_ctl_pipeline_commit(ctl, 1);
}

static void undo(struct step *s)
{
	struct match_rule ignored;
	uint8_t ignored_data[DATA_MAX];

	if (s->result == MATCH_ADDED)
		match_remove(s->table->match, &s->rule, &ignored, ignored_data);
	else if (s->result == MATCH_REPLACED || s->result == MATCH_REMOVED)
		match_put(s->table->match, &s->old, &ignored, ignored_data);
}

void program_change(const struct change *changes, uint32_t count, enum status *status)
{
	static struct step steps[CHANGES_MAX];
	uint32_t i, wrong = count;

	memset(steps, 0, count * sizeof(steps[0]));
	for (i = 0; i < count; i++) {
		status[i] = check(&changes[i], &steps[i]);
		if (status[i] != STATUS_DONE && wrong == count)
			wrong = i;
	}
	for (i = 0; i < count && wrong == count; i++) {
		struct step *s = &steps[i];

		s->result = MATCH_ABSENT;
		if (changes[i].is_default)
			continue;
		s->result = changes[i].is_insert ? match_put(s->table->match, &s->rule, &s->old, s->old_data)
						 : match_remove(s->table->match, &s->rule, &s->old, s->old_data);
		if (s->result == MATCH_FULL)
			status[i] = STATUS_FULL;
		else if (s->result == MATCH_ABSENT)
			status[i] = STATUS_ABSENT;
		if (status[i] == STATUS_DONE)
			continue;
		for (wrong = i; i--;)
			undo(&steps[i]);
		break;
	}
	/* Default actions last: nothing but memory can fail there. */
	for (i = 0; i < count && wrong == count; i++) {
		if (changes[i].is_default && set_default(steps[i].table, steps[i].rule.action_id, steps[i].data))
			status[i] = STATUS_MEMORY;
	}
	for (i = 0; i < count && wrong < count; i++) {
		if (status[i] == STATUS_DONE)
			status[i] = STATUS_NOT_TRIED;
	}
}

enum status program_flush(const char *table)
{
	enum status status = STATUS_DONE;

	if (table[0] && !table_named(table))
		return STATUS_NAME;
	for (uint32_t i = 0; i < table_count; i++) {
		struct table *t = &tables[i];

		if (table[0] && strcmp(t->name, table))
			continue;
		if (t->match)
			match_clear(t->match);
		if (!t->default_is_const && set_default(t, t->first_action, t->first_data))
			status = STATUS_MEMORY;
	}
	return status;
}

enum status program_count(const char *table, uint64_t *entries, uint64_t *capacity)
{
	const struct table *t = table_named(table);

	if (!t)
		return STATUS_NAME;
	*entries = t->match ? match_count(t->match) : 0;
	*capacity = t->match ? match_capacity(t->match) : 0;
	return STATUS_DONE;
}

/* p4c appends "_0" to the name that the program gave an array. */
static const char *array_named(const char *array, uint32_t *size)
{
	static struct rte_swx_ctl_regarray_info found;

	for (uint32_t i = 0; i < info.n_regarrays; i++) {
		size_t length = strlen(array);

		if (rte_swx_ctl_regarray_info_get(pipeline, i, &found) || strncmp(found.name, array, length))
			continue;
		if (!found.name[length] || !strcmp(found.name + length, "_0")) {
			*size = found.size;
			return found.name;
		}
	}
	return NULL;
}

uint32_t program_array_size(const char *array)
{
	uint32_t size = 0;

	return array_named(array, &size) ? size : 0;
}

void program_array_read(const char *array, uint32_t first, uint32_t count, int clear, uint64_t *out)
{
	uint32_t size;
	const char *name = array_named(array, &size);

	for (uint32_t i = 0; i < count; i++) {
		out[i] = 0;
		if (!name || rte_swx_ctl_pipeline_regarray_read(pipeline, name, first + i, &out[i]) || !clear ||
		    !out[i])
			continue;
		rte_swx_ctl_pipeline_regarray_write(pipeline, name, first + i, 0);
	}
}
