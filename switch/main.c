/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * main.c - diolkos-switch: runs a P4 program for DPDK's SWX pipeline on network devices, without huge pages.
 *
 *   command line → EAL → spec → tables → ports → control socket → rights are given up → loop
 *
 * One thread does everything, so that a change of the tables needs no lock: it waits until no packet is under way.
 */
#include "control.h"
#include "eal.h"
#include "filter.h"
#include "frames.h"
#include "match.h"
#include "notify.h"
#include "port.h"
#include "program.h"
#include "rights.h"
#include "spec.h"

#include <errno.h>
#include <getopt.h>
#include <linux/capability.h>
#include <poll.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_version.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INSTRUCTIONS 2048u   /* of the pipeline between two looks at the ports */
#define DRAIN_ROUNDS 100000u /* no program of SPEC_LINES_MAX lines needs that many */
#define FRAMES 1024u
#define IDLE_MS 500

enum {
	FAILED = 1,
	USAGE = 2,
	MISSING = 3
};

static const char usage[] =
    "diolkos-switch --spec FILE --control SOCKET (--port DEVICE=SHADOW … | --frames PAIRS) [--memory MIB] [--spin]\n"
    "\n"
    "Runs a P4 program (.spec of p4c-dpdk) on network devices.\n"
    "  --spec FILE            the program\n"
    "  --control SOCKET       where a controller writes its tables (p4/PROTOCOL.md); mode 0600\n"
    "  --port DEVICE=SHADOW   a device, and a TAP device through which the kernel gets what the program declines\n"
    "  --frames PAIRS         for tests: frames from standard input, results to standard output\n"
    "  --memory MIB           for DPDK (default: 256)\n"
    "  --spin                 never sleep: a CPU of its own\n"
    "  --version              that of DPDK, whose pipeline it is\n";

static struct rte_swx_pipeline *pipeline;
static volatile sig_atomic_t stopped;
static uint32_t pairs;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

/* Every signal that asks for an end: without one, the filters stay, and the devices are deaf. */
static void stop_at_signals(void)
{
	const int numbers[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
	struct sigaction on_stop = { .sa_handler = stop }, before;

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		/* nohup(1) */
		if (numbers[i] == SIGHUP && !sigaction(SIGHUP, NULL, &before) && before.sa_handler == SIG_IGN)
			continue;
		sigaction(numbers[i], &on_stop, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
}

static int fail(int code, const char *format, const char *what, const char *why)
{
	fprintf(stderr, "diolkos-switch: ");
	fprintf(stderr, format, what, why);
	fputc('\n', stderr);
	return code;
}

/* Lets every packet leave the pipeline. */
static void drain(void)
{
	ports_paused = 1;
	for (uint32_t i = 0; ports_in_flight && i < DRAIN_ROUNDS; i++)
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS);
	if (ports_in_flight) {
		fprintf(stderr, "diolkos-switch: the program does not end for a packet\n");
		abort();
	}
	ports_paused = 0;
}

static int start_pipeline(const char *spec)
{
	struct spec_error error;
	uint32_t inputs = 2, i;

	/* SWX takes the number of input ports for a power of two. */
	while (inputs < 2 * pairs)
		inputs *= 2;
	if (rte_swx_pipeline_config(&pipeline, "diolkos", 0))
		return fail(FAILED, "%s%s", "no pipeline", "");
	if (rte_swx_pipeline_port_in_type_register(pipeline, "port", &port_in_ops) ||
	    rte_swx_pipeline_port_out_type_register(pipeline, "port", &port_out_ops) ||
	    rte_swx_pipeline_table_type_register(pipeline, MATCH_EXACT, RTE_SWX_TABLE_MATCH_EXACT, &match_exact_ops) ||
	    rte_swx_pipeline_table_type_register(pipeline, MATCH_TERNARY, RTE_SWX_TABLE_MATCH_WILDCARD,
						 &match_ternary_ops))
		return fail(FAILED, "%s%s", "types of ports and tables are refused", "");
	for (i = 0; i < inputs; i++) {
		if (rte_swx_pipeline_port_in_config(pipeline, i, "port", &ports[i]))
			return fail(FAILED, "%s%s", "an input port is refused", "");
	}
	for (i = 0; i < PORTS; i++) {
		if (rte_swx_pipeline_port_out_config(pipeline, i, "port", &ports[i]))
			return fail(FAILED, "%s%s", "an output port is refused", "");
	}
	if (spec_read(pipeline, spec, &error)) {
		if (error.line)
			fprintf(stderr, "diolkos-switch: %s:%u: %s\n", spec, error.line, error.reason);
		else
			fprintf(stderr, "diolkos-switch: %s: %s\n", spec, error.reason);
		return USAGE;
	}
	if ((i = (uint32_t)-rte_swx_pipeline_build(pipeline)))
		return fail(FAILED, "%s: the program cannot be built: %s", spec, strerror((int)i));
	if (program_init(pipeline))
		return fail(FAILED, "%s: its tables have keys or arguments that this switch does not know%s", spec, "");
	return 0;
}

static int open_port(char *pair)
{
	char *shadow = strchr(pair, '='), error[200];

	if (!shadow || shadow == pair || !shadow[1])
		return fail(USAGE, "--port \"%s\": write DEVICE=SHADOW%s", pair, "");
	if (pairs == PORT_PAIRS_MAX)
		return fail(USAGE, "--port \"%s\": %s", pair, "there are seven at most");
	*shadow++ = 0;
	if (port_open_device(2 * pairs, pair, error, sizeof(error)) ||
	    port_open_shadow(2 * pairs + 1, shadow, pair, error, sizeof(error)))
		return fail(errno == EPERM ? MISSING : FAILED, "%s%s", error, "");
	if (filter_add(ports[2 * pairs].index))
		return fail(MISSING,
			    "%s: tc cannot keep its frames from the kernel (is iproute2 installed, and this root?)%s",
			    pair, "");
	if (port_follow(2 * pairs, error, sizeof(error)))
		return fail(FAILED, "%s%s", error, "");
	pairs++;
	return 0;
}

/* One round: 1 if anything moved. */
static int turn(void)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < 2 * pairs; i++)
		moved += port_fill(i);
	rte_swx_pipeline_run(pipeline, INSTRUCTIONS);
	rte_swx_pipeline_flush(pipeline);
	for (uint32_t i = 0; i < 2 * pairs; i++)
		moved += ports[i].in.count;
	return moved || ports_in_flight;
}

