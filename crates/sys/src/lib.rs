// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls for which no library has a safe function. This is the only crate of the project with `unsafe`.
//!
//! It knows no other crate of the project, and nothing of translation: it takes and returns descriptors, numbers and bytes, and
//! parses nothing that comes from the network. A stranger may call everything that is public; all of it is safe.
//!
//! Packets:
//!
//! * [`tun`]: the TUN device
//! * [`vnet`]: the offload header in front of each packet on the TUN device
//! * [`packet`]: a packet socket for the neighbours' questions
//! * [`frames`]: a packet socket that sends many frames at once
//! * [`link_layer`]: the address of a packet socket
//! * [`ethtool`]: what the kernel does with packets before anybody sees them
//! * [`namespace`]: which network namespace this is, and what its interfaces are called
//!
//! BPF:
//!
//! * [`bpf`]: calls of bpf(2) that libbpf-rs lacks
//! * [`tc`]: programs as filters on the clsact queueing discipline
//! * [`mapped`]: arrays of programs as memory of this process
//! * [`ring`]: positions in a ring buffer
//!
//! Processes and threads:
//!
//! * [`task`]: where and when a thread runs
//! * [`signal`]: which ones tell a service nothing, and threads that handle none
//! * [`seccomp`]: which system calls a thread may make
//! * [`event`]: the bell that ends blocking reads
//! * [`timer`]: a timer of one CPU
//! * [`clock`]: the time of the fast path's stamps
//! * [`memory`]: giving it back
//! * [`limit`]: how many files may be open
//! * [`file`]: opening one that may have nothing to say
//! * [`lock`]: a file that makes a process the only one of its kind
//! * [`peer`]: who is at the other end of the control socket
//! * [`kernel`]: which one this is

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
