/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spec_table.h - tables and learners of a .spec file. */
#ifndef SWITCH_SPEC_TABLE_H
#define SWITCH_SPEC_TABLE_H

#include "spec_lines.h"

int spec_read_table(struct spec_lines *s, struct rte_swx_pipeline *p);
int spec_read_learner(struct spec_lines *s, struct rte_swx_pipeline *p);

#endif
