// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Says of each packet of diolkos-pktgen that arrives at one end of a NAT64 whose it is, and answers it at the far end.
 *
 *     witness far  INTERFACE SESSIONS LIFETIME_S              the IPv4 host: whose external port? answers to it
 *     witness near INTERFACE SESSIONS FIRST_PORT PORTS        the nodes: does an answer reach the node whose it is?
 *
 * A stream's packets carry a number (abi.h of the generator). Stream 0 uses SESSIONS 4-tuples in turn, so its packets with
 * the same number modulo SESSIONS are one session's. Each packet of stream 1 is a session of its own, with a source port of
 * PORTS from FIRST_PORT on; no other stream uses these. Stream 2 is one session. A line on standard input asks for a report of what came since the last
 * one; what is known of sessions stays. The end of standard input ends it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0xd1
#define SIGNATURE 18
#define STREAMS 3
#define AT_ONCE 256
#define FRAME 256
#define NUMBERS (1u << 26)
/* The far end has 256 addresses with 65 536 ports each, the near end 65 536 nodes with 256 ports each from this one on. */
#define LOWEST_PORT 1024
#define PLACES (1u << 24)

struct owner {
	uint32_t whose; /* stream and session, and 1; 0: nobody's */
	uint32_t seen_s;
};

static uint64_t received[STREAMS], twice, damaged, moved, taken, wrong, unsent;
static uint8_t seen[STREAMS][NUMBERS / 8];
static uint64_t *places;     /* of sessions of stream 0: where they are at this end */
static struct owner *owners; /* of places at this end */
static uint64_t sessions, known, place_of_two;
static uint32_t lifetime_s, first_port, ports;
static uint8_t frames[AT_ONCE][FRAME];
static size_t lengths[AT_ONCE];

static uint32_t sum(const void *data, size_t length, uint32_t begun)
{
	const uint8_t *bytes = data;

	for (size_t at = 0; at + 1 < length; at += 2)
		begun += bytes[at] << 8 | bytes[at + 1];
	if (length & 1)
		begun += bytes[length - 1] << 8;
	return begun;
}

static uint16_t folded(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return total;
}

/* The sum over the pseudo-header and what follows. */
static uint16_t of_udp(const void *addresses, size_t length, const struct udphdr *udp)
{
	uint16_t size = ntohs(udp->len);

	if (size > FRAME - ETH_HLEN - sizeof(struct ip6_hdr))
		return 0;
	return folded(sum(udp, size, sum(addresses, length, IPPROTO_UDP + size)));
}

static uint32_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* A packet's stream and number; -1 if it is none of the generator's. */
static int number_of(const uint8_t *payload, size_t length, uint64_t *number)
{
	uint64_t read;

	if (length < SIGNATURE || payload[9] != MAGIC || payload[8] >= STREAMS)
		return -1;
	memcpy(&read, payload, sizeof(read));
	*number = be64toh(read);
	return *number < NUMBERS ? payload[8] : -1;
}

/* Whether it has not come before; counts it. */
static int is_new(int stream, uint64_t number)
{
	uint8_t bit = 1 << (number & 7);

	if (seen[stream][number >> 3] & bit) {
		twice++;
		return 0;
	}
	seen[stream][number >> 3] |= bit;
	received[stream]++;
	return 1;
}

/* A session is at this place, which is its own, and always the same. */
static void is_at(int stream, uint64_t number, uint64_t place, uint64_t index)
{
	uint64_t session = stream == 0 ? number % sessions : number;
	uint32_t whose = ((uint32_t)stream << 30 | (stream == 2 ? 0 : session)) + 1;
	uint32_t now = now_s();
	struct owner *owner = &owners[index];

	if (owner->whose && owner->whose != whose && (!lifetime_s || now - owner->seen_s < lifetime_s))
		taken++;
	*owner = (struct owner){ whose, now };
	if (stream == 1)
		return;
	uint64_t *known_place = stream == 0 ? &places[session] : &place_of_two;
	if (!*known_place)
		known += stream == 0;
	else if (*known_place != place + 1)
		moved++;
	*known_place = place + 1;
}

