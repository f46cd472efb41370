/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * decide.h - packet → parse → guards → the translator's word: whether a packet is translated, and what it becomes.
 *
 * The same at every hook. Nothing is touched: who objects leaves the packet as it was.
 */
#ifndef DIOLKOS_DECIDE_H
#define DIOLKOS_DECIDE_H

#include "change.h"
#include "packet.h"
#include "parse.h"

/* What a router's translator says (siit.h, nat64.h): 0 and the change, or why the packet is declined. */
typedef int (*decide_fn)(const struct seen *s, struct change *c);

/* The same of an IPv4 packet, and of an IPv6 packet. s, c: zeros. */
static __always_inline int decide_4to6(const struct packet *p, decide_fn translator, struct seen *s, struct change *c)
{
	int fate = parse_v4(p, s);

	if (!fate)
		fate = guard_4to6(s);
	return fate ? fate : translator(s, c);
}

static __always_inline int decide_6to4(const struct packet *p, decide_fn translator, struct seen *s, struct change *c)
{
	int fate = parse_v6(p, s);

	if (!fate)
		fate = guard_6to4(s);
	return fate ? fate : translator(s, c);
}

#endif
