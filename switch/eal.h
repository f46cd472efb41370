/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* eal.h - DPDK's environment, without huge pages, devices and files. */
#ifndef EAL_H
#define EAL_H

/* memory: MiB, as a decimal number. 0: done; otherwise rte_errno says why. */
int eal_start(char *memory);

#endif
