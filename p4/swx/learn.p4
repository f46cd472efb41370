/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * learn.p4 - MODE_LEARN: sessions that the pipeline learns itself (PNA's add_on_miss), without a controller.
 *
 * A packet of a node that has no session gets the next port of one address. Both directions of the session are learnt, and
 * both are looked up with each packet of the node, which keeps both alive and shows whether the port is another's by now.
 *
 * What this is not, since P4 cannot: ports are counted, so they can be guessed (RFC 6056), and one that is taken is not
 * passed over: its packet is dropped. Each session has a port of its own (no endpoint-independent mapping, RFC 4787), no node has a limit,
 * and there is no log. It needs mode LEARN, `learn_prefix`, and hops.
 */
#ifndef DIOLKOS_LEARN_P4
#define DIOLKOS_LEARN_P4

/* Profiles of p4c-dpdk: 10, 30, 60, 120, 300, 43200 s. RFC 6146 section 4 wants at least 2 minutes for UDP, 1 for echoes. */
#define LIFE_ECHO  (ExpireTimeProfileId_t)2
#define LIFE_BEGIN (ExpireTimeProfileId_t)3
#define LIFE_UDP   (ExpireTimeProfileId_t)4
#define LIFE_TCP   (ExpireTimeProfileId_t)5

struct learnt4_args {
    bit<32> src4;
    bit<16> sport;
}

struct learnt6_args {
    bit<64> src_hi;
    bit<64> src_lo;
    bit<64> dst_hi;
    bit<64> dst_lo;
    bit<16> dport;
}

control learn(inout headers_t hdr) {
    ExpireTimeProfileId_t life;

    action nat64_prefix(bit<8> hr, bit<8> hl, bit<32> hm, bit<8> lr, bit<32> lm) {
        hdr.work.hi = hdr.work.dst_hi >> hr;
        hdr.work.hi = hdr.work.hi << hl;
        hdr.work.lo = hdr.work.dst_lo >> lr;
        hdr.work.v4 = (bit<32>)hdr.work.hi & hm;
        hdr.work.v4 = hdr.work.v4 | ((bit<32>)hdr.work.lo & lm);
        hdr.work.found = 1;
    }
    action no_prefix() {
        hdr.work.found = 0;
    }
    @name(".learn_prefix") table learn_prefix {
        key = { hdr.work.dst_hi: ternary; hdr.work.dst_lo: ternary; }
        actions = { nat64_prefix; no_prefix; }
        default_action = no_prefix();
        size = 64;
    }

    action learnt4(bit<32> src4, bit<16> sport) {
        hdr.work.new_src4 = src4;
        hdr.work.new_port = sport;
        set_entry_expire_time(life);
    }
    action learn4() {
        hdr.work.new_src4 = hdr.work.pool4;
        hdr.work.new_port = hdr.work.first_port + ((bit<16>)hdr.work.slot & hdr.work.port_mask);
        hdr.work.found = 2;
        add_entry("learnt4", (learnt4_args){hdr.work.new_src4, hdr.work.new_port}, life);
    }
    @name(".learnt_out") table learnt_out {
        key = {
            hdr.work.src_hi: exact;
            hdr.work.src_lo: exact;
            hdr.work.dst_hi: exact;
            hdr.work.dst_lo: exact;
            hdr.work.proto6: exact;
            hdr.work.sport6: exact;
            hdr.work.dport6: exact;
        }
        actions = { @tableonly learnt4; @defaultonly learn4; }
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        const default_action = learn4();
        size = SESSIONS;
    }

    action learnt6(bit<64> src_hi, bit<64> src_lo, bit<64> dst_hi, bit<64> dst_lo, bit<16> dport) {
        hdr.work.new_src_hi = src_hi;
        hdr.work.new_src_lo = src_lo;
        hdr.work.new_dst_hi = dst_hi;
        hdr.work.new_dst_lo = dst_lo;
        hdr.work.new_port = dport;
        hdr.work.found = 1;
        set_entry_expire_time(life);
    }
    action learn6() {
        /* From outside nobody begins a session. */
        hdr.work.found = 0;
        if (hdr.work.is6 == 1) {
            add_entry("learnt6", (learnt6_args){hdr.work.dst_hi, hdr.work.dst_lo, hdr.work.src_hi, hdr.work.src_lo, hdr.work.sport6}, life);
        }
    }
    @name(".learnt_back") table learnt_back {
        key = {
            hdr.work.src4: exact;
            hdr.work.dst4: exact;
            hdr.work.proto4: exact;
            hdr.work.sport4: exact;
            hdr.work.dport4: exact;
        }
        actions = { @tableonly learnt6; @defaultonly learn6; }
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        const default_action = learn6();
        size = SESSIONS;
    }

    apply {
        life = LIFE_UDP;
        if (hdr.icmp.isValid()) {
            life = LIFE_ECHO;
        } else if (hdr.tcp.isValid()) {
            life = LIFE_TCP;
            if (hdr.work.syn_fin_rst != 0) {
                life = LIFE_BEGIN;
            }
        }
        if (hdr.work.is6 == 1) {
            learn_prefix.apply();
            if (hdr.work.found == 0 || IS_SPECIAL4(hdr.work.v4) || IS_SPECIAL6(hdr.work.src_hi)) {
                hdr.work.fate = DECLINED_ADDRESS;
            } else if (hdr.icmp.isValid() && hdr.icmp.type != ECHO_REQUEST6) {
                hdr.work.fate = DECLINED_ICMP_TYPE;
            } else {
                hdr.work.new_dst4 = hdr.work.v4;
                hdr.work.old_port = hdr.work.sport6;
                learnt_out.apply();
                hdr.work.src4 = hdr.work.new_dst4;
                hdr.work.dst4 = hdr.work.new_src4;
                hdr.work.sport4 = hdr.work.dport6;
                hdr.work.dport4 = hdr.work.new_port;
                hdr.work.slot = (bit<32>)hdr.work.new_port;
            }
        } else {
            hdr.work.old_port = hdr.work.dport4;
            if (hdr.icmp.isValid() && hdr.icmp.type != ECHO_REPLY4) {
                hdr.work.fate = DECLINED_ICMP_TYPE;
            }
        }
        if (hdr.work.fate == UNDECIDED) {
            hdr.work.found = 0;
            learnt_back.apply();
            if (hdr.work.is6 == 0) {
                if (hdr.work.found == 0) {
                    hdr.work.fate = DECLINED_NO_SESSION;
                }
            } else {
                /* Its port is somebody else's: no packet of it may pass. */
                if (hdr.work.found == 1 && (hdr.work.new_dst_hi != hdr.work.src_hi || hdr.work.new_dst_lo != hdr.work.src_lo || hdr.work.new_port != hdr.work.sport6)) {
                    hdr.work.fate = DROPPED_COLLISION;
                }
                hdr.work.new_port = (bit<16>)hdr.work.slot;
            }
        }
        hdr.work.slot = 0;
    }
}

#endif
