/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* write.p4 - the other header (RFC 7915 sections 4.1 and 5.1). Here is the point of no return: nothing declines any more. */
#ifndef DIOLKOS_WRITE_P4
#define DIOLKOS_WRITE_P4

/*
 * hdr.work.checksum of TCP and UDP after `difference` gave `now`. A sum of 0 has two forms. Where nothing changed, the field stays
 * (a checksum-neutral prefix, RFC 6052 section 4.1); for UDP 0 would say that there is none (RFC 768).
 */
control settle_zero(in bit<16> before, in bit<8> is_udp, inout headers_t hdr) {
    apply {
        if (hdr.work.checksum == 0) {
            if (hdr.work.old_port == hdr.work.new_port && (before == 0 || before == 0xffff)) {
                hdr.work.checksum = before;
            } else if (is_udp == 1) {
                hdr.work.checksum = 16w0xffff;
            }
        }
    }
}

control write_6to4(inout headers_t hdr) {
    difference() changed;
    settle_zero() settled;
    fold() folded;
    apply {
        hdr.work.from_sum = WORDS_OF(hdr.work.src_hi) + WORDS_OF(hdr.work.src_lo) + WORDS_OF(hdr.work.dst_hi) + WORDS_OF(hdr.work.dst_lo);
        hdr.work.from_sum = hdr.work.from_sum + (bit<64>)hdr.work.old_port;
        hdr.work.sum = (bit<64>)hdr.work.new_src4 + (bit<64>)hdr.work.new_dst4 + (bit<64>)hdr.work.new_port;
        if (hdr.tcp.isValid()) {
            changed.apply(hdr);
            settled.apply(hdr.tcp.checksum, 0, hdr);
            hdr.tcp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.tcp.sport = hdr.work.new_port;
            }
        } else if (hdr.udp.isValid()) {
            changed.apply(hdr);
            settled.apply(hdr.udp.checksum, 1, hdr);
            hdr.udp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.udp.sport = hdr.work.new_port;
            }
        } else {
            /* ICMPv6 has a pseudo-header, ICMP has none. */
            hdr.work.from_sum = hdr.work.from_sum + (bit<64>)hdr.work.len + 58 + ((bit<64>)hdr.icmp.type << 8);
            hdr.work.sum = (bit<64>)hdr.work.new_port;
            if (hdr.icmp.type == ECHO_REQUEST6) {
                hdr.icmp.type = ECHO_REQUEST4;
                hdr.work.sum = hdr.work.sum + 0x0800;
            } else {
                hdr.icmp.type = ECHO_REPLY4;
            }
            changed.apply(hdr);
            hdr.icmp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.icmp.id = hdr.work.new_port;
            }
        }
        hdr.ipv4.setValid();
        hdr.ipv4.version_ihl = IPV4_WITHOUT_OPTIONS;
        hdr.ipv4.tos = (bit<8>)(hdr.work.tc & hdr.work.tc_mask);
        hdr.ipv4.total_len = (bit<16>)(hdr.work.len + 20);
        hdr.ipv4.id = (bit<16>)hdr.work.ip_id;
        hdr.ipv4.flags_frag = 0;
        if (hdr.work.len + 20 > IPV4_MIN_IPV6_MTU) {
            hdr.ipv4.id = 0;
            hdr.ipv4.flags_frag = DF;
        }
        hdr.ipv4.ttl = hdr.work.hop_limit;
        hdr.ipv4.protocol = hdr.work.proto4;
        hdr.ipv4.src = hdr.work.new_src4;
        hdr.ipv4.dst = hdr.work.new_dst4;
        hdr.work.sum = 64w0x4500 + (bit<64>)(hdr.work.tc & hdr.work.tc_mask);
        hdr.work.sum = hdr.work.sum + (bit<64>)(hdr.work.len + 20);
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.id;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.flags_frag;
        hdr.work.sum = hdr.work.sum + ((bit<64>)hdr.work.hop_limit << 8);
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.work.proto4;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.work.new_src4 + (bit<64>)hdr.work.new_dst4;
        folded.apply(hdr);
        hdr.ipv4.checksum = (bit<16>)hdr.work.sum ^ 16w0xffff;
        hdr.ipv6.setInvalid();
        hdr.ethernet.type = ETHERTYPE_IPV4;
        hdr.ethernet.dst = hdr.work.out_dst;
        hdr.ethernet.src = hdr.work.out_src;
    }
}

control write_4to6(inout headers_t hdr) {
    difference() changed;
    settle_zero() settled;
    apply {
        hdr.work.sum = WORDS_OF(hdr.work.new_src_hi) + WORDS_OF(hdr.work.new_src_lo) + WORDS_OF(hdr.work.new_dst_hi) + WORDS_OF(hdr.work.new_dst_lo);
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.work.new_port;
        hdr.work.from_sum = (bit<64>)hdr.work.src4 + (bit<64>)hdr.work.dst4 + (bit<64>)hdr.work.old_port;
        if (hdr.tcp.isValid()) {
            changed.apply(hdr);
            settled.apply(hdr.tcp.checksum, 0, hdr);
            hdr.tcp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.tcp.dport = hdr.work.new_port;
            }
        } else if (hdr.udp.isValid()) {
            changed.apply(hdr);
            settled.apply(hdr.udp.checksum, 1, hdr);
            hdr.udp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.udp.dport = hdr.work.new_port;
            }
        } else {
            hdr.work.from_sum = (bit<64>)hdr.work.old_port + ((bit<64>)hdr.icmp.type << 8);
            hdr.work.sum = hdr.work.sum + (bit<64>)hdr.work.len + 58;
            if (hdr.icmp.type == ECHO_REQUEST4) {
                hdr.icmp.type = ECHO_REQUEST6;
                hdr.work.sum = hdr.work.sum + 0x8000;
            } else {
                hdr.icmp.type = ECHO_REPLY6;
                hdr.work.sum = hdr.work.sum + 0x8100;
            }
            changed.apply(hdr);
            hdr.icmp.checksum = hdr.work.checksum;
            if (hdr.work.old_port != hdr.work.new_port) {
                hdr.icmp.id = hdr.work.new_port;
            }
        }
        hdr.ipv6.setValid();
        hdr.ipv6.first = 32w0x60000000 | ((hdr.work.tc & hdr.work.tc_mask) << 20);
        hdr.ipv6.payload_len = (bit<16>)hdr.work.len;
        hdr.ipv6.next_header = hdr.work.proto6;
        hdr.ipv6.hop_limit = hdr.work.hop_limit;
        hdr.ipv6.src_hi = hdr.work.new_src_hi;
        hdr.ipv6.src_lo = hdr.work.new_src_lo;
        hdr.ipv6.dst_hi = hdr.work.new_dst_hi;
        hdr.ipv6.dst_lo = hdr.work.new_dst_lo;
        hdr.ipv4.setInvalid();
        hdr.ethernet.type = ETHERTYPE_IPV6;
        hdr.ethernet.dst = hdr.work.out_dst;
        hdr.ethernet.src = hdr.work.out_src;
    }
}

#endif
