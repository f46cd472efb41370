/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * answer.p4 - what the switch answers for addresses of its own: ARP, neighbour solicitations, echoes.
 *
 * All else to these addresses goes to the kernel, which has them too.
 */
#ifndef DIOLKOS_ANSWER_P4
#define DIOLKOS_ANSWER_P4

/* ARP (RFC 826) and neighbour solicitations (RFC 4861 section 7.2.4). Whatever their destination MAC is. */
control answer_neighbours(inout headers_t hdr) {
    fold() folded;
    action own(bit<48> mac) {
        hdr.work.own_mac = mac;
        hdr.work.found = 1;
    }
    action not_own() {
        hdr.work.found = 0;
    }
    @name(".own4") table own4 {
        key = { hdr.arp.target: exact; }
        actions = { own; not_own; }
        default_action = not_own();
        size = 1024;
    }
    @name(".own6") table own6 {
        key = { hdr.nd.target_hi: exact; hdr.nd.target_lo: exact; }
        actions = { own; not_own; }
        default_action = not_own();
        size = 1024;
    }
    apply {
        if (hdr.arp.isValid()) {
            hdr.work.fate = DECLINED_ETHERTYPE;
            if (hdr.arp.kind == ARP_REQUEST) {
                own4.apply();
                /* A sender without an address probes (RFC 5227): that it may do so is the kernel's to say. */
                if (hdr.work.found == 1 && hdr.arp.sender != 0) {
                    hdr.work.fate = ANSWERED_ARP;
                    hdr.ethernet.dst = hdr.arp.sender_mac;
                    hdr.ethernet.src = hdr.work.own_mac;
                    hdr.arp.kind = ARP_REPLY;
                    hdr.arp.target_mac = hdr.arp.sender_mac;
                    hdr.arp.sender_mac = hdr.work.own_mac;
                    hdr.work.v4 = hdr.arp.target;
                    hdr.arp.target = hdr.arp.sender;
                    hdr.arp.sender = hdr.work.v4;
                }
            }
        } else if (hdr.nd.isValid()) {
            hdr.work.fate = DECLINED_ICMP_TYPE;
            own6.apply();
            /*
             * RFC 4861 section 7.1.1. With one source link-layer address of Ethernet and nothing behind it; the unspecified
             * source of duplicate address detection has none. The checksum covers headers only here, so it is checked in full.
             */
            hdr.work.sum = WORDS_OF(hdr.ipv6.src_hi) + WORDS_OF(hdr.ipv6.src_lo);
            hdr.work.sum = hdr.work.sum + WORDS_OF(hdr.ipv6.dst_hi) + WORDS_OF(hdr.ipv6.dst_lo);
            hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv6.payload_len + (bit<64>)hdr.ipv6.next_header;
            hdr.work.sum = hdr.work.sum + ((bit<64>)hdr.icmp.type << 8) + (bit<64>)hdr.icmp.code;
            hdr.work.sum = hdr.work.sum + (bit<64>)hdr.icmp.checksum + (bit<64>)hdr.icmp.id + (bit<64>)hdr.icmp.seq;
            hdr.work.sum = hdr.work.sum + WORDS_OF(hdr.nd.target_hi) + WORDS_OF(hdr.nd.target_lo);
            hdr.work.sum = hdr.work.sum + ((bit<64>)hdr.nd.option_type << 8) + (bit<64>)hdr.nd.option_len;
            hdr.work.sum = hdr.work.sum + WORDS_OF((bit<64>)hdr.nd.mac);
            folded.apply(hdr);
            if (hdr.work.found == 1 && hdr.work.sum == 0xffff && hdr.icmp.code == 0 && hdr.ipv6.hop_limit == 255 &&
                hdr.ipv6.payload_len == 32 && hdr.nd.option_type == 1 && hdr.nd.option_len == 1 &&
                (hdr.ipv6.src_hi | hdr.ipv6.src_lo) != 0 && (hdr.ipv6.src_hi >> 56) != 0xff) {
                hdr.work.fate = ANSWERED_NDP;
                hdr.ethernet.dst = hdr.nd.mac;
                hdr.ethernet.src = hdr.work.own_mac;
                hdr.ipv6.first = 32w0x60000000;
                hdr.ipv6.dst_hi = hdr.ipv6.src_hi;
                hdr.ipv6.dst_lo = hdr.ipv6.src_lo;
                hdr.ipv6.src_hi = hdr.nd.target_hi;
                hdr.ipv6.src_lo = hdr.nd.target_lo;
                hdr.icmp.type = NEIGHBOUR_ADVERTISEMENT;
                hdr.icmp.id = 16w0xe000; /* router, solicited, override */
                hdr.icmp.seq = 0;
                hdr.nd.option_type = 2;
                hdr.nd.mac = hdr.work.own_mac;
                hdr.work.sum = WORDS_OF(hdr.ipv6.src_hi) + WORDS_OF(hdr.ipv6.src_lo);
                hdr.work.sum = hdr.work.sum + WORDS_OF(hdr.ipv6.dst_hi) + WORDS_OF(hdr.ipv6.dst_lo);
                hdr.work.sum = hdr.work.sum + 32 + 58 + 0x8800 + 0xe000 + 0x0201;
                hdr.work.sum = hdr.work.sum + WORDS_OF(hdr.nd.target_hi) + WORDS_OF(hdr.nd.target_lo);
                hdr.work.sum = hdr.work.sum + WORDS_OF((bit<64>)hdr.work.own_mac);
                folded.apply(hdr);
                hdr.icmp.checksum = (bit<16>)hdr.work.sum ^ 16w0xffff;
            }
        }
    }
}

