/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* constants.p4 - numbers of the protocols. */
#ifndef DIOLKOS_CONSTANTS_P4
#define DIOLKOS_CONSTANTS_P4

#define ETHERTYPE_IPV4          16w0x0800
#define ETHERTYPE_ARP           16w0x0806
#define ETHERTYPE_IPV6          16w0x86dd
#define IPV4_WITHOUT_OPTIONS    8w0x45
#define TCP                     8w6
#define UDP                     8w17
#define TCP_SYN                 8w2
#define ICMP                    8w1
#define ICMPV6                  8w58
#define ECHO_REPLY4             8w0
#define ECHO_REQUEST4           8w8
#define ECHO_REQUEST6           8w128
#define ECHO_REPLY6             8w129
#define NEIGHBOUR_SOLICITATION  8w135
#define NEIGHBOUR_ADVERTISEMENT 8w136
#define ARP_REQUEST             64w0x0001080006040001 /* Ethernet, IPv4, 6, 4, request */
#define ARP_REPLY               64w0x0001080006040002
#define DF                      16w0x4000
#define MF_AND_OFFSET           16w0x3fff

/* RFC 7915 section 5.1: an IPv4 packet that fits the lowest IPv6 MTU is sent without DF. */
#define IPV4_MIN_IPV6_MTU       32w1260

#define MODE_OFF                8w0
#define MODE_STATELESS          8w1
#define MODE_SESSIONS           8w2
#define MODE_LEARN              8w3
#define MODE_STATELESS_NO_SYN   8w4

/* 2^48 - 1: a multiple of 0xffff above any sum of a few 32-bit words. */
#define SUM_ZERO                64w0xffffffffffff
#define LOW32                   64w0xffffffff

#endif
