/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * packet.h - a packet as every hook has it; what fills it is the hook's (tc/packet.h).
 *
 * Nothing that looks at a packet knows at which hook it is.
 */
#ifndef DIOLKOS_PACKET_H
#define DIOLKOS_PACKET_H

#include <linux/types.h>

/* Bytes of the transport header that are linear where the packet has them: all that is read of one, but for the MSS of a SYN. */
#define L4_READ 20

struct packet {
	void *data, *end;   /* what is linear; until something moves it */
	__u32 l2;           /* bytes of link-layer header in front */
	__u32 len;          /* bytes behind it, whatever fills a short frame included */
	__u32 gso_size;     /* bytes of data in each segment of a super-packet; 0: it is none */
	__u32 ifindex;      /* of the interface where it was received */
	__u8 may_be_padded; /* 1: it comes from a link that fills short frames */
};

#endif
