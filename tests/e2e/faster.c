// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Lets another user win the race for a new TUN device: to be preloaded.
 *
 * Between the two requests that create a device and that give it an owner, a child process of user 65534 opens a queue
 * of the device (or as many as $FASTER_QUEUES says), changes what it can, and says so. As often as $FASTER says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

static int (*real)(int, unsigned long, ...);

static void open_queue(int parents, const char *name, int done)
{
	struct ifreq request = {0};
	const int header = 65535;
	const char *queues = getenv("FASTER_QUEUES");
	int fd;

	close(parents);
	if (setgid(65534) || setuid(65534))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open("/dev/net/tun", O_RDWR);
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
	if (real(fd, TUNSETIFF, &request) < 0 || real(fd, TUNSETPERSIST, 1) < 0 || real(fd, TUNSETVNETHDRSZ, &header) < 0 ||
	    real(fd, TUNSETOWNER, 65534) < 0)
		_exit(1);
	for (int i = queues ? atoi(queues) : 1; i > 1; i--) {
		if (real(open("/dev/net/tun", O_RDWR), TUNSETIFF, &request) < 0)
			_exit(1);
	}
	if (getenv("FASTER_LEAVES"))
		close(fd);
	if (write(done, "x", 1) == 1 && !getenv("FASTER_LEAVES"))
		pause();
	_exit(1);
}

int ioctl(int fd, unsigned long command, ...)
{
	static int left = -1;
	va_list rest;
	void *argument;

	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (!real)
		real = dlsym(RTLD_NEXT, "ioctl");
	if (left < 0)
		left = atoi(getenv("FASTER"));
	if ((unsigned int)command == TUNSETOWNER && left > 0) {
		struct ifreq device = {0};
		int ends[2];
		char byte;

		left--;
		if (real(fd, TUNGETIFF, &device) < 0 || pipe2(ends, O_CLOEXEC) < 0)
			abort();
		if (fork() == 0)
			open_queue(fd, device.ifr_name, ends[1]);
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			abort();
		close(ends[0]);
	}
	return real(fd, command, argument);
}
