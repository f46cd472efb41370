/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* device.c - network devices: AF_PACKET sockets, TAP devices, bursts in and out. */
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECEIVE_BUFFER (4 << 20)

static int failed(char *error, uint32_t size, const char *name, const char *what)
{
	snprintf(error, size, "%s: %s: %s", name, what, strerror(errno));
	return -1;
}

static int named(struct ifreq *request, const char *name, char *error, uint32_t size)
{
	memset(request, 0, sizeof(*request));
	if (!name[0] || strlen(name) >= IFNAMSIZ) {
		snprintf(error, size, "\"%s\" is no name of a device: it has 1 to %d characters", name, IFNAMSIZ - 1);
		return -1;
	}
	memcpy(request->ifr_name, name, strlen(name));
	return 0;
}

int port_open_device(uint32_t at, const char *device, char *error, uint32_t size)
{
	struct port *p = &ports[at];
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct packet_mreq all = { .mr_type = PACKET_MR_PROMISC };
	struct ifreq request;
	int on = 1, buffer = RECEIVE_BUFFER;

	if (named(&request, device, error, size))
		return -1;
	/* Protocol 0: nothing arrives before it is bound. */
	p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->fd < 0)
		return failed(error, size, device, "AF_PACKET socket");
	if (ioctl(p->fd, SIOCGIFINDEX, &request))
		return failed(error, size, device, "no such device");
	address.sll_ifindex = all.mr_ifindex = request.ifr_ifindex;
	/* Without the headers of virtio, a checksum that the sender left to its device would be taken for a wrong one. */
	if (setsockopt(p->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)))
		return failed(error, size, device, "options of the AF_PACKET socket");
	setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	if (setsockopt(p->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)))
		return failed(error, size, device, "promiscuous mode");
	if (bind(p->fd, (struct sockaddr *)&address, sizeof(address)))
		return failed(error, size, device, "bind");
	snprintf(p->name, sizeof(p->name), "%s", device);
	p->index = request.ifr_ifindex;
	p->has_carrier = 1;
	p->kind = PORT_DEVICE;
	return 0;
}

int port_open_shadow(uint32_t at, const char *shadow, const char *device, char *error, uint32_t size)
{
	struct port *p = &ports[at];
	struct ifreq tap, link;
	int control, saved, result;

	if (named(&tap, shadow, error, size) || named(&link, device, error, size))
		return -1;
	p->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (p->fd < 0)
		return failed(error, size, shadow, "/dev/net/tun");
	tap.ifr_flags = IFF_TAP | IFF_NO_PI;
	if (ioctl(p->fd, TUNSETIFF, &tap))
		return failed(error, size, shadow, "TAP device");
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (control < 0)
		return failed(error, size, shadow, "socket");
	result = -1;
	/* The kernel answers there for the device: same link-layer address, same MTU. */
	if (ioctl(control, SIOCGIFHWADDR, &link))
		failed(error, size, device, "link-layer address");
	else if (memcpy(&tap.ifr_hwaddr, &link.ifr_hwaddr, sizeof(tap.ifr_hwaddr)), ioctl(control, SIOCSIFHWADDR, &tap))
		failed(error, size, shadow, "link-layer address");
	else if (ioctl(control, SIOCGIFMTU, &link))
		failed(error, size, device, "MTU");
	else if (tap.ifr_mtu = link.ifr_mtu, ioctl(control, SIOCSIFMTU, &tap))
		failed(error, size, shadow, "MTU");
	else if (ioctl(control, SIOCGIFFLAGS, &tap))
		failed(error, size, shadow, "flags");
	else if (tap.ifr_flags |= IFF_UP | IFF_RUNNING, ioctl(control, SIOCSIFFLAGS, &tap))
		failed(error, size, shadow, "cannot be set up");
	else
		result = 0;
	ports[at - 1].mtu = (uint32_t)link.ifr_mtu;
	saved = errno;
	close(control);
	errno = saved;
	if (result)
		return result;
	snprintf(p->name, sizeof(p->name), "%s", shadow);
	p->kind = PORT_SHADOW;
	return 0;
}

static void refuse(struct port *p, struct frame *f, const char *why)
{
	p->refused++;
	if (!p->said_refused) {
		p->said_refused = 1;
		fprintf(stderr, "%s: refuses frames: %s (only the first is reported; see op PORT)\n", p->name, why);
	}
	frame_put(f);
}

static uint16_t sum16(const uint8_t *at, uint32_t length)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	if (i < length)
		sum += (uint32_t)at[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Finishes the checksum that a sender on this machine left to its device. 0: the header makes no sense. */
static int finish_checksum(struct frame *f, uint32_t start, uint32_t at)
{
	uint8_t *d = f->data + f->offset;
	uint16_t sum;

	if (start >= f->length || at + 2 > f->length - start)
		return 0;
	sum = (uint16_t)~sum16(d + start, f->length - start);
	/* RFC 768: a computed 0 is sent as 0xffff; for TCP they are the same number. */
	if (!sum)
		sum = 0xffff;
	d[start + at] = (uint8_t)(sum >> 8);
	d[start + at + 1] = (uint8_t)sum;
	return 1;
}

static int has_vlan_tag(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
			struct tpacket_auxdata aux;

			memcpy(&aux, CMSG_DATA(c), sizeof(aux));
			return !!(aux.tp_status & TP_STATUS_VLAN_VALID);
		}
	}
	return 0;
}

