/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * check.p4 - can the packet become one of the other family? Nothing is changed; what objects sets hdr.work.fate.
 *
 * The rules are those of bpf/parse.h. What P4 cannot do is declined here: fragments, options, extension headers, ICMP errors
 * (which quote a packet), UDP without a checksum.
 */
#ifndef DIOLKOS_CHECK_P4
#define DIOLKOS_CHECK_P4

/* The transport header behind hdr.work.len bytes. */
control check_transport(inout headers_t hdr) {
    bit<32> header_len;
    apply {
        hdr.work.slot = 0;
        hdr.work.syn_fin_rst = 0;
        if (hdr.tcp.isValid()) {
            header_len = ((bit<32>)hdr.tcp.offset_flags >> 12) << 2;
            if (header_len < 20 || header_len > hdr.work.len) {
                hdr.work.fate = DECLINED_HEADER;
            }
            hdr.work.syn_fin_rst = (bit<8>)hdr.tcp.offset_flags & 7;
            hdr.work.sport6 = hdr.tcp.sport;
            hdr.work.dport6 = hdr.tcp.dport;
            hdr.work.checksum = hdr.tcp.checksum;
        } else if (hdr.udp.isValid()) {
            if (hdr.work.len < 8 || (bit<32>)hdr.udp.len != hdr.work.len) {
                hdr.work.fate = DECLINED_HEADER;
            } else if (hdr.udp.checksum == 0) {
                /* RFC 7915 section 4.5: to compute it, the payload must be seen. Over IPv6 it is illegal (RFC 8200 section 8.1). */
                hdr.work.fate = DECLINED_UDP_ZERO;
            }
            hdr.work.sport6 = hdr.udp.sport;
            hdr.work.dport6 = hdr.udp.dport;
            hdr.work.checksum = hdr.udp.checksum;
        } else if (hdr.icmp.isValid()) {
            if (hdr.work.len < 8) {
                hdr.work.fate = DECLINED_HEADER;
            } else if (hdr.icmp.code != 0) {
                hdr.work.fate = DECLINED_ICMP_TYPE;
            }
            hdr.work.checksum = hdr.icmp.checksum;
        } else {
            hdr.work.fate = DECLINED_PROTOCOL;
        }
        hdr.work.sport4 = hdr.work.sport6;
        hdr.work.dport4 = hdr.work.dport6;
    }
}

control check4(inout headers_t hdr) {
    check_transport() transport;
    sum_ipv4() summed;
    apply {
        hdr.work.is6 = 0;
        hdr.work.len = (bit<32>)hdr.ipv4.total_len - 20;
        hdr.work.hop_limit = hdr.ipv4.ttl - 1;
        hdr.work.tc = (bit<32>)hdr.ipv4.tos;
        hdr.work.df = 0;
        if ((hdr.ipv4.flags_frag & DF) != 0) {
            hdr.work.df = 1;
        }
        hdr.work.src4 = hdr.ipv4.src;
        hdr.work.dst4 = hdr.ipv4.dst;
        hdr.work.proto4 = hdr.ipv4.protocol;
        hdr.work.proto6 = hdr.ipv4.protocol;
        summed.apply(hdr);
        if (hdr.ipv4.version_ihl != IPV4_WITHOUT_OPTIONS) {
            hdr.work.fate = DECLINED_OPTIONS;
        } else if (hdr.ipv4.total_len < 20) {
            hdr.work.fate = DECLINED_LENGTH;
        } else if (hdr.work.sum != 0xffff) {
            hdr.work.fate = DECLINED_CHECKSUM;
        } else if ((hdr.ipv4.flags_frag & MF_AND_OFFSET) != 0) {
            /* The ports of later fragments are in the first one, which P4 cannot keep. */
            hdr.work.fate = DECLINED_FRAGMENT;
        } else if (hdr.ipv4.ttl < 2) {
            hdr.work.fate = DECLINED_HOP_LIMIT;
        } else {
            transport.apply(hdr);
            if (hdr.icmp.isValid()) {
                hdr.work.proto6 = ICMPV6;
                hdr.work.sport4 = 0;
                hdr.work.dport4 = hdr.icmp.id;
                if (hdr.icmp.type != ECHO_REQUEST4 && hdr.icmp.type != ECHO_REPLY4) {
                    hdr.work.fate = DECLINED_ICMP_TYPE;
                }
            }
        }
    }
}

control check6(inout headers_t hdr) {
    check_transport() transport;
    apply {
        hdr.work.is6 = 1;
        hdr.work.len = (bit<32>)hdr.ipv6.payload_len;
        hdr.work.hop_limit = hdr.ipv6.hop_limit - 1;
        hdr.work.tc = (hdr.ipv6.first >> 20) & 0xff;
        hdr.work.src_hi = hdr.ipv6.src_hi;
        hdr.work.src_lo = hdr.ipv6.src_lo;
        hdr.work.dst_hi = hdr.ipv6.dst_hi;
        hdr.work.dst_lo = hdr.ipv6.dst_lo;
        hdr.work.proto6 = hdr.ipv6.next_header;
        hdr.work.proto4 = hdr.ipv6.next_header;
        if ((hdr.ipv6.first >> 28) != 6) {
            hdr.work.fate = DECLINED_HEADER;
        } else if (hdr.ipv6.hop_limit < 2) {
            hdr.work.fate = DECLINED_HOP_LIMIT;
        } else {
            transport.apply(hdr);
            if (hdr.icmp.isValid()) {
                hdr.work.proto4 = ICMP;
                hdr.work.sport6 = hdr.icmp.id;
                hdr.work.dport6 = 0;
                if (hdr.icmp.type != ECHO_REQUEST6 && hdr.icmp.type != ECHO_REPLY6) {
                    hdr.work.fate = DECLINED_ICMP_TYPE;
                } else if (hdr.icmp.type == ECHO_REPLY6 && (hdr.icmp.id | hdr.icmp.seq) == 0) {
                    /*
                     * If all the rest is zeros too, the IPv4 checksum is 0xffff, and by difference it would come out as 0
                     * (RFC 1624 section 3). To know that, every byte has to be looked at.
                     */
                    hdr.work.fate = DECLINED_CHECKSUM;
                }
            }
        }
    }
}

#endif
