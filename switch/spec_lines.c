/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spec_lines.c - see spec_lines.h. */
#include "spec_lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int spec_fail(struct spec_lines *s, unsigned line, const char *format, ...)
{
	va_list arguments;

	s->error->line = line ? line : s->line;
	va_start(arguments, format);
	vsnprintf(s->error->reason, sizeof(s->error->reason), format, arguments);
	va_end(arguments);
	return -1;
}

int spec_next(struct spec_lines *s)
{
	while (fgets(s->text, sizeof(s->text), s->file)) {
		char *rest = s->text, *word, *state = NULL;

		if (++s->line > SPEC_LINES_MAX)
			return spec_fail(s, 0, "more than %u lines", SPEC_LINES_MAX);
		if (!strchr(s->text, '\n') && !feof(s->file))
			return spec_fail(s, 0, "longer than %u bytes, or with a zero byte", SPEC_LINE_MAX - 2);
		s->words = 0;
		for (; (word = strtok_r(rest, " \t\r\n", &state)); rest = NULL) {
			if (!strncmp(word, "//", 2) || word[0] == '#' || word[0] == ';')
				break;
			if (s->words == SPEC_WORDS_MAX)
				return spec_fail(s, 0, "more than %u words", SPEC_WORDS_MAX);
			s->word[s->words++] = word;
		}
		if (s->words)
			return 1;
	}
	return ferror(s->file) ? spec_fail(s, 0, "cannot be read: %s", strerror(errno)) : 0;
}

int spec_number(const char *word, uint64_t max, uint64_t *out)
{
	char *end;

	if (word[0] < '0' || word[0] > '9')
		return 0;
	errno = 0;
	*out = strtoull(word, &end, 0);
	return !*end && !errno && *out <= max;
}

int spec_is(const struct spec_lines *s, uint32_t words, ...)
{
	va_list wanted;
	int same = s->words == words;

	va_start(wanted, words);
	for (uint32_t i = 0; i < words; i++) {
		const char *word = va_arg(wanted, const char *);

		same = same && (!word || !strcmp(word, s->word[i]));
	}
	va_end(wanted);
	return same;
}
