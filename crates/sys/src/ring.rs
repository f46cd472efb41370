// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Positions in a BPF ring buffer, which libbpf-rs does not expose. They only grow, and wrap.

use std::ptr::NonNull;

use libbpf_rs::{AsRawLibbpf, RingBuffer};
use libbpf_sys as bpf;

/// The position up to which programs have reserved records.
pub fn produced(ring: &RingBuffer<'_>) -> u64 {
    // SAFETY: the ring buffer has one ring, and lives as long as `ring`.
    unsafe { bpf::ring__producer_pos(only_ring(ring).as_ptr()) }
}

/// The position up to which records have been read.
pub fn consumed(ring: &RingBuffer<'_>) -> u64 {
    // SAFETY: the ring buffer has one ring, and lives as long as `ring`.
    unsafe { bpf::ring__consumer_pos(only_ring(ring).as_ptr()) }
}

fn only_ring(ring: &RingBuffer<'_>) -> NonNull<bpf::ring> {
    // SAFETY: the pointer is that of a living ring buffer.
    let ring = unsafe { bpf::ring_buffer__ring(ring.as_libbpf_object().as_ptr(), 0) };
    NonNull::new(ring).expect("a ring buffer is made with a ring")
}
