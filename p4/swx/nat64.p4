/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nat64.p4 - for DPDK's SWX pipeline (PNA, p4c-dpdk): nat64.spec is what the compiler makes of it. */
#include <core.p4>
#include <pna.p4>

#include "../core/constants.p4"
#include "../core/reasons.p4"
#include "../core/headers.p4"
#include "fold.p4"
#include "../core/checksum.p4"
#include "../core/check.p4"
#include "../core/answer.p4"
#include "../core/stateless.p4"
#include "../core/sessions.p4"
#include "../core/hop.p4"
#include "../core/write.p4"
#include "learn.p4"

parser main_parser(packet_in packet, out headers_t hdr, inout meta_t m, in pna_main_parser_input_metadata_t istd) {
#include "../core/parser.p4"
}

control pre(in headers_t hdr, inout meta_t m, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control main_control(inout headers_t hdr, inout meta_t m, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    Counter<bit<64>, bit<32>>(FATES, PNA_CounterType_t.PACKETS) counts;
    Register<bit<32>, bit<32>>(SESSIONS, 0) used;
    /* Without a source of random numbers, the identifications count from 0. */
    Register<bit<32>, bit<32>>(1, 0) ids;
    Register<bit<32>, bit<32>>(1, 0) ports;
#include "../core/main.p4"
    learn() learnt;

#define COUNT(fate)     counts.count(fate);
#define USE_SLOT(slot)  if (slot != 0) { used.write(slot, 1); }
#define NEXT_ID(to)     to = ids.read(0); ids.write(0, to + 1);
#define LEARN           hdr.work.slot = ports.read(0); ports.write(0, hdr.work.slot + 1); learnt.apply(hdr);
#define PACKET_IS_WHOLE true
#define IN_PORT         (bit<32>)istd.input_port
#ifdef MAKE_SPEC
#define SEND(port)      send_to_port((PortId_t)port);
#else
/* p4c takes a constant, or what a table chose. Ports are 0 to 15 (hop.p4). */
#define TO(port, n)     if (port == n) { send_to_port((PortId_t)n); }
#define SEND(port) \
    TO(port, 0) TO(port, 1) TO(port, 2) TO(port, 3) TO(port, 4) TO(port, 5) TO(port, 6) TO(port, 7) \
    TO(port, 8) TO(port, 9) TO(port, 10) TO(port, 11) TO(port, 12) TO(port, 13) TO(port, 14) TO(port, 15)
#endif
    apply {
#include "../core/flow.p4"
        if (hdr.work.fate == DROPPED_COLLISION) {
            drop_packet();
        } else {
            SEND(hdr.work.out_port)
        }
    }
}

control main_deparser(packet_out packet, in headers_t hdr, in meta_t m, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.nd);
    }
}

PNA_NIC(main_parser(), pre(), main_control(), main_deparser()) main;
