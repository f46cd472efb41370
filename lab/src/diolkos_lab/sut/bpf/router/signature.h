/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * signature.h - what a router with known answers reads of the packet generator's signature, the beginning of the payload,
 * in network byte order:
 *
 *   0  sequence, 64 bits
 *   8  stream, 8 bits; PKTGEN_MAGIC, 8 bits; time stamp, 48 bits: ns of CLOCK_MONOTONIC
 *
 * The generator's own words are in lab/pktgen/bpf/abi.h, which is not installed with the lab.
 */
#ifndef ROUTER_SIGNATURE_H
#define ROUTER_SIGNATURE_H

#define PKTGEN_MAGIC 0xd1
#define PKTGEN_STAMP_BITS 48

#endif
