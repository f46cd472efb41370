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
#include <sys/socket.h>
#include <unistd.h>

static int (*real)(int, unsigned long, ...);
/* To the process that starts the other user's: it has all capabilities, and the program gives them up. */
static int starter = -1;

static int take_device(const char *name)
{
	struct ifreq request = {0};
	const int header = 65535;
	const char *queues = getenv("FASTER_QUEUES");
	int fd;

	if (setgid(65534) || setuid(65534))
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open("/dev/net/tun", O_RDWR);
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
	if (real(fd, TUNSETIFF, &request) < 0 || real(fd, TUNSETPERSIST, 1) < 0 || real(fd, TUNSETVNETHDRSZ, &header) < 0 ||
	    real(fd, TUNSETOWNER, 65534) < 0)
		return -1;
	for (int i = queues ? atoi(queues) : 1; i > 1; i--) {
		if (real(open("/dev/net/tun", O_RDWR), TUNSETIFF, &request) < 0)
			return -1;
	}
	if (getenv("FASTER_LEAVES"))
		close(fd);
	return 0;
}

static void start_others(int orders)
{
	char name[IFNAMSIZ];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	while (recv(orders, name, sizeof(name), 0) == sizeof(name)) {
		if (fork() == 0) {
			int failed = take_device(name);

			if (send(orders, failed ? "-" : "x", 1, 0) == 1 && !failed && !getenv("FASTER_LEAVES"))
				pause();
			_exit(1);
		}
	}
	_exit(0);
}

__attribute__((constructor)) static void begin(void)
{
	int ends[2];

	real = dlsym(RTLD_NEXT, "ioctl");
	if (!getenv("FASTER"))
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	if (fork() == 0) {
		close(ends[0]);
		start_others(ends[1]);
	}
	close(ends[1]);
	starter = ends[0];
}

int ioctl(int fd, unsigned long command, ...)
{
	static int left = -1;
	va_list rest;
	void *argument;

	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (left < 0)
		left = starter < 0 ? 0 : atoi(getenv("FASTER"));
	if ((unsigned int)command == TUNSETOWNER && left > 0) {
		struct ifreq device = {0};
		char byte;

		left--;
		if (real(fd, TUNGETIFF, &device) < 0 || send(starter, device.ifr_name, IFNAMSIZ, 0) != IFNAMSIZ)
			abort();
		if (recv(starter, &byte, 1, 0) != 1 || byte != 'x')
			abort();
	}
	return real(fd, command, argument);
}
