// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's part of the packet generator (`lab/pktgen/bpf/`): [`Generator`] sends, [`Sink`] counts arriving frames, and
//! [`Witness`] detects that a CPU was stalled meanwhile.
//!
//! The types of their parameters and results are generated from `lab/pktgen/bpf/abi.h`, which explains each field.

mod generator;
mod sink;
#[cfg(feature = "testrun")]
pub mod testrun;
mod witness;

use std::io;

use libbpf_rs::MapHandle;

use diolkos_sys::bpf::read;

pub use generator::{Generator, Stopper};
pub use sink::{Memory, Sink, SinkMode, Stream};
pub use skel::pktgen_send::types::{pktgen_plan as Plan, pktgen_state as State};
pub use skel::pktgen_sink::types::{pktgen_tally as Tally, pktgen_watch as Watch};
pub use skel::pktgen_witness::types::{
    pktgen_looks as Looks, pktgen_stall as Stall, pktgen_vigil as Vigil,
};
pub use witness::Witness;

/// Bytes of the signature, `PKTGEN_SIGNATURE`.
pub const SIGNATURE: usize = 18;
/// Room for all headers, bytes, `PKTGEN_HEAD`.
pub const HEAD: usize = 80;
/// The most bytes after the signature, `PKTGEN_FILLER`.
pub const FILLER: usize = 3072;
/// Bytes in front of each frame in the kernel, `PKTGEN_SPARE`.
const SPARE: usize = 64;
/// log2 of the number of exact values of a histogram, and of the number of buckets for each power of two above.
pub const SUB_BITS: u32 = 10;
/// log2 of the end of a histogram, ns.
pub const TOP_BITS: u32 = 40;
/// Number of buckets of a histogram.
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// Segments of a TCP connection, `PKTGEN_SEGMENTS`.
pub const SEGMENTS: u32 = 6;
/// Time stamps are ns modulo 2 to this power.
pub const STAMP_BITS: u32 = 48;

/// Reads all counts of an array of 64-bit numbers, in order, with one system call.
fn read_array(map: &MapHandle, len: usize) -> io::Result<Vec<u64>> {
    let (mut keys, mut counts) = (vec![0; len * 4], vec![0; len * 8]);
    let (count, _) = read(map, None, &mut keys, &mut counts)?;
    if count != len {
        return Err(io::Error::other("an array of counts is cut off"));
    }
    let counts = counts.chunks_exact(8);
    Ok(counts
        .map(|count| count.try_into().map_or(0, u64::from_ne_bytes))
        .collect())
}

/// Parses a struct of 64-bit numbers.
fn numbers<const N: usize>(bytes: &[u8]) -> io::Result<[u64; N]> {
    let mut found = [0; N];
    if bytes.len() < size_of_val(&found) {
        return Err(io::Error::other("what a program has counted is cut off"));
    }
    for (number, bytes) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = bytes.try_into().map_or(0, u64::from_ne_bytes);
    }
    Ok(found)
}

#[allow(
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    unused_imports,
    non_camel_case_types
)]
mod skel {
    pub mod pktgen_send {
        include!(concat!(env!("OUT_DIR"), "/pktgen_send.skel.rs"));
    }
    pub mod pktgen_sink {
        include!(concat!(env!("OUT_DIR"), "/pktgen_sink.skel.rs"));
    }
    pub mod pktgen_witness {
        include!(concat!(env!("OUT_DIR"), "/pktgen_witness.skel.rs"));
    }
}
