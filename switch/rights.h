/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rights.h - capabilities that are given up for good. */
#ifndef RIGHTS_H
#define RIGHTS_H

#include <stdint.h>

/*
 * The calling thread, and whatever it starts from now on, keeps the capabilities of this set (bits of <linux/capability.h>) that it
 * has, and never gets others, by no program that it executes. 0: done.
 */
int rights_keep(uint64_t set);

#endif
