/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* control.c - see control.h. */
#include "control.h"
#include "port.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSION 0x64703401u
#define RECORD 256u
#define RECORDS_MAX 64u
#define REPLY 64u
#define PAYLOAD 48u
#define NAME 48u
#define READ_MAX 1024u
#define USED_MAX 65536u
#define ARRAY_USED "used"

enum op {
	OP_HELLO = 1,
	OP_INSERT,
	OP_DELETE,
	OP_DEFAULT,
	OP_FLUSH,
	OP_READ,
	OP_USED,
	OP_PORT,
	OP_COUNT
};

static const char *const reasons[] = {
	[STATUS_MALFORMED] = "malformed record",
	[STATUS_ABSENT] = "no such entry",
	[STATUS_NAME] = "no such table, action or array",
	[STATUS_ACTION] = "the action is not for this",
	[STATUS_FULL] = "the table is full",
	[STATUS_RANGE] = "out of range",
	[STATUS_MEMORY] = "out of memory",
	[STATUS_REFUSED] = "refused by the pipeline",
	[STATUS_NOT_TRIED] = "not tried, or rolled back",
};

static int listener = -1, connections[CONTROL_CONNECTIONS] = { -1, -1, -1, -1 };
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static uint64_t boot;
static uint32_t pairs;
static void (*drain)(void);

struct record {
	uint32_t cookie, priority, version;
	uint16_t op, zero;
	const char *table, *action;
	const uint8_t *key, *mask, *data;
};

static uint32_t be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(uint8_t *at, uint32_t value)
{
	for (int i = 3; i >= 0; i--, value >>= 8)
		at[i] = (uint8_t)value;
}

static void put64(uint8_t *at, uint64_t value)
{
	put32(at, (uint32_t)(value >> 32));
	put32(at + 4, (uint32_t)value);
}

/* A name ends with a zero byte, and only zeros follow. */
static int is_name(const uint8_t *at)
{
	size_t length = strnlen((const char *)at, NAME);

	for (size_t i = length; i < NAME; i++) {
		if (at[i])
			return 0;
	}
	return length < NAME;
}

static enum status read_record(const uint8_t *at, struct record *r)
{
	*r = (struct record){
		.version = be32(at),
		.cookie = be32(at + 4),
		.op = (uint16_t)(at[8] << 8 | at[9]),
		.zero = (uint16_t)(at[10] << 8 | at[11]),
		.priority = be32(at + 12),
		.table = (const char *)at + 16,
		.action = (const char *)at + 64,
		.key = at + 112,
		.mask = at + 160,
		.data = at + 208,
	};
	if (r->version != VERSION || r->zero || r->op < OP_HELLO || r->op > OP_COUNT || !is_name(at + 16) ||
	    !is_name(at + 64))
		return STATUS_MALFORMED;
	return STATUS_DONE;
}

static void write_reply(uint8_t *out, const struct record *r, enum status status)
{
	memset(out, 0, REPLY);
	put32(out, VERSION);
	put32(out + 4, r->cookie);
	out[8] = (uint8_t)(r->op >> 8);
	out[9] = (uint8_t)r->op;
	out[11] = (uint8_t)status;
	if (status != STATUS_DONE)
		snprintf((char *)out + 16, PAYLOAD, "%s", reasons[status]);
}

static int is_change(uint16_t op)
{
	return op == OP_INSERT || op == OP_DELETE || op == OP_DEFAULT;
}

/* Bytes of the reply. */
static uint32_t change_all(const struct record *records, uint32_t count, uint8_t *out)
{
	struct change changes[RECORDS_MAX];
	enum status status[RECORDS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		const struct record *r = &records[i];

		changes[i] = (struct change){ .is_insert = r->op == OP_INSERT,
					      .is_default = r->op == OP_DEFAULT,
					      .priority = r->priority,
					      .table = r->table,
					      .action = r->action,
					      .key = r->key,
					      .mask = r->mask,
					      .data = r->data };
	}
	drain();
	program_change(changes, count, status);
	for (uint32_t i = 0; i < count; i++)
		write_reply(out + i * REPLY, &records[i], status[i]);
	return count * REPLY;
}

/* READ and USED. */
static uint32_t read_array(const struct record *r, uint8_t *out)
{
	static uint64_t values[USED_MAX];
	uint32_t size = program_array_size(r->table), first = be32(r->key), count = be32(r->key + 4);
	uint32_t most = r->op == OP_READ ? READ_MAX : USED_MAX;

	if (!size) {
		write_reply(out, r, STATUS_NAME);
		return REPLY;
	}
	if (!count || count > most || first > size || count > size - first || (r->op == OP_USED && count % 8)) {
		write_reply(out, r, STATUS_RANGE);
		return REPLY;
	}
	write_reply(out, r, STATUS_DONE);
	program_array_read(r->table, first, count, r->op == OP_USED, values);
	if (r->op == OP_READ) {
		for (uint32_t i = 0; i < count; i++)
			put64(out + REPLY + 8 * i, values[i]);
		return REPLY + 8 * count;
	}
	memset(out + REPLY, 0, count / 8);
	for (uint32_t i = 0; i < count; i++)
		out[REPLY + i / 8] |= (uint8_t)(!!values[i] << i % 8);
	return REPLY + count / 8;
}

