// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's part of the packet generator (`crates/pktgen/bpf/`): [`Generator`] sends, [`Sink`] counts what arrives.
//! [`FrameSocket`] sends what is written here. [`Witness`] tells when a CPU stood still meanwhile.
//!
//! The shapes of what they are told and of what they tell are generated from `crates/pktgen/bpf/abi.h`, where each field is
//! explained.

mod generator;
mod sink;
mod socket;
#[cfg(feature = "testrun")]
pub mod testrun;
mod witness;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::MapHandle;

pub use crate::skel::pktgen_send::types::{pktgen_plan as Plan, pktgen_state as State};
pub use crate::skel::pktgen_sink::types::{pktgen_tally as Tally, pktgen_watch as Watch};
pub use crate::skel::pktgen_witness::types::{
    pktgen_looks as Looks, pktgen_stall as Stall, pktgen_vigil as Vigil,
};
pub use generator::{Generator, Stopper};
pub use sink::{Memory, Sink, SinkMode, Stream};
pub use socket::FrameSocket;
pub use witness::Witness;

/// Bytes of the signature, `PKTGEN_SIGNATURE`.
pub const SIGNATURE: usize = 18;
/// Room for all headers, `PKTGEN_HEAD`.
pub const HEAD: usize = 80;
/// Bytes that can follow the signature, `PKTGEN_FILLER`.
pub const FILLER: usize = 3072;
/// Bytes in front of each frame that the kernel makes, `PKTGEN_SPARE`.
const SPARE: usize = 64;
/// Exact values of a histogram, and buckets for each power of two beyond: 2 to this power.
pub const SUB_BITS: u32 = 10;
/// A histogram ends at 2 to this power, ns.
pub const TOP_BITS: u32 = 40;
/// Buckets of a histogram.
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// Segments of a TCP connection, `PKTGEN_SEGMENTS`.
pub const SEGMENTS: u32 = 6;
/// Stamps are ns modulo 2 to this power.
pub const STAMP_BITS: u32 = 48;

/// All counts of an array of 64-bit numbers, in order, with one system call.
fn read_array(map: &MapHandle, len: usize) -> io::Result<Vec<u64>> {
    let (mut keys, mut counts) = (vec![0u32; len], vec![0u64; len]);
    let (mut next, mut count) = (0u32, len as u32);
    // SAFETY: `keys` has room for `count` keys of 4 bytes, `counts` for as many values of 8; without a beginning the
    // kernel starts with the first key, and an array gives its keys in order.
    let error = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            (&raw mut next).cast(),
            keys.as_mut_ptr().cast(),
            counts.as_mut_ptr().cast(),
            &mut count,
            std::ptr::null(),
        )
    };
    // ENOENT says that there are no more keys than these.
    match error {
        0 => {}
        error if error == -libc::ENOENT => {}
        error => return Err(io::Error::from_raw_os_error(-error)),
    }
    if count as usize != len {
        return Err(io::Error::other("an array of counts is cut off"));
    }
    Ok(counts)
}