/* Once a second: what has become of the devices. 0, or an exit code: one of them is gone. */
static int follow(void)
{
	static time_t last;
	char error[200];
	struct timespec now;

	for (uint32_t i = 0; i < 2 * pairs; i++) {
		if (ports[i].is_gone)
			return fail(FAILED, "%s is not there any more%s", ports[i].name, "");
	}
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec == last)
		return 0;
	last = now.tv_sec;
	for (uint32_t i = 0; i < pairs; i++) {
		if (port_follow(2 * i, error, sizeof(error)))
			return fail(FAILED, "%s%s", error, "");
	}
	return 0;
}

static int forward(int spin)
{
	uint32_t idle = 0;
	int result = 0;

	for (uint32_t round = 0; !stopped && !result; round++) {
		struct pollfd polls[CONTROL_POLLS + PORTS];
		uint32_t count;

		idle = turn() ? 0 : idle + 1;
		if (round % 16 == 0 || idle) {
			control_serve();
			result = follow();
		}
		if (spin || idle < 64)
			continue;
		count = control_polls(polls);
		for (uint32_t i = 0; i < 2 * pairs; i++)
			polls[count++] = (struct pollfd){ .fd = ports[i].fd, .events = POLLIN };
		poll(polls, count, IDLE_MS);
		idle = 0;
	}
	return result;
}

static int read_all(uint8_t *at, size_t size)
{
	while (size) {
		ssize_t got = read(0, at, size);

		if (got <= 0)
			return -1;
		at += got;
		size -= (size_t)got;
	}
	return 0;
}

static void write_frame(uint32_t port, const uint8_t *data, uint32_t length)
{
	const uint8_t head[8] = {
		(uint8_t)(port >> 8),   (uint8_t)port,  0, 0, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
		(uint8_t)(length >> 8), (uint8_t)length
	};

	fwrite(head, sizeof(head), 1, stdout);
	if (length)
		fwrite(data, length, 1, stdout);
}

