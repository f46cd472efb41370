/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * spec.h - a .spec file, as p4c-dpdk writes it, into the configuration calls of rte_swx_pipeline.
 *
 * DPDK's own reader of this release generates C code and has it compiled by headers that distributions do not ship.
 */
#ifndef SWITCH_SPEC_H
#define SWITCH_SPEC_H

#include <rte_swx_pipeline.h>

struct spec_error {
	unsigned line;
	char reason[200];
};

/* Adds all that the file says to the pipeline, whose ports and table types are there. 0, or -1 and where and why. */
int spec_read(struct rte_swx_pipeline *p, const char *path, struct spec_error *error);

#endif
