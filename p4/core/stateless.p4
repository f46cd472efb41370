/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * stateless.p4 - addresses by prefixes (RFC 6052) and explicit mappings (RFC 7757).
 *
 * Both are the same: some bits of one address are bits of the other. An entry says which bits of an IPv6 address select it,
 * and how far they move; its priority is what the controller makes of the length of its prefix. A P4 table of longest
 * prefixes takes one field of one word on many targets; ternary tables are everywhere.
 */
#ifndef DIOLKOS_STATELESS_P4
#define DIOLKOS_STATELESS_P4

/*
 * Nobody's address on a wire, whatever the tables say (RFC 7915 section 5.1, RFC 6890). The rest is the controller's.
 * `>`, since p4c-dpdk 1.2.4.8 fails on `>=` at the left of `||`.
 */
#define IS_SPECIAL4(a) ((a) > 32w0xdfffffff || ((a) >> 24) == 0 || ((a) >> 24) == 127 || ((a) >> 16) == 32w0xa9fe)
#define IS_SPECIAL6(hi) ((hi) == 0 || ((hi) >> 54) == 64w0x3fa || ((hi) >> 56) == 64w0xff)

control stateless(inout headers_t hdr) {
    action from6(bit<32> base, bit<8> hr, bit<8> hl, bit<32> hm, bit<8> lr, bit<32> lm) {
        hdr.work.hi = hdr.work.hi >> hr;
        hdr.work.hi = hdr.work.hi << hl;
        hdr.work.lo = hdr.work.lo >> lr;
        hdr.work.v4 = (bit<32>)hdr.work.hi & hm;
        hdr.work.v4 = hdr.work.v4 | ((bit<32>)hdr.work.lo & lm);
        hdr.work.v4 = hdr.work.v4 | base;
        hdr.work.found = 1;
    }
    action from4(bit<64> base_hi, bit<64> base_lo, bit<8> hr, bit<8> hl, bit<32> hm, bit<8> lr, bit<32> lm) {
        hdr.work.hi = (bit<64>)(hdr.work.v4 & hm);
        hdr.work.hi = hdr.work.hi >> hl;
        hdr.work.hi = hdr.work.hi << hr;
        hdr.work.hi = hdr.work.hi | base_hi;
        hdr.work.lo = (bit<64>)(hdr.work.v4 & lm);
        hdr.work.lo = hdr.work.lo << lr;
        hdr.work.lo = hdr.work.lo | base_lo;
        hdr.work.found = 1;
    }
    action decline() {
        hdr.work.found = 0;
    }
    @name(".src6") table src6 {
        key = { hdr.work.src_hi: ternary; hdr.work.src_lo: ternary; }
        actions = { from6; decline; }
        default_action = decline();
        size = 65536;
    }
    @name(".dst6") table dst6 {
        key = { hdr.work.dst_hi: ternary; hdr.work.dst_lo: ternary; }
        actions = { from6; decline; }
        default_action = decline();
        size = 65536;
    }
    @name(".src4") table src4 {
        key = { hdr.work.src4: ternary; }
        actions = { from4; decline; }
        default_action = decline();
        size = 65536;
    }
    @name(".dst4") table dst4 {
        key = { hdr.work.dst4: ternary; }
        actions = { from4; decline; }
        default_action = decline();
        size = 65536;
    }
    apply {
        hdr.work.old_port = 0;
        hdr.work.new_port = 0;
        if (hdr.work.is6 == 1) {
            /* IPv6 to IPv4. */
            hdr.work.hi = hdr.work.src_hi;
            hdr.work.lo = hdr.work.src_lo;
            src6.apply();
            hdr.work.new_src4 = hdr.work.v4;
            if (hdr.work.found == 1) {
                hdr.work.hi = hdr.work.dst_hi;
                hdr.work.lo = hdr.work.dst_lo;
                dst6.apply();
                hdr.work.new_dst4 = hdr.work.v4;
            }
            if (hdr.work.found == 0 || IS_SPECIAL4(hdr.work.new_src4) || IS_SPECIAL4(hdr.work.new_dst4) || IS_SPECIAL6(hdr.work.src_hi) ||
                IS_SPECIAL6(hdr.work.dst_hi)) {
                hdr.work.fate = DECLINED_ADDRESS;
            }
        } else {
            hdr.work.v4 = hdr.work.src4;
            src4.apply();
            hdr.work.new_src_hi = hdr.work.hi;
            hdr.work.new_src_lo = hdr.work.lo;
            if (hdr.work.found == 1) {
                hdr.work.v4 = hdr.work.dst4;
                dst4.apply();
                hdr.work.new_dst_hi = hdr.work.hi;
                hdr.work.new_dst_lo = hdr.work.lo;
            }
            if (hdr.work.found == 0 || IS_SPECIAL4(hdr.work.src4) || IS_SPECIAL4(hdr.work.dst4)) {
                hdr.work.fate = DECLINED_ADDRESS;
            }
        }
    }
}

#endif