/* Echo requests to its own addresses, after check4 or check6. Leaves hdr.work.fate alone where they are none. */
control answer_echo(inout headers_t hdr) {
    difference() changed;
    action yes() {
        hdr.work.found = 1;
    }
    action no() {
        hdr.work.found = 0;
    }
    @name(".echo4") table echo4 {
        key = { hdr.work.dst4: exact; }
        actions = { yes; no; }
        default_action = no();
        size = 1024;
    }
    @name(".echo6") table echo6 {
        key = { hdr.work.dst_hi: exact; hdr.work.dst_lo: exact; }
        actions = { yes; no; }
        default_action = no();
        size = 1024;
    }
    apply {
        if (hdr.icmp.isValid() && hdr.ipv4.isValid()) {
            /* All zeros but the type: the answer's checksum is 0xffff, which a difference does not find. */
            if (hdr.icmp.type == ECHO_REQUEST4 && (hdr.icmp.id | hdr.icmp.seq) != 0) {
                echo4.apply();
                if (hdr.work.found == 1 && hdr.ipv4.src < 32w0xe0000000 && (hdr.ipv4.src >> 24) != 0 && (hdr.ipv4.src >> 24) != 127) {
                    hdr.work.fate = ANSWERED_ECHO4;
                    hdr.ipv4.dst = hdr.work.src4;
                    hdr.ipv4.src = hdr.work.dst4;
                    /* Only the TTL differs in the header's sum. */
                    hdr.work.checksum = hdr.ipv4.checksum;
                    hdr.work.from_sum = (bit<64>)hdr.ipv4.ttl << 8;
                    hdr.work.sum = 64w0x4000;
                    changed.apply(hdr);
                    hdr.ipv4.checksum = hdr.work.checksum;
                    hdr.ipv4.ttl = 64;
                    hdr.work.checksum = hdr.icmp.checksum;
                    hdr.work.from_sum = 64w0x0800;
                    hdr.work.sum = 0;
                    changed.apply(hdr);
                    hdr.icmp.checksum = hdr.work.checksum;
                    hdr.icmp.type = ECHO_REPLY4;
                }
            }
        } else if (hdr.icmp.isValid() && hdr.icmp.type == ECHO_REQUEST6) {
            echo6.apply();
            if (hdr.work.found == 1 && (hdr.ipv6.src_hi | hdr.ipv6.src_lo) != 0 && (hdr.ipv6.src_hi >> 56) != 0xff) {
                hdr.work.fate = ANSWERED_ECHO6;
                hdr.ipv6.dst_hi = hdr.work.src_hi;
                hdr.ipv6.dst_lo = hdr.work.src_lo;
                hdr.ipv6.src_hi = hdr.work.dst_hi;
                hdr.ipv6.src_lo = hdr.work.dst_lo;
                hdr.ipv6.hop_limit = 64;
                hdr.work.from_sum = 64w0x8000;
                hdr.work.sum = 64w0x8100;
                changed.apply(hdr);
                hdr.icmp.checksum = hdr.work.checksum;
                hdr.icmp.type = ECHO_REPLY6;
            }
        }
        if (hdr.work.fate == ANSWERED_ECHO4 || hdr.work.fate == ANSWERED_ECHO6) {
            hdr.work.own_mac = hdr.ethernet.dst;
            hdr.ethernet.dst = hdr.ethernet.src;
            hdr.ethernet.src = hdr.work.own_mac;
        }
    }
}

#endif
