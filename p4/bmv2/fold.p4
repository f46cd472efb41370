/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * fold.p4 - hdr.work.sum to 16 bits, by the checksum of BMv2 over its four words (RFC 1071).
 *
 * Not by shifts: p4c puts what was assigned in place of what is read, so four steps that read the sum twice become sixteen copies of
 * everything that was added, which simple_switch computes for each packet.
 */
#ifndef DIOLKOS_FOLD_P4
#define DIOLKOS_FOLD_P4

control fold(inout headers_t hdr) {
    bit<16> complement;
    apply {
        hash(complement, HashAlgorithm.csum16, 16w0, { hdr.work.sum }, 32w0x10000);
        hdr.work.sum = (bit<64>)(complement ^ 16w0xffff);
    }
}

#endif
