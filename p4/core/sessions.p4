/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * sessions.p4 - sessions that a controller writes (RFC 6146): the whole of both addresses and both ports, in each direction.
 *
 * The controller has to see a TCP connection begin and end, so packets with SYN, FIN or RST are left to it.
 */
#ifndef DIOLKOS_SESSIONS_P4
#define DIOLKOS_SESSIONS_P4

#define SESSIONS 131072

control sessions(inout headers_t hdr) {
    action to4(bit<32> src4, bit<32> dst4, bit<16> sport, bit<32> slot) {
        hdr.work.new_src4 = src4;
        hdr.work.new_dst4 = dst4;
        hdr.work.new_port = sport;
        hdr.work.slot = slot;
        hdr.work.found = 1;
    }
    action to6(bit<64> src_hi, bit<64> src_lo, bit<64> dst_hi, bit<64> dst_lo, bit<16> dport, bit<32> slot) {
        hdr.work.new_src_hi = src_hi;
        hdr.work.new_src_lo = src_lo;
        hdr.work.new_dst_hi = dst_hi;
        hdr.work.new_dst_lo = dst_lo;
        hdr.work.new_port = dport;
        hdr.work.slot = slot;
        hdr.work.found = 1;
    }
    action none() {
        hdr.work.found = 0;
    }
    @name(".session6") table session6 {
        key = {
            hdr.work.src_hi: exact;
            hdr.work.src_lo: exact;
            hdr.work.dst_hi: exact;
            hdr.work.dst_lo: exact;
            hdr.work.proto6: exact;
            hdr.work.sport6: exact;
            hdr.work.dport6: exact;
        }
        actions = { to4; none; }
        default_action = none();
        size = SESSIONS;
    }
    @name(".session4") table session4 {
        key = {
            hdr.work.src4: exact;
            hdr.work.dst4: exact;
            hdr.work.proto4: exact;
            hdr.work.sport4: exact;
            hdr.work.dport4: exact;
        }
        actions = { to6; none; }
        default_action = none();
        size = SESSIONS;
    }
    apply {
        if (hdr.work.syn_fin_rst != 0) {
            hdr.work.fate = DECLINED_TCP_FLAGS;
        } else if (hdr.work.is6 == 1) {
            hdr.work.old_port = hdr.work.sport6;
            session6.apply();
            /* Replies of nodes to pings from outside: the slow path knows whether such a binding exists. */
            if (hdr.icmp.isValid() && hdr.icmp.type != ECHO_REQUEST6) {
                hdr.work.fate = DECLINED_ICMP_TYPE;
            } else if (hdr.work.found == 0) {
                hdr.work.fate = DECLINED_NO_SESSION;
            }
        } else {
            hdr.work.old_port = hdr.work.dport4;
            session4.apply();
            if (hdr.icmp.isValid() && hdr.icmp.type != ECHO_REPLY4) {
                hdr.work.fate = DECLINED_ICMP_TYPE;
            } else if (hdr.work.found == 0) {
                hdr.work.fate = DECLINED_NO_SESSION;
            }
        }
        if (hdr.work.slot >= SESSIONS) {
            hdr.work.slot = 0;
        }
    }
}

#endif
