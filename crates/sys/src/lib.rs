// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's edge: the only crate of the project with `unsafe`.
//!
//! * [`tun`]: the TUN device, which every packet may cross
//! * [`vnet`]: the offload header in front of each packet on the TUN device
//! * [`fastpath`]: loading and attaching the eBPF programs laid over it
//! * [`pktgen`]: the packet generator and the sink
//! * [`task`]: where and when a thread runs
//! * [`packet`]: a packet socket for the neighbours' questions
//! * [`memory`]: giving it back
//! * [`ethtool`]: what the kernel does with packets before anybody sees them
//! * [`kernel`]: which one this is
//! * [`namespace`]: which network namespace this is, and what its interfaces are called
//! * [`clock`]: the time of the fast path's stamps
//! * [`event`]: the bell that ends blocking reads
//! * [`limit`]: how many files may be open
//! * [`file`]: opening one that may have nothing to say
//! * [`seccomp`]: which system calls a thread may make
//! * [`signal`]: which ones tell a service nothing, and threads that handle none
//! * [`lock`]: a file that makes a process the only one of its kind
//! * [`peer`]: who is at the other end of the control socket

mod bpf;
pub mod clock;
pub mod ethtool;
pub mod event;
pub mod fastpath;
pub mod file;
pub mod kernel;
pub mod limit;
mod link_layer;
pub mod lock;
pub mod memory;
pub mod namespace;
pub mod packet;
pub mod peer;
pub mod pktgen;
pub mod seccomp;
pub mod signal;
mod socket_option;
pub mod task;
pub mod tun;
pub mod vnet;

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    unused_imports,
    non_camel_case_types
)]
mod skel {
    pub mod answer {
        include!(concat!(env!("OUT_DIR"), "/answer.skel.rs"));
    }
    pub mod clat {
        include!(concat!(env!("OUT_DIR"), "/clat.skel.rs"));
    }
    pub mod forward {
        include!(concat!(env!("OUT_DIR"), "/forward.skel.rs"));
    }
    pub mod label {
        include!(concat!(env!("OUT_DIR"), "/label.skel.rs"));
    }
    pub mod nat64 {
        include!(concat!(env!("OUT_DIR"), "/nat64.skel.rs"));
    }
    pub mod pktgen_send {
        include!(concat!(env!("OUT_DIR"), "/pktgen_send.skel.rs"));
    }
    pub mod pktgen_sink {
        include!(concat!(env!("OUT_DIR"), "/pktgen_sink.skel.rs"));
    }
    pub mod pktgen_witness {
        include!(concat!(env!("OUT_DIR"), "/pktgen_witness.skel.rs"));
    }
    pub mod siit {
        include!(concat!(env!("OUT_DIR"), "/siit.skel.rs"));
    }
}
