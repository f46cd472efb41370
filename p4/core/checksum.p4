/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * checksum.p4 - ones' complement sums in 64 bits (RFC 1071, RFC 1624).
 *
 * Only differences: P4 does not see the payload, so a checksum that was wrong stays wrong, and one that is absent (UDP over
 * IPv4) cannot be made. Words of 32 bits are added as they are, since 2^32 is 1 modulo 65535.
 *
 * Each architecture has the control `fold`, before it includes this: hdr.work.sum to 16 bits. A sum other than 0 never becomes 0.
 */
#ifndef DIOLKOS_CHECKSUM_P4
#define DIOLKOS_CHECKSUM_P4

#define WORDS_OF(x) (((x) >> 32) + ((x) & LOW32))

/* hdr.work.sum becomes 0xffff if the header of IPv4 is right. */
control sum_ipv4(inout headers_t hdr) {
    fold() folded;
    apply {
        hdr.work.sum = ((bit<64>)hdr.ipv4.version_ihl << 8) + (bit<64>)hdr.ipv4.tos;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.total_len;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.id;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.flags_frag;
        hdr.work.sum = hdr.work.sum + ((bit<64>)hdr.ipv4.ttl << 8);
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.protocol;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.checksum;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.src;
        hdr.work.sum = hdr.work.sum + (bit<64>)hdr.ipv4.dst;
        folded.apply(hdr);
    }
}

/*
 * hdr.work.checksum, the field of a transport header, after the words that sum up to hdr.work.from_sum became others of sum hdr.work.sum.
 * ~HC + ~from + to, as in RFC 1624 (eqn. 3). The added difference is never 0, so the result is 0 where it may have to be
 * 0xffff, and that is decided apart, by write.p4.
 */
control difference(inout headers_t hdr) {
    fold() folded;
    apply {
        hdr.work.sum = hdr.work.sum + (SUM_ZERO - hdr.work.from_sum);
        hdr.work.sum = hdr.work.sum + (bit<64>)(hdr.work.checksum ^ 16w0xffff);
        folded.apply(hdr);
        hdr.work.checksum = (bit<16>)hdr.work.sum ^ 16w0xffff;
    }
}

#endif
