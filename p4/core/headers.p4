/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * headers.p4 - headers as the parser finds them, and what the stages tell each other.
 *
 * No field is wider than 64 bits or narrower than 8: SWX computes with nothing else.
 */
#ifndef DIOLKOS_HEADERS_P4
#define DIOLKOS_HEADERS_P4

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header arp_t {
    bit<64> kind;        /* hardware, protocol, their lengths, operation */
    bit<48> sender_mac;
    bit<32> sender;
    bit<48> target_mac;
    bit<32> target;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> total_len;
    bit<16> id;
    bit<16> flags_frag;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<32> first;       /* version, traffic class, flow label */
    bit<16> payload_len;
    bit<8>  next_header;
    bit<8>  hop_limit;
    bit<64> src_hi;
    bit<64> src_lo;
    bit<64> dst_hi;
    bit<64> dst_lo;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<16> offset_flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

/* ICMP and ICMPv6 echo; also the first eight bytes of a neighbour solicitation. */
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> id;
    bit<16> seq;
}

/*
 * The rest of a solicitation with one option. A P4 parser cannot find an option among any number of others (RFC 4861
 * section 4.3 allows that), so others go to the kernel.
 */
header solicitation_t {
    bit<64> target_hi;
    bit<64> target_lo;
    bit<8>  option_type;
    bit<8>  option_len;
    bit<48> mac;
}

/*
 * What the stages tell each other. A header that is never sent, and no metadata: SWX addresses 256 bytes of each, and
 * p4c-dpdk fills the metadata with the temporaries that it makes.
 */
header work_t {
    /* Key of session6; also of src6 (first two) and dst6 (second two). In this order: SWX wants keys in one piece. */
    bit<64> src_hi;
    bit<64> src_lo;
    bit<64> dst_hi;
    bit<64> dst_lo;
    bit<8>  proto6;
    bit<16> sport6;
    bit<16> dport6;
    /* Key of session4; also of src4 and dst4. */
    bit<32> src4;
    bit<32> dst4;
    bit<8>  proto4;
    bit<16> sport4;
    bit<16> dport4;
    /* What the packet becomes: addresses of the other family. Also keys of hop6 and hop4. */
    bit<64> new_src_hi;
    bit<64> new_src_lo;
    bit<64> new_dst_hi;
    bit<64> new_dst_lo;
    bit<32> new_src4;
    bit<32> new_dst4;
    /* The port (or identifier) that a session changes. */
    bit<16> old_port;
    bit<16> new_port;
    bit<32> slot;
    /* Result of a look-up: 1 is found. */
    bit<8>  found;
    bit<64> hi;
    bit<64> lo;
    bit<32> v4;
    bit<48> own_mac;
    /* Of the next hop. */
    bit<32> out_port;
    bit<48> out_dst;
    bit<48> out_src;
    bit<32> mtu;
    /* Of the packet. */
    bit<32> len;         /* bytes behind the IP header */
    bit<8>  hop_limit;   /* after this hop */
    bit<32> tc;
    bit<8>  is6;         /* 1: IPv6 becomes IPv4 */
    bit<8>  df;
    bit<8>  syn_fin_rst;
    bit<16> checksum;    /* of the transport header */
    bit<64> sum;
    bit<64> from_sum;
    bit<32> ip_id;
    /* Its fate: an index of `counts` (reasons.p4). */
    bit<32> fate;
    /* Settings. */
    bit<8>  mode;
    bit<32> tc_mask;
    bit<32> lowest6;
    bit<32> pool4;
    bit<16> first_port;
    bit<16> port_mask;
}

struct headers_t {
    work_t         work;
    ethernet_t     ethernet;
    arp_t          arp;
    ipv4_t         ipv4;
    ipv6_t         ipv6;
    tcp_t          tcp;
    udp_t          udp;
    icmp_t         icmp;
    solicitation_t nd;
}

struct meta_t {
    bit<32> in_port;
}

#endif
