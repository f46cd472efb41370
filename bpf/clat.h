/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* clat.h - what a CLAT decides: seen → change, by its one address and the prefix of the PLAT. */
#ifndef DIOLKOS_CLAT_H
#define DIOLKOS_CLAT_H

#include "abi.h"
#include "addr.h"
#include "change.h"
#include "parse.h"
#include <bpf/bpf_helpers.h>

const volatile struct diolkos_clat clat = {};

/* From this host to the PLAT. */
static __always_inline int to_plat(const struct seen *s, struct change *c)
{
	if (s->src4_be != clat.v4_be || addr_v4_is_special(s->dst4_be, clat.pref64.only_global))
		return DIOLKOS_DECLINE_ADDRESS;
	if (s->dst4_be == clat.v4_be)
		return DIOLKOS_DECLINE_HAIRPIN;
	c->src6 = in6_load(&clat.v6);
	addr_embed(&clat.pref64, s->dst4_be, &c->dst6);
	return 0;
}

/* From the PLAT to this host. The packet is for the CLAT's address. */
static __always_inline int from_plat(const struct seen *s, struct change *c)
{
	if (addr_extract(&clat.pref64, &s->src6, &c->src4_be) || c->src4_be == clat.v4_be ||
	    addr_v4_is_special(c->src4_be, clat.pref64.only_global))
		return DIOLKOS_DECLINE_ADDRESS;
	/* Where the CLAT's own address lies in the prefix, its explicit mapping goes before it (RFC 7757 section 3.3.2). */
	if (in6_equal(&s->src6, &clat.v6))
		return DIOLKOS_DECLINE_HAIRPIN;
	c->dst4_be = clat.v4_be;
	return 0;
}

#endif
