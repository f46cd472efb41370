/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * link.c - what happens to devices while the switch has them: carrier and MTU are handed on to their shadows, on which the
 * kernel chooses its routes; a device or a shadow that is gone is reported.
 */
#include "port.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LOWER_UP (1u << 16) /* IFF_LOWER_UP: up, and the carrier is there. <net/if.h> does not have it. */

struct look {
	int is_there, has_carrier;
	uint32_t mtu;
};

static void read_answer(const struct nlmsghdr *answer, struct look *seen)
{
	const struct ifinfomsg *link = NLMSG_DATA(answer);
	int left = (int)IFLA_PAYLOAD(answer);

	seen->has_carrier = !!(link->ifi_flags & LOWER_UP);
	for (const struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFLA_MTU && RTA_PAYLOAD(a) >= sizeof(seen->mtu))
			memcpy(&seen->mtu, RTA_DATA(a), sizeof(seen->mtu));
	}
}

/* By index, so that another device of the same name is not taken for this one. 0, or -1: nobody knows. */
static int look_at(int index, struct look *seen)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg link;
	} question = { { sizeof(question), RTM_GETLINK, NLM_F_REQUEST, 1, 0 }, { .ifi_index = index } };
	static _Alignas(struct nlmsghdr) uint8_t answer[1 << 16];
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	/* The kernel answers while it takes the question. */
	const struct timeval patience = { .tv_sec = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;

	*seen = (struct look){ .is_there = 1 };
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, &question, sizeof(question), 0) == sizeof(question))
		got = recv(fd, answer, sizeof(answer), 0);
	close(fd);
	if (got < 0 || !NLMSG_OK(header, (size_t)got))
		return -1;
	if (header->nlmsg_type == RTM_NEWLINK && header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg))) {
		read_answer(header, seen);
		return 0;
	}
	if (header->nlmsg_type != NLMSG_ERROR || header->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		return -1;
	seen->is_there = ((const struct nlmsgerr *)NLMSG_DATA(header))->error != -ENODEV;
	return seen->is_there ? -1 : 0;
}

static void hand_on_mtu(const struct port *device, const struct port *shadow)
{
	struct ifreq request = { 0 };
	int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* It may have another name by now. */
	if (control < 0 || ioctl(shadow->fd, TUNGETIFF, &request) ||
	    (request.ifr_mtu = (int)device->mtu, ioctl(control, SIOCSIFMTU, &request)))
		fprintf(stderr, "diolkos-switch: %s: the MTU of %s, %u, is not for it: %s\n", shadow->name,
			device->name, device->mtu, strerror(errno));
	if (control >= 0)
		close(control);
}

int port_follow(uint32_t at, char *error, uint32_t size)
{
	struct port *device = &ports[at];
	const struct port *shadow = &ports[at + 1];
	struct look seen;

	if (look_at(device->index, &seen))
		return 0;
	if (!seen.is_there) {
		snprintf(error, size, "%s is not there any more", device->name);
		return -1;
	}
	if (seen.has_carrier != device->has_carrier && !ioctl(shadow->fd, TUNSETCARRIER, &seen.has_carrier))
		device->has_carrier = seen.has_carrier;
	if (seen.has_carrier)
		device->said_down = 0;
	if (seen.mtu && seen.mtu != device->mtu) {
		device->mtu = seen.mtu;
		hand_on_mtu(device, shadow);
	}
	return 0;
}
