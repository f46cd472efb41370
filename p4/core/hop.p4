/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hop.p4 - the next hop of the translated destination, and whether the packet fits there (RFC 7915 sections 4 and 5.1). */
#ifndef DIOLKOS_HOP_P4
#define DIOLKOS_HOP_P4

control next_hop(inout headers_t hdr) {
    action forward(bit<32> port, bit<48> dst, bit<48> src, bit<16> mtu) {
        hdr.work.out_port = port & 15; /* SWX does not look whether there is such a port */
        hdr.work.out_dst = dst;
        hdr.work.out_src = src;
        hdr.work.mtu = (bit<32>)mtu;
        hdr.work.found = 1;
    }
    action decline() {
        hdr.work.found = 0;
    }
    @name(".hop6") table hop6 {
        key = { hdr.work.new_dst_hi: ternary; hdr.work.new_dst_lo: ternary; }
        actions = { forward; decline; }
        default_action = decline();
        size = 65536;
    }
    @name(".hop4") table hop4 {
        key = { hdr.work.new_dst4: ternary; }
        actions = { forward; decline; }
        default_action = decline();
        size = 65536;
    }
    apply {
        if (hdr.work.is6 == 1) {
            hop4.apply();
            if (hdr.work.found == 0) {
                hdr.work.fate = DECLINED_HOP;
            } else if (hdr.work.len + 20 > hdr.work.mtu) {
                hdr.work.fate = DECLINED_MTU;
            }
        } else {
            hop6.apply();
            if (hdr.work.found == 0) {
                hdr.work.fate = DECLINED_HOP;
            } else if (hdr.work.len + 40 > hdr.work.mtu || (hdr.work.df == 0 && hdr.work.len + 40 > hdr.work.lowest6)) {
                /* Too big needs an error; without DF the translator itself has to fragment, which P4 cannot. */
                hdr.work.fate = DECLINED_MTU;
            }
        }
    }
}

#endif
