/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nat64.p4 - for BMv2's simple_switch (v1model, p4c-bm2-ss). No MODE_LEARN: v1model has no add_on_miss. */
#include <core.p4>
#include <v1model.p4>

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

parser main_parser(packet_in packet, out headers_t hdr, inout meta_t m, inout standard_metadata_t standard) {
#include "../core/parser.p4"
}

/* The checksum of IPv4 is checked in check.p4, with no extern, as on the other target. */
control verify_checksums(inout headers_t hdr, inout meta_t m) {
    apply { }
}

control main_control(inout headers_t hdr, inout meta_t m, inout standard_metadata_t standard) {
    @name(".counts") counter(FATES, CounterType.packets) counts;
    @name(".used") register<bit<32>>(SESSIONS) used;
    @name(".ids") register<bit<32>>(1) ids;
#include "../core/main.p4"

#define COUNT(fate)     counts.count(fate);
#define USE_SLOT(slot)  if (slot != 0) { used.write(slot, 1); }
#define NEXT_ID(to)     ids.read(to, 0); ids.write(0, to + 1);
#define LEARN           hdr.work.fate = DECLINED_OFF;
/* An IP packet is as long as its header says, or has padding of the link, which write.p4 has cut from the lengths. */
#define PACKET_IS_WHOLE (standard.parser_error == error.NoError && (!hdr.ipv4.isValid() || (bit<32>)hdr.ipv4.total_len + 14 <= standard.packet_length) && (!hdr.ipv6.isValid() || (bit<32>)hdr.ipv6.payload_len + 54 <= standard.packet_length))
#define IN_PORT         (bit<32>)standard.ingress_port
    apply {
#include "../core/flow.p4"
        standard.egress_spec = (bit<9>)hdr.work.out_port;
    }
}

control egress(inout headers_t hdr, inout meta_t m, inout standard_metadata_t standard) {
    apply {
        /* Padding of the link, which the packet would carry on behind its new header. What is declined stays as it came. */
        if (hdr.work.fate < FROM_KERNEL) {
            if (hdr.ipv4.isValid()) {
                truncate((bit<32>)hdr.ipv4.total_len + 14);
            } else if (hdr.ipv6.isValid()) {
                truncate((bit<32>)hdr.ipv6.payload_len + 54);
            }
        }
    }
}

control compute_checksums(inout headers_t hdr, inout meta_t m) {
    apply { }
}

control main_deparser(packet_out packet, in headers_t hdr) {
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

V1Switch(main_parser(), verify_checksums(), main_control(), egress(), compute_checksums(), main_deparser()) main;