static uint32_t answer(const struct record *r, uint8_t *out)
{
	uint64_t entries = 0, capacity = 0;
	uint32_t at;

	switch (r->op) {
	case OP_HELLO:
		write_reply(out, r, STATUS_DONE);
		put64(out + 16, boot);
		put32(out + 24, pairs);
		put32(out + 28, program_array_size(ARRAY_USED));
		return REPLY;
	case OP_FLUSH:
		drain();
		write_reply(out, r, program_flush(r->table));
		return REPLY;
	case OP_READ:
	case OP_USED:
		return read_array(r, out);
	case OP_PORT:
		at = be32(r->key);
		if (at >= 2 * pairs) {
			write_reply(out, r, STATUS_RANGE);
			return REPLY;
		}
		write_reply(out, r, STATUS_DONE);
		put64(out + 16, ports[at].packets_in);
		put64(out + 24, ports[at].bytes_in);
		put64(out + 32, ports[at].packets_out);
		put64(out + 40, ports[at].bytes_out);
		put64(out + 48, ports[at].dropped);
		put64(out + 56, ports[at].refused);
		return REPLY;
	default: {
		enum status status = program_count(r->table, &entries, &capacity);

		write_reply(out, r, status);
		if (status == STATUS_DONE) {
			put64(out + 16, entries);
			put64(out + 24, capacity);
		}
		return REPLY;
	}
	}
}

static uint32_t serve_datagram(const uint8_t *in, uint32_t length, uint8_t *out)
{
	struct record records[RECORDS_MAX], none = { 0 };
	enum status status[RECORDS_MAX];
	uint32_t count = length / RECORD, changes = 0, malformed = 0;

	if (!length || length % RECORD || count > RECORDS_MAX) {
		write_reply(out, &none, STATUS_MALFORMED);
		return REPLY;
	}
	for (uint32_t i = 0; i < count; i++) {
		status[i] = read_record(in + i * RECORD, &records[i]);
		malformed += status[i] != STATUS_DONE;
		changes += is_change(records[i].op);
	}
	if (!malformed && changes == count)
		return change_all(records, count, out);
	if (!malformed && count == 1)
		return answer(&records[0], out);
	for (uint32_t i = 0; i < count; i++) {
		if (status[i] == STATUS_DONE)
			status[i] = is_change(records[i].op) ? STATUS_NOT_TRIED : STATUS_MALFORMED;
		write_reply(out + i * REPLY, &records[i], status[i]);
	}
	return count * REPLY;
}

/* 0: the connection is over. */
static int serve_connection(int fd)
{
	static uint8_t in[RECORDS_MAX * RECORD + 1], out[REPLY + USED_MAX / 8 + 8 * READ_MAX + REPLY * RECORDS_MAX];
	struct iovec part = { in, sizeof(in) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct pollfd end = { .fd = fd, .events = POLLRDHUP };
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
	uint32_t length;

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	/* An empty datagram looks like the end, which is seen in another way. */
	if (!got && poll(&end, 1, 0))
		return 0;
	length = serve_datagram(in, (uint32_t)got, out);
	return send(fd, out, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

static void take_connections(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		uint32_t i;

		for (i = 0; i < CONTROL_CONNECTIONS && connections[i] >= 0; i++)
			;
		if (i == CONTROL_CONNECTIONS)
			close(fd);
		else
			connections[i] = fd;
	}
}

int control_open(const char *path, uint32_t port_pairs, void (*drained)(void), char *error, uint32_t size)
{
	struct stat there;
	mode_t mask;
	int bound;

	if (!path[0] || strlen(path) >= sizeof(address.sun_path)) {
		snprintf(error, size, "\"%s\": the path of a socket has 1 to %zu bytes", path,
			 sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, path);
	pairs = port_pairs;
	drain = drained;
	if (getrandom(&boot, sizeof(boot), 0) != sizeof(boot)) {
		snprintf(error, size, "no random number: %s", strerror(errno));
		return -1;
	}
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0) {
		snprintf(error, size, "socket: %s", strerror(errno));
		return -1;
	}
	/* What a killed switch left behind refuses connections; that of a running one does not. */
	if (!connect(listener, (struct sockaddr *)&address, sizeof(address))) {
		close(listener);
		listener = -1;
		snprintf(error, size, "%s: another switch serves it", path);
		return -1;
	}
	/* So does everything else that has a name. */
	if (errno == ECONNREFUSED && !lstat(path, &there)) {
		if (!S_ISSOCK(there.st_mode)) {
			close(listener);
			listener = -1;
			snprintf(error, size, "%s: there is something else than a socket, which stays", path);
			return -1;
		}
		unlink(path);
	}
	mask = umask(0177);
	bound = bind(listener, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (bound || listen(listener, CONTROL_CONNECTIONS)) {
		snprintf(error, size, "%s: %s", path, strerror(errno));
		close(listener);
		listener = -1;
		return -1;
	}
	return 0;
}

uint32_t control_polls(struct pollfd *polls)
{
	uint32_t count = 0;

	if (listener >= 0)
		polls[count++] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (uint32_t i = 0; i < CONTROL_CONNECTIONS; i++) {
		if (connections[i] >= 0)
			polls[count++] = (struct pollfd){ .fd = connections[i], .events = POLLIN };
	}
	return count;
}

void control_serve(void)
{
	if (listener < 0)
		return;
	take_connections();
	for (uint32_t i = 0; i < CONTROL_CONNECTIONS; i++) {
		if (connections[i] >= 0 && !serve_connection(connections[i])) {
			close(connections[i]);
			connections[i] = -1;
		}
	}
}

void control_close(void)
{
	if (listener < 0)
		return;
	close(listener);
	unlink(address.sun_path);
	for (uint32_t i = 0; i < CONTROL_CONNECTIONS; i++) {
		if (connections[i] >= 0)
			close(connections[i]);
	}
}
