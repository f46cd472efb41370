// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A disk that does not answer: to be preloaded.
 *
 * While the file $HELD exists, fsync(2) of a file does not return.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int fsync(int fd)
{
	static int (*real)(int);
	const char *held = getenv("HELD");

	if (!real)
		real = dlsym(RTLD_NEXT, "fsync");
	while (held && access(held, F_OK) == 0)
		usleep(10000);
	return real(fd);
}