/* An IPv4 packet; its answer in its place, 1, or 0 for none. */
static int far(uint8_t *frame, size_t length)
{
	struct iphdr *ip = (void *)(frame + ETH_HLEN);
	struct udphdr *udp = (void *)(ip + 1);
	const uint8_t *payload = (void *)(udp + 1);
	uint8_t mac[ETH_ALEN];
	uint64_t number;
	int stream;

	if (length < ETH_HLEN + sizeof(*ip) + sizeof(*udp) || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
		return 0;
	stream = number_of(payload, length - ETH_HLEN - sizeof(*ip) - sizeof(*udp), &number);
	if (stream < 0)
		return 0;
	if (folded(sum(ip, sizeof(*ip), 0)) != 0xffff || of_udp(&ip->saddr, 8, udp) != 0xffff) {
		damaged++;
		return 0;
	}
	if (!is_new(stream, number))
		return 0;
	uint64_t place = (uint64_t)ntohl(ip->saddr) << 16 | ntohs(udp->source);
	is_at(stream, number, place, place & (PLACES - 1));
	memcpy(mac, frame, ETH_ALEN);
	memcpy(frame, frame + ETH_ALEN, ETH_ALEN);
	memcpy(frame + ETH_ALEN, mac, ETH_ALEN);
	uint32_t address = ip->saddr;
	uint16_t port = udp->source;
	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->ttl = 64;
	ip->check = 0;
	ip->check = htons(~folded(sum(ip, sizeof(*ip), 0)));
	/* Addresses and ports change places: the sum stays. */
	udp->source = udp->dest;
	udp->dest = port;
	return 1;
}

/* An IPv6 packet. */
static int near(uint8_t *frame, size_t length)
{
	struct ip6_hdr *ip = (void *)(frame + ETH_HLEN);
	struct udphdr *udp = (void *)(ip + 1);
	uint64_t number;
	int stream;

	if (length < ETH_HLEN + sizeof(*ip) + sizeof(*udp) || ip->ip6_nxt != IPPROTO_UDP)
		return 0;
	stream = number_of((void *)(udp + 1), length - ETH_HLEN - sizeof(*ip) - sizeof(*udp), &number);
	if (stream < 0)
		return 0;
	if (of_udp(&ip->ip6_src, 32, udp) != 0xffff) {
		damaged++;
		return 0;
	}
	if (!is_new(stream, number))
		return 0;
	uint32_t node = ntohl(ip->ip6_dst.s6_addr32[3]) & 0xffff, port = ntohs(udp->dest) - LOWEST_PORT;
	int is_begun = port >= first_port - LOWEST_PORT && port < first_port - LOWEST_PORT + ports;

	if (port > 0xff || is_begun != (stream == 1)) {
		wrong++;
		return 0;
	}
	is_at(stream, number, (uint64_t)node << 8 | port, (uint64_t)node << 8 | port);
	return 0;
}

static void report(int sock)
{
	struct tpacket_stats stats = { 0 };
	socklen_t size = sizeof(stats);

	getsockopt(sock, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
	printf("{\"received\": [%lu, %lu, %lu], \"known\": %lu, \"twice\": %lu, \"damaged\": %lu, \"moved\": %lu, "
	       "\"taken\": %lu, \"wrong\": %lu, \"unsent\": %lu, \"unread\": %u}\n",
	       received[0], received[1], received[2], known, twice, damaged, moved, taken, wrong, unsent,
	       stats.tp_drops);
	fflush(stdout);
	memset(received, 0, sizeof(received));
	memset(seen, 0, sizeof(seen));
	twice = damaged = moved = taken = wrong = unsent = 0;
}

/* Some of the packets that wait; their number. */
static int receive(int sock, int is_far)
{
	struct mmsghdr messages[AT_ONCE] = { 0 };
	struct iovec parts[AT_ONCE];
	int got, answers = 0, sent = 0;

	for (int at = 0; at < AT_ONCE; at++) {
		parts[at] = (struct iovec){ frames[at], FRAME };
		messages[at].msg_hdr = (struct msghdr){ .msg_iov = &parts[at], .msg_iovlen = 1 };
	}
	got = recvmmsg(sock, messages, AT_ONCE, MSG_DONTWAIT, NULL);
	for (int at = 0; at < got; at++) {
		lengths[at] = messages[at].msg_len;
		if ((is_far ? far : near)(frames[at], lengths[at])) {
			parts[answers] = (struct iovec){ frames[at], lengths[at] };
			answers++;
		}
	}
	while (sent < answers) {
		int done = sendmmsg(sock, messages + sent, answers - sent, 0);

		if (done < 0) {
			unsent++;
			done = 1;
		}
		sent += done;
	}
	return got;
}

int main(int count, char **words)
{
	struct sockaddr_ll where = { .sll_family = AF_PACKET };
	int one = 1, room = 512 << 20, is_far = count == 5 && !strcmp(words[1], "far");

	if (!is_far && count != 6)
		return 2;
	sessions = strtoull(words[3], NULL, 10);
	if (is_far) {
		lifetime_s = atoi(words[4]);
	} else {
		first_port = atoi(words[4]);
		ports = atoi(words[5]);
	}
	places = calloc(sessions, sizeof(*places));
	owners = calloc(PLACES, sizeof(*owners));
	where.sll_protocol = htons(is_far ? ETH_P_IP : ETH_P_IPV6);
	where.sll_ifindex = if_nametoindex(words[2]);
	int sock = socket(AF_PACKET, SOCK_RAW, 0);

	if (!places || !owners || sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(sock, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    bind(sock, (void *)&where, sizeof(where))) {
		perror(words[0]);
		return 1;
	}
	printf("{\"ready\": true}\n");
	fflush(stdout);
	for (;;) {
		struct pollfd waits[] = { { .fd = sock, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
		char asked[64];

		if (poll(waits, 2, -1) < 0 && errno != EINTR)
			return 1;
		if (waits[0].revents)
			receive(sock, is_far);
		if (waits[1].revents) {
			if (read(STDIN_FILENO, asked, sizeof(asked)) <= 0)
				return 0;
			/* On a busy machine, hundreds of thousands may wait. Nobody sends now. */
			while (receive(sock, is_far) > 0)
				;
			report(sock);
		}
	}
}
