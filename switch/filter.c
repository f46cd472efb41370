/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* filter.c - see filter.h. */
#include "filter.h"
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILTER "25716" /* preference of our tc filter */

static int filtered[PORT_PAIRS_MAX];
static int count;

/* Runs `tc`, whose complaints nobody needs. 0: it was content. */
static int tc(char *const arguments[])
{
	pid_t child = fork(), ended;
	int status;

	if (!child) {
		int null = open("/dev/null", O_RDWR);

		/* Ctrl-C is for the switch, which needs `tc` to clear up. */
		setpgid(0, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp("tc", arguments);
		_exit(127);
	}
	if (child < 0)
		return -1;
	do
		ended = waitpid(child, &status, 0);
	while (ended < 0 && errno == EINTR);
	return ended == child && WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

/*
 * AF_PACKET gets a copy. The kernel must not have the frame, too: it would forward and answer what the switch does. Sockets
 * see a frame before the filter drops it.
 */
int filter_add(int index)
{
	char device[IF_NAMESIZE];
	char *clsact[] = { "tc", "qdisc", "add", "dev", device, "clsact", NULL };
	/* A classic BPF program whose one instruction returns TC_ACT_SHOT: the least that kernels have. */
	char *drop[] = { "tc",   "filter",        "replace",  "dev",       device,   "ingress",
			 "pref", FILTER,          "protocol", "all",       "handle", "1",
			 "bpf",  "direct-action", "bytecode", "1,6 0 0 2", NULL };

	if (!if_indextoname((unsigned)index, device))
		return -1;
	tc(clsact); /* it may be there */
	/* First: what `tc` says it failed to add may be there all the same. */
	filtered[count++] = index;
	return tc(drop);
}

void filter_remove_all(void)
{
	while (count) {
		char device[IF_NAMESIZE];
		char *remove[] = { "tc", "filter", "del", "dev", device, "ingress", "pref", FILTER, NULL };

		/* Another name is the same device; another device of that name is not ours. */
		if (if_indextoname((unsigned)filtered[--count], device))
			tc(remove);
	}
}
