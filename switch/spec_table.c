/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spec_table.c - see spec_table.h. Both kinds share key, actions, default action and size; learners have timeouts. */
#include "spec_table.h"
#include "match.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 16u
#define ACTIONS_MAX 32u
#define TIMEOUTS_MAX 16u
#define SIZE_MAX_ENTRIES (1u << 24)

struct parts {
	unsigned line;
	char name[RTE_SWX_NAME_SIZE];
	char *key[KEYS_MAX];
	enum rte_swx_table_match_type match[KEYS_MAX];
	uint32_t keys;
	char *action[ACTIONS_MAX];
	int for_entries[ACTIONS_MAX], for_default[ACTIONS_MAX];
	uint32_t actions;
	char *default_action, *default_args;
	int default_is_const, has_default;
	uint32_t size;
	uint32_t timeout[TIMEOUTS_MAX], timeouts;
	int is_learner;
};

static void parts_free(struct parts *t)
{
	while (t->keys)
		free(t->key[--t->keys]);
	while (t->actions)
		free(t->action[--t->actions]);
	free(t->default_action);
	free(t->default_args);
}

static int read_key(struct spec_lines *s, struct parts *t)
{
	int got;

	while ((got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		enum rte_swx_table_match_type match = RTE_SWX_TABLE_MATCH_EXACT;

		if (s->words != (t->is_learner ? 1u : 2u))
			return spec_fail(s, 0, "expected: FIELD%s", t->is_learner ? "" : " exact|wildcard|lpm");
		if (!t->is_learner) {
			if (!strcmp(s->word[1], "wildcard"))
				match = RTE_SWX_TABLE_MATCH_WILDCARD;
			else if (!strcmp(s->word[1], "lpm"))
				return spec_fail(
				    s, 0, "match kind lpm is not supported; use ternary, with the length as priority");
			else if (strcmp(s->word[1], "exact"))
				return spec_fail(s, 0, "\"%s\" is no match kind", s->word[1]);
		}
		if (t->keys == KEYS_MAX || !(t->key[t->keys] = strdup(s->word[0])))
			return spec_fail(s, 0, "more than %u key fields", KEYS_MAX);
		t->match[t->keys++] = match;
	}
	return got < 0 ? -1 : got ? 0 : spec_fail(s, t->line, "key without its \"}\"");
}

static int read_actions(struct spec_lines *s, struct parts *t)
{
	int got;

	while ((got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		int only_entries = s->words == 2 && !strcmp(s->word[1], "@tableonly");
		int only_default = s->words == 2 && !strcmp(s->word[1], "@defaultonly");

		if (s->words > 2 || (s->words == 2 && !only_entries && !only_default))
			return spec_fail(s, 0, "expected: ACTION [@tableonly | @defaultonly]");
		if (t->actions == ACTIONS_MAX || !(t->action[t->actions] = strdup(s->word[0])))
			return spec_fail(s, 0, "more than %u actions", ACTIONS_MAX);
		t->for_entries[t->actions] = !only_default;
		t->for_default[t->actions++] = !only_entries;
	}
	return got < 0 ? -1 : got ? 0 : spec_fail(s, t->line, "actions without their \"}\"");
}

/* default_action NAME args none | NAME VALUE … [const] */
static int read_default(struct spec_lines *s, struct parts *t)
{
	char text[SPEC_LINE_MAX] = "";
	uint32_t words = s->words;

	if (t->has_default)
		return spec_fail(s, 0, "a second default action");
	if (words < 4 || strcmp(s->word[2], "args"))
		return spec_fail(s, 0, "expected: default_action NAME args none, or NAME VALUE …");
	t->has_default = 1;
	if (!strcmp(s->word[words - 1], "const")) {
		t->default_is_const = 1;
		words--;
	}
	for (uint32_t i = 3; i < words; i++) {
		strcat(text, i > 3 ? " " : "");
		strcat(text, s->word[i]);
	}
	t->default_action = strdup(s->word[1]);
	if (strcmp(text, "none"))
		t->default_args = strdup(text);
	return t->default_action && (t->default_args || !strcmp(text, "none")) ? 0 : spec_fail(s, 0, "out of memory");
}

static int read_timeouts(struct spec_lines *s, struct parts *t)
{
	int got;

	while ((got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		uint64_t seconds;

		if (s->words != 1 || !spec_number(s->word[0], 1 << 24, &seconds) || !seconds)
			return spec_fail(s, 0, "expected: a timeout in seconds");
		if (t->timeouts == TIMEOUTS_MAX)
			return spec_fail(s, 0, "more than %u timeouts", TIMEOUTS_MAX);
		t->timeout[t->timeouts++] = (uint32_t)seconds;
	}
	return got < 0 ? -1 : got ? 0 : spec_fail(s, t->line, "timeout without its \"}\"");
}

static int read_parts(struct spec_lines *s, struct parts *t)
{
	const char *kind = t->is_learner ? "learner" : "table";
	uint64_t size;
	int got, result = 0;

	t->line = s->line;
	if (!spec_is(s, 3, kind, NULL, "{") || strlen(s->word[1]) >= sizeof(t->name))
		return spec_fail(s, 0, "expected: %s NAME {", kind);
	strcpy(t->name, s->word[1]);
	while (!result && (got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		if (spec_is(s, 2, "key", "{"))
			result = read_key(s, t);
		else if (spec_is(s, 2, "actions", "{"))
			result = read_actions(s, t);
		else if (!strcmp(s->word[0], "default_action"))
			result = read_default(s, t);
		else if (spec_is(s, 2, "size", NULL) && spec_number(s->word[1], SIZE_MAX_ENTRIES, &size) && size)
			t->size = (uint32_t)size;
		else if (t->is_learner && spec_is(s, 2, "timeout", "{"))
			result = read_timeouts(s, t);
		else
			result = spec_fail(s, 0, "%s %s: \"%s\" is not understood", kind, t->name, s->word[0]);
	}
	if (result || got < 0)
		return -1;
	if (!got)
		return spec_fail(s, t->line, "%s %s without its \"}\"", kind, t->name);
	if (!t->actions || !t->has_default)
		return spec_fail(s, t->line, "%s %s needs actions and a default_action", kind, t->name);
	/* SWX follows a null pointer where it is another. */
	for (uint32_t i = 0; i < t->actions; i++) {
		if (!strcmp(t->action[i], t->default_action))
			return 0;
	}
	return spec_fail(s, t->line, "%s %s: default action %s is none of its actions", kind, t->name,
			 t->default_action);
}

int spec_read_table(struct spec_lines *s, struct rte_swx_pipeline *p)
{
	struct parts t = { .size = 1024 };
	struct rte_swx_match_field_params fields[KEYS_MAX];
	const char *type = NULL;
	int result = read_parts(s, &t), is_ternary = 0;

	if (!result) {
		struct rte_swx_pipeline_table_params params = {
			.fields = t.keys ? fields : NULL,
			.n_fields = t.keys,
			.action_names = (const char **)t.action,
			.action_is_for_table_entries = t.for_entries,
			.action_is_for_default_entry = t.for_default,
			.n_actions = t.actions,
			.default_action_name = t.default_action,
			.default_action_args = t.default_args,
			.default_action_is_const = t.default_is_const,
		};

		for (uint32_t i = 0; i < t.keys; i++)
			fields[i] = (struct rte_swx_match_field_params){ t.key[i], t.match[i] };
		for (uint32_t i = 0; i < t.keys; i++)
			is_ternary |= t.match[i] != RTE_SWX_TABLE_MATCH_EXACT;
		if (t.keys)
			type = is_ternary ? MATCH_TERNARY : MATCH_EXACT;
		/* The arguments name the table to match.c. */
		result = rte_swx_pipeline_table_config(p, t.name, &params, type, t.keys ? t.name : NULL, t.size);
		if (result)
			result =
			    spec_fail(s, t.line, "table %s: %s (a field, an action, or key fields of several structs)",
				      t.name, strerror(-result));
	}
	parts_free(&t);
	return result;
}

int spec_read_learner(struct spec_lines *s, struct rte_swx_pipeline *p)
{
	struct parts t = { .size = 1024, .is_learner = 1 };
	int result = read_parts(s, &t);

	if (!result && !t.timeouts)
		result = spec_fail(s, t.line, "learner %s has no timeouts", t.name);
	if (!result) {
		struct rte_swx_pipeline_learner_params params = {
			.field_names = (const char **)t.key,
			.n_fields = t.keys,
			.action_names = (const char **)t.action,
			.action_is_for_table_entries = t.for_entries,
			.action_is_for_default_entry = t.for_default,
			.n_actions = t.actions,
			.default_action_name = t.default_action,
			.default_action_args = t.default_args,
			.default_action_is_const = t.default_is_const,
		};

		result = rte_swx_pipeline_learner_config(p, t.name, &params, t.size, t.timeout, t.timeouts);
		if (result)
			result = spec_fail(s, t.line,
					   "learner %s: %s (a field, an action, or key fields of several structs)",
					   t.name, strerror(-result));
	}
	parts_free(&t);
	return result;
}
