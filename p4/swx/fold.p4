/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fold.p4 - hdr.work.sum to 16 bits (RFC 1071), by shifts. */
#ifndef DIOLKOS_FOLD_P4
#define DIOLKOS_FOLD_P4

control fold(inout headers_t hdr) {
    apply {
        hdr.work.sum = (hdr.work.sum & LOW32) + (hdr.work.sum >> 32);
        hdr.work.sum = (hdr.work.sum & 0xffff) + (hdr.work.sum >> 16);
        hdr.work.sum = (hdr.work.sum & 0xffff) + (hdr.work.sum >> 16);
        hdr.work.sum = (hdr.work.sum & 0xffff) + (hdr.work.sum >> 16);
    }
}

#endif