static void accept_frame(struct port *p, struct frame *f, const struct virtio_net_hdr *virtio, struct msghdr *message)
{
	p->packets_in++;
	p->bytes_in += f->length;
	if (message->msg_flags & MSG_TRUNC)
		refuse(p, f, "a frame is longer than the switch takes");
	else if (virtio->gso_type != VIRTIO_NET_HDR_GSO_NONE)
		refuse(p, f,
		       "a super-packet; switch offloads off at its sender and here (ethtool -K … tso off gso off gro "
		       "off)");
	else if (has_vlan_tag(message))
		refuse(p, f, "a VLAN tag");
	else if ((virtio->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) &&
		 !finish_checksum(f, virtio->csum_start, virtio->csum_offset))
		refuse(p, f, "a checksum that is nowhere");
	else if (!port_admits(f))
		refuse(p, f, "shorter than its headers say");
	else
		queue_push(&p->in, f);
}

static uint32_t fill_device(struct port *p)
{
	static struct virtio_net_hdr virtio[PORT_BURST];
	static char control[PORT_BURST][CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	struct mmsghdr messages[PORT_BURST];
	struct iovec parts[PORT_BURST][2];
	struct frame *frames[PORT_BURST];
	uint32_t count = 0;
	int got;

	for (; count < PORT_BURST && (frames[count] = frame_get()); count++) {
		frames[count]->offset = FRAME_HEADROOM;
		parts[count][0] = (struct iovec){ &virtio[count], sizeof(virtio[count]) };
		parts[count][1] = (struct iovec){ frames[count]->data + FRAME_HEADROOM, FRAME_MAX };
		messages[count] = (struct mmsghdr){ .msg_hdr = { .msg_iov = parts[count],
								 .msg_iovlen = 2,
								 .msg_control = control[count],
								 .msg_controllen = sizeof(control[count]) } };
	}
	got = count ? recvmmsg(p->fd, messages, count, MSG_DONTWAIT, NULL) : 0;
	for (uint32_t i = 0; i < count; i++) {
		if (got <= 0 || i >= (uint32_t)got || messages[i].msg_len < sizeof(virtio[i])) {
			frame_put(frames[i]);
			continue;
		}
		frames[i]->length = messages[i].msg_len - (uint32_t)sizeof(virtio[i]);
		accept_frame(p, frames[i], &virtio[i], &messages[i].msg_hdr);
	}
	return got > 0 ? (uint32_t)got : 0;
}

static uint32_t fill_shadow(struct port *p)
{
	uint32_t count;

	for (count = 0; count < PORT_BURST; count++) {
		struct frame *f = frame_get();
		ssize_t got;

		if (!f)
			break;
		f->offset = FRAME_HEADROOM;
		got = read(p->fd, f->data + FRAME_HEADROOM, FRAME_MAX);
		if (got <= 0) {
			p->is_gone |= got < 0 && errno == EBADFD;
			frame_put(f);
			break;
		}
		f->length = (uint32_t)got;
		p->packets_in++;
		p->bytes_in += f->length;
		queue_push(&p->in, f);
	}
	return count;
}

uint32_t port_fill(uint32_t at)
{
	struct port *p = &ports[at];

	if (p->in.count >= PORT_BURST)
		return 0;
	return p->kind == PORT_DEVICE ? fill_device(p) : p->kind == PORT_SHADOW ? fill_shadow(p) : 0;
}

static void sent(struct port *p, struct frame *f, int done)
{
	if (done) {
		p->packets_out++;
		p->bytes_out += f->length;
	} else {
		p->dropped++;
	}
	frame_put(f);
}

static void say_if_down(struct port *p, int why)
{
	if (p->said_down || (p->has_carrier && why != ENETDOWN))
		return;
	p->said_down = 1;
	fprintf(stderr, "diolkos-switch: %s is down: frames for it are lost\n", p->name);
}

static void send_device(struct port *p)
{
	static const struct virtio_net_hdr virtio; /* zeros: a whole packet */
	struct mmsghdr messages[PORT_BURST];
	struct iovec parts[PORT_BURST][2];
	struct frame *frames[PORT_BURST];
	uint32_t count = 0, done = 0;

	for (; count < PORT_BURST && (frames[count] = queue_pop(&p->out)); count++) {
		parts[count][0] = (struct iovec){ (void *)&virtio, sizeof(virtio) };
		parts[count][1] = (struct iovec){ frames[count]->data + frames[count]->offset, frames[count]->length };
		messages[count] = (struct mmsghdr){ .msg_hdr = { .msg_iov = parts[count], .msg_iovlen = 2 } };
	}
	while (done < count) {
		int got = sendmmsg(p->fd, messages + done, count - done, MSG_DONTWAIT);

		if (got > 0) {
			for (int i = 0; i < got; i++)
				sent(p, frames[done++], 1);
		} else {
			/* The first is too long, the device is down or its queue is full: the next ones have their own chance. */
			say_if_down(p, errno);
			sent(p, frames[done++], 0);
		}
	}
}

static void send_shadow(struct port *p)
{
	struct frame *f;

	while ((f = queue_pop(&p->out)))
		sent(p, f, write(p->fd, f->data + f->offset, f->length) == (ssize_t)f->length);
}

void port_send(uint32_t at)
{
	struct port *p = &ports[at];

	while (p->out.count && p->kind == PORT_DEVICE)
		send_device(p);
	if (p->kind == PORT_SHADOW)
		send_shadow(p);
}
