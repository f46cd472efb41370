/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* reasons.p4 - every fate of a packet: the index of its counter (PROTOCOL.md has the same list; a test compares). */
#ifndef DIOLKOS_REASONS_P4
#define DIOLKOS_REASONS_P4

#define TRANSLATED_6TO4        32w0
#define TRANSLATED_4TO6        32w1
#define ANSWERED_ARP           32w2
#define ANSWERED_NDP           32w3
#define ANSWERED_ECHO4         32w4
#define ANSWERED_ECHO6         32w5
#define FROM_KERNEL            32w6
#define DECLINED_OFF           32w7
#define DECLINED_NOT_LOCAL     32w8
#define DECLINED_ETHERTYPE     32w9
#define DECLINED_HEADER        32w10
#define DECLINED_CHECKSUM      32w11
#define DECLINED_OPTIONS       32w12
#define DECLINED_FRAGMENT      32w13
#define DECLINED_HOP_LIMIT     32w14
#define DECLINED_PROTOCOL      32w15
#define DECLINED_LENGTH        32w16
#define DECLINED_ICMP_TYPE     32w17
#define DECLINED_UDP_ZERO      32w18
#define DECLINED_TCP_FLAGS     32w19
#define DECLINED_ADDRESS       32w20
#define DECLINED_NO_SESSION    32w21
#define DECLINED_MTU           32w22
#define DECLINED_HOP           32w23
#define LEARNT                 32w24
#define DROPPED_COLLISION      32w25
#define FATES                  32

/* No fate yet; never counted. */
#define UNDECIDED              32w255

#endif
