// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls for which no library has a safe function. This is the only crate of the project with `unsafe`.
//!
//! The crate depends on no other crate of the project and knows nothing of translation: it takes and returns descriptors,
//! numbers and bytes, and parses no data from the network. All public functions are safe: no argument can cause undefined
//! behaviour.
//!
//! Packets:
//!
//! * [`tun`]: the TUN device
//! * [`vnet`]: the offload header in front of each packet on the TUN device
//! * [`packet`]: a packet socket for Neighbour Discovery and ARP
//! * [`frames`]: a packet socket that sends many frames at once
//! * [`link_layer`]: the address of a packet socket
//! * [`ethtool`]: features of interfaces that change packets before programs see them
//! * [`namespace`]: the current network namespace, and the names of its interfaces
//!
//! BPF:
//!
//! * [`bpf`]: calls of bpf(2) that libbpf-rs lacks
//! * [`tc`]: programs as filters on the clsact queueing discipline
//! * [`mapped`]: BPF array maps, mapped into the memory of this process
//! * [`ring`]: positions in a ring buffer
//!
//! Processes and threads:
//!
//! * [`task`]: the CPU, namespace and sleep of a thread
//! * [`signal`]: signals that have no meaning for a service, and threads that handle none
//! * [`seccomp`]: filters of the system calls that a thread may make
//! * [`event`]: the bell that ends blocking reads
//! * [`timer`]: a timer of one CPU
//! * [`clock`]: the clock of the fast path's time stamps
//! * [`memory`]: returns free memory to the kernel
//! * [`limit`]: the limit on open files
//! * [`file`]: opens files that may have no data for a long time
//! * [`lock`]: lock files that only one process holds at a time
//! * [`peer`]: the process at the other end of the control socket
//! * [`kernel`]: the version of the kernel

pub mod bpf;
pub mod clock;
pub mod ethtool;
pub mod event;
pub mod file;
pub mod frames;
pub mod kernel;
pub mod limit;
pub mod link_layer;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod namespace;
pub mod packet;
pub mod peer;
pub mod ring;
pub mod seccomp;
pub mod signal;
mod socket_option;
pub mod task;
pub mod tc;
pub mod timer;
pub mod tun;
pub mod vnet;
