/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * spec.c - see spec.h.
 *
 *   struct, header, metadata    layouts
 *   regarray, metarray          arrays
 *   action, apply               instructions, which SWX itself reads; a block that it refuses is tried line by line
 *   table, learner              spec_table.c
 */
#include "spec.h"
#include "spec_lines.h"
#include "spec_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 128u
#define HEADERS_MAX 64u
#define INSTRUCTIONS_MAX 4096u
/* SWX keeps where a field begins in 8 bits. What lies behind would be another field, without a word. */
#define STRUCT_BITS_MAX (256u * 8)

static int read_struct(struct spec_lines *s, struct rte_swx_pipeline *p)
{
	struct rte_swx_field_params fields[FIELDS_MAX];
	char name[RTE_SWX_NAME_SIZE];
	uint32_t count = 0, size = 0;
	unsigned line = s->line;
	int got, result = -1;

	if (!spec_is(s, 3, "struct", NULL, "{") || strlen(s->word[1]) >= sizeof(name))
		return spec_fail(s, 0, "expected: struct NAME {");
	strcpy(name, s->word[1]);
	while ((got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		uint64_t bits;
		char *close = strchr(s->word[0], '>');

		if (s->words != 2 || strncmp(s->word[0], "bit<", 4) || !close || close[1]) {
			spec_fail(s, 0, "expected: bit<N> FIELD");
			goto out;
		}
		*close = 0;
		if (!spec_number(s->word[0] + 4, 64, &bits) || !bits || bits % 8) {
			spec_fail(s, 0, "field %s has bit<%s>: this DPDK takes whole bytes, 8 to 64 bits", s->word[1],
				  s->word[0] + 4);
			goto out;
		}
		if (count == FIELDS_MAX) {
			spec_fail(s, 0, "struct %s has more than %u fields", name, FIELDS_MAX);
			goto out;
		}
		size += (uint32_t)bits;
		if (size > STRUCT_BITS_MAX) {
			spec_fail(s, 0, "struct %s has more than %u bytes, of which SWX addresses no more", name,
				  STRUCT_BITS_MAX / 8);
			goto out;
		}
		fields[count].n_bits = (uint32_t)bits;
		fields[count].name = strdup(s->word[1]);
		if (!fields[count].name) {
			spec_fail(s, 0, "out of memory");
			goto out;
		}
		count++;
	}
	if (got <= 0)
		spec_fail(s, got < 0 ? s->error->line : line, "%s",
			  got < 0 ? s->error->reason : "struct without its \"}\"");
	else if (!count)
		spec_fail(s, line, "struct %s is empty", name);
	else if ((got = rte_swx_pipeline_struct_type_register(p, name, fields, count, 0)))
		spec_fail(s, line, "struct %s: %s", name, strerror(-got));
	else
		result = 0;
out:
	while (count)
		free((void *)fields[--count].name);
	return result;
}

/* Names of headers: in `apply` SWX does not say which one it does not know. */
static char headers[HEADERS_MAX][RTE_SWX_NAME_SIZE];
static uint32_t header_count;

static int is_header(const char *operand)
{
	for (uint32_t i = 0; i < header_count; i++) {
		if (!strncmp(operand, "h.", 2) && !strcmp(operand + 2, headers[i]))
			return 1;
	}
	return 0;
}

static int one_line(struct spec_lines *s, struct rte_swx_pipeline *p)
{
	uint64_t size, value;
	int result;

	if (spec_is(s, 4, "header", NULL, "instanceof", NULL)) {
		result = rte_swx_pipeline_packet_header_register(p, s->word[1], s->word[3]);
		if (!result && header_count < HEADERS_MAX && strlen(s->word[1]) < RTE_SWX_NAME_SIZE)
			strcpy(headers[header_count++], s->word[1]);
	} else if (spec_is(s, 3, "metadata", "instanceof", NULL))
		result = rte_swx_pipeline_packet_metadata_register(p, s->word[2]);
	else if (spec_is(s, 6, "regarray", NULL, "size", NULL, "initval", NULL) &&
		 spec_number(s->word[3], 1 << 24, &size) && size && spec_number(s->word[5], UINT64_MAX, &value))
		result = rte_swx_pipeline_regarray_config(p, s->word[1], (uint32_t)size, value);
	else if (spec_is(s, 4, "metarray", NULL, "size", NULL) && spec_number(s->word[3], 1 << 24, &size) && size)
		result = rte_swx_pipeline_metarray_config(p, s->word[1], (uint32_t)size);
	else
		return spec_fail(s, 0, "\"%s\" is not understood here", s->word[0]);
	return result ? spec_fail(s, 0, "%s %s: %s", s->word[0], s->word[1], strerror(-result)) : 0;
}

struct block {
	char *text[INSTRUCTIONS_MAX];
	unsigned line[INSTRUCTIONS_MAX];
	uint32_t count;
};

static void block_free(struct block *b)
{
	while (b->count)
		free(b->text[--b->count]);
	free(b);
}

/* Up to the closing brace. Words of a line are one instruction. */
static int read_block(struct spec_lines *s, struct block *b)
{
	unsigned line = s->line;
	int got;

	while ((got = spec_next(s)) > 0 && !spec_is(s, 1, "}")) {
		char text[SPEC_LINE_MAX] = "";

		for (uint32_t i = 0; i < s->words; i++) {
			strcat(text, i ? " " : "");
			strcat(text, s->word[i]);
		}
		if (b->count == INSTRUCTIONS_MAX)
			return spec_fail(s, 0, "more than %u instructions", INSTRUCTIONS_MAX);
		b->text[b->count] = strdup(text);
		if (!b->text[b->count])
			return spec_fail(s, 0, "out of memory");
		b->line[b->count++] = s->line;
	}
	if (got < 0)
		return -1;
	if (!got)
		return spec_fail(s, line, "block without its \"}\"");
	return b->count ? 0 : spec_fail(s, line, "block without instructions");
}

/*
 * SWX says that a block is wrong, not where. Each instruction is tried in an action of its own; jumps get a label there.
 * Returns the index of the first that is refused, or -1.
 */
static int refused(struct rte_swx_pipeline *p, const struct block *b, const char *args, int is_action)
{
	static unsigned tries;

	for (uint32_t i = 0; i < b->count; i++) {
		char name[RTE_SWX_NAME_SIZE], word[32] = "", label[RTE_SWX_NAME_SIZE] = "", text[SPEC_LINE_MAX],
					      target[SPEC_LINE_MAX];
		const char *lines[3] = { text, "return", NULL };
		const char *behind = strstr(b->text[i], " : ");

		snprintf(text, sizeof(text), "%s", behind ? behind + 3 : b->text[i]);
		if (sscanf(text, "%31s %63s", word, label) < 1)
			return (int)i;
		if (!is_action && (!strcmp(word, "extract") || !strcmp(word, "emit")) && !is_header(label))
			return (int)i;
		if (!strcmp(word, "return") ||
		    (!is_action && (!strcmp(word, "rx") || !strcmp(word, "tx") || !strcmp(word, "extract") ||
				    !strcmp(word, "emit") || !strcmp(word, "table"))))
			continue;
		if (!strncmp(word, "jmp", 3)) {
			snprintf(target, sizeof(target), "%s : return", label);
			lines[1] = target;
		}
		snprintf(name, sizeof(name), "try_%u", tries++);
		if (rte_swx_pipeline_action_config(p, name, args, lines, 2))
			return (int)i;
	}
	return -1;
}

static int read_instructions(struct spec_lines *s, struct rte_swx_pipeline *p, int is_action)
{
	char name[RTE_SWX_NAME_SIZE] = "apply", args[RTE_SWX_NAME_SIZE] = "";
	struct block *b = calloc(1, sizeof(*b));
	unsigned line = s->line;
	int result = -1;

	if (!b)
		return spec_fail(s, 0, "out of memory");
	if (is_action) {
		int none = spec_is(s, 5, "action", NULL, "args", "none", "{");

		if ((!none && !spec_is(s, 6, "action", NULL, "args", "instanceof", NULL, "{")) ||
		    strlen(s->word[1]) >= sizeof(name) || strlen(s->word[4]) >= sizeof(args)) {
			block_free(b);
			return spec_fail(s, 0,
					 "expected: action NAME args none {, or: action NAME args instanceof STRUCT {");
		}
		strcpy(name, s->word[1]);
		if (!none)
			strcpy(args, s->word[4]);
	} else if (!spec_is(s, 2, "apply", "{")) {
		block_free(b);
		return spec_fail(s, 0, "expected: apply {");
	}
	if (!read_block(s, b)) {
		const char **lines = (const char **)b->text;
		const char *type = args[0] ? args : NULL;
		int error = is_action ? rte_swx_pipeline_action_config(p, name, type, lines, b->count)
				      : rte_swx_pipeline_instructions_config(p, lines, b->count);

		result = 0;
		if (error) {
			int at = error == -EINVAL ? refused(p, b, type, is_action) : -1;

			if (at >= 0)
				result =
				    spec_fail(s, b->line[at], "%s: instruction \"%s\" is refused", name, b->text[at]);
			else
				result = spec_fail(s, line, "%s: %s (a name, a label, or its struct)", name,
						   strerror(-error));
		}
	}
	block_free(b);
	return result;
}

int spec_read(struct rte_swx_pipeline *p, const char *path, struct spec_error *error)
{
	struct spec_lines s = { .file = fopen(path, "re"), .error = error };
	int applied = 0, result = 0;

	memset(error, 0, sizeof(*error));
	if (!s.file)
		return spec_fail(&s, 0, "%s", strerror(errno));
	while (!result && (result = spec_next(&s)) > 0) {
		const char *word = s.word[0];

		if (!strcmp(word, "struct"))
			result = read_struct(&s, p);
		else if (!strcmp(word, "action"))
			result = read_instructions(&s, p, 1);
		else if (!strcmp(word, "table"))
			result = spec_read_table(&s, p);
		else if (!strcmp(word, "learner"))
			result = spec_read_learner(&s, p);
		else if (!strcmp(word, "apply")) {
			result = applied ? spec_fail(&s, 0, "a second apply") : read_instructions(&s, p, 0);
			applied = 1;
		} else
			result = one_line(&s, p);
	}
	if (!result && !applied)
		result = spec_fail(&s, 0, "the file ends without apply { … }");
	fclose(s.file);
	return result;
}
