/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* eal.c - see eal.h. */
#include "eal.h"
#include "rights.h"

#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>

struct start {
	char *memory;
	char cpus[32];
	int error; /* of EAL */
};

static void *start(void *argument)
{
	struct start *of = argument;
	char *arguments[] = { "diolkos-switch", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m",
			      of->memory,       "--lcores",  of->cpus,   "--log-level", "*:error",        NULL };

	if (rights_keep(0))
		of->error = EPERM;
	else if (rte_eal_init((int)(sizeof(arguments) / sizeof(*arguments)) - 1, arguments) < 0)
		of->error = rte_errno ? rte_errno : EINVAL;
	return NULL;
}

/*
 * In a thread of its own, which has no capabilities: so the threads that EAL starts have none, and are bound to the CPU that EAL
 * wants one thread to have. Which one ours has is the operator's affair (taskset).
 */
int eal_start(char *memory)
{
	struct start of = { .memory = memory };
	cpu_set_t ours;
	pthread_t thread;
	int cpu;

	if (sched_getaffinity(0, sizeof(ours), &ours)) {
		rte_errno = errno;
		return -1;
	}
	for (cpu = 0; cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &ours); cpu++)
		;
	snprintf(of.cpus, sizeof(of.cpus), "0@%d", cpu);
	rte_errno = pthread_create(&thread, NULL, start, &of);
	if (!rte_errno)
		rte_errno = pthread_join(thread, NULL);
	if (!rte_errno)
		rte_errno = of.error;
	return rte_errno ? -1 : 0;
}