/* A frame in, all that becomes of it out, and a record of port 65535 at the end. */
static int one_frame(void)
{
	uint8_t head[8];
	uint32_t port, length;
	struct frame *f = frame_get(), *out;

	if (!f || read_all(head, sizeof(head)))
		return -1;
	port = (uint32_t)head[0] << 8 | head[1];
	length = (uint32_t)head[4] << 24 | (uint32_t)head[5] << 16 | (uint32_t)head[6] << 8 | head[7];
	if (port >= 2 * pairs || length > FRAME_MAX)
		return -1;
	f->offset = FRAME_HEADROOM;
	f->length = length;
	if (read_all(f->data + f->offset, length))
		return -1;
	ports[port].packets_in++;
	ports[port].bytes_in += length;
	if (port % 2 || port_admits(f)) {
		queue_push(&ports[port].in, f);
	} else {
		ports[port].refused++;
		frame_put(f);
	}
	while (ports[port].in.count || ports_in_flight)
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS);
	for (uint32_t i = 0; i < 2 * pairs; i++) {
		while ((out = queue_pop(&ports[i].out))) {
			ports[i].packets_out++;
			ports[i].bytes_out += out->length;
			write_frame(i, out->data + out->offset, out->length);
			frame_put(out);
		}
	}
	write_frame(0xffff, NULL, 0);
	return fflush(stdout);
}

static void serve_frames(void)
{
	while (!stopped) {
		struct pollfd polls[CONTROL_POLLS + 1];
		uint32_t count = control_polls(polls);

		polls[count] = (struct pollfd){ .fd = 0, .events = POLLIN };
		poll(polls, count + 1, IDLE_MS);
		control_serve();
		if ((polls[count].revents & (POLLIN | POLLHUP)) && one_frame())
			return;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "spec", 1, NULL, 's' },   { "control", 1, NULL, 'c' },
						 { "port", 1, NULL, 'p' },   { "frames", 1, NULL, 'f' },
						 { "memory", 1, NULL, 'm' }, { "spin", 0, NULL, 'S' },
						 { "help", 0, NULL, 'h' },   { "version", 0, NULL, 'v' },
						 { NULL, 0, NULL, 0 } };
	const char *spec = NULL, *control = NULL;
	char *memory = "256", *port[PORT_PAIRS_MAX + 1], error[200];
	uint32_t count = 0, frames = 0;
	int option, spin = 0, result;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			spec = optarg;
			break;
		case 'c':
			control = optarg;
			break;
		case 'p':
			if (count <= PORT_PAIRS_MAX)
				port[count++] = optarg;
			break;
		case 'f':
			frames = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'm':
			memory = optarg;
			break;
		case 'S':
			spin = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			printf("diolkos-switch, %s\n", rte_version());
			return 0;
		default:
			return USAGE;
		}
	}
	if (!spec || !control || optind != argc || !!frames == !!count || frames > PORT_PAIRS_MAX) {
		fputs(usage, stderr);
		return USAGE;
	}
	stop_at_signals();
	ports_init();
	if (frames_init(FRAMES))
		return fail(FAILED, "%s%s", "out of memory", "");
	if (eal_start(memory))
		return fail(FAILED, "DPDK does not start with %s MiB: %s", memory, rte_strerror(rte_errno));
	for (uint32_t i = 0; i < frames; i++)
		ports[2 * i].kind = ports[2 * i + 1].kind = PORT_PIPE;
	pairs = frames ? frames : count;
	/* A mistake in the program shows before anything is changed. */
	result = count > PORT_PAIRS_MAX ? fail(USAGE, "%s%s", "seven ports at most", "") : start_pipeline(spec);
	if (!result && count) {
		pairs = 0;
		for (uint32_t i = 0; i < count && !result; i++)
			result = open_port(port[i]);
	}
	if (!result && control_open(control, pairs, drain, error, sizeof(error)))
		result = fail(FAILED, "%s%s", error, "");
	/* What is open stays so. MTUs of shadows follow, and filters are removed, by CAP_NET_ADMIN. */
	if (!result && rights_keep(frames ? 0 : 1ull << CAP_NET_ADMIN))
		result = fail(FAILED, "capabilities cannot be given up: %s%s", strerror(errno), "");
	if (!result) {
		fprintf(stderr, "diolkos-switch: ready\n");
		notify_ready();
		if (frames)
			serve_frames();
		else
			result = forward(spin);
	}
	control_close();
	filter_remove_all();
	return result;
}
