/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * parser.p4 - the states of the parser, for a parser of each architecture to include.
 *
 * A parser only finds headers; whether they make sense is check.p4's. A header that is cut short: BMv2 ends the parser with
 * an error, which declines the packet; SWX has no such check, and the driver puts zeros behind each frame, which the lengths
 * in check.p4 then tell from a whole header.
 */
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_ARP: arp;
            default: accept;
        }
    }
    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl) {
            IPV4_WITHOUT_OPTIONS: transport4;
            default: accept;
        }
    }
    state transport4 {
        transition select(hdr.ipv4.protocol) {
            TCP: tcp;
            UDP: udp;
            ICMP: icmp;
            default: accept;
        }
    }
    state ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            TCP: tcp;
            UDP: udp;
            ICMPV6: icmp6;
            default: accept;
        }
    }
    state tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
    state udp {
        packet.extract(hdr.udp);
        transition accept;
    }
    state icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }
    state icmp6 {
        packet.extract(hdr.icmp);
        transition select(hdr.icmp.type) {
            NEIGHBOUR_SOLICITATION: nd;
            default: accept;
        }
    }
    state nd {
        packet.extract(hdr.nd);
        transition accept;
    }
