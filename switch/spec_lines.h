/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spec_lines.h - the lines of a .spec file, cut into words. */
#ifndef SWITCH_SPEC_LINES_H
#define SWITCH_SPEC_LINES_H

#include "spec.h"

#include <stdint.h>
#include <stdio.h>

#define SPEC_LINE_MAX 512u
#define SPEC_WORDS_MAX 20u
#define SPEC_LINES_MAX 1000000u

struct spec_lines {
	FILE *file;
	struct spec_error *error;
	unsigned line;
	char text[SPEC_LINE_MAX];
	char *word[SPEC_WORDS_MAX];
	uint32_t words;
};

/* The next line with words; comments (//, #, ;) are none. 1, 0 at the end, -1. */
int spec_next(struct spec_lines *s);

/* Remembers the reason for this line (or `line`, if not 0); -1. */
int spec_fail(struct spec_lines *s, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* 1: the number is read. Decimal or 0x…, at most `max`. */
int spec_number(const char *word, uint64_t max, uint64_t *out);

/* The line has exactly these words, of which NULL is any. */
int spec_is(const struct spec_lines *s, uint32_t words, ...);

#endif
