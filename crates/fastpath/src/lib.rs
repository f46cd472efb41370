// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF fast path: what `bpf/` is compiled into is loaded, attached and told what to do, and its counters are read.
//!
//! This crate knows `diolkos-sys` and no other crate of the project; what an address or a session means to the translator is
//! its caller's business. It has no `unsafe` but that of the code that libbpf-cargo generates.
//!
//! A stranger loads the programs of a mode ([`ClatPath`], [`SiitPath`], [`Nat64Path`]) with its rules, and keeps what he gets:
//! dropped, the programs are off. Beside them are [`AnswerPath`] (neighbours), [`LabelPath`] (marks over the slow path) and
//! [`ForwardPath`] (other gateways).
//!
//! Programs that hang on links (tcx, XDP) go with the process, unless they are to stay: then the links are pinned. On kernels
//! without tcx they hang on a clsact queueing discipline and must be taken off; the next start takes off what a killed
//! one left. What has stayed can be taken over, program by program, while packets pass ([`Nat64Path::inherit`]).
//!
//! The modules:
//!
//! * `load`: what loading an object takes, whichever it is; `gso`, `xdp`: what this kernel and its drivers can do
//! * `hook`, `side`, `pin`, `qdisc`, `received`: where programs hang, and who hangs there besides
//! * `clat`, `siit`, `nat64`, with `router` for the last two: one object for each mode
//! * `session`, `survey`: sessions in the maps; `lending`, `leases`, `lease`, `openings`: those that programs open by themselves
//! * `copies`, `homes`, `forward`: several gateways
//! * `answer`, `label`: the programs beside the translating ones
//! * `next_hop`, `used_hops`: to where drivers send
//! * `pinned_program`, `known_pref64`: what is known of programs of an earlier run
//! * `testrun`: the programs without an interface, with the feature of that name, which tests ask for

mod answer;
mod clat;
mod copies;
mod forward;
mod gso;
mod homes;
mod hook;
mod kernel_layout;
mod known_pref64;
mod label;
#[cfg(not(feature = "testrun"))]
mod lease;
#[cfg(feature = "testrun")]
pub mod lease;
mod leases;
mod lending;
pub mod load;
mod namespace;
mod nat64;
mod next_hop;
mod openings;
mod pin;
mod pinned_program;
mod qdisc;
mod received;
mod router;
mod session;
mod side;
mod siit;
mod survey;
#[cfg(feature = "testrun")]
pub mod testrun;
mod used_hops;
mod xdp;

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use diolkos_sys::kernel;

pub use answer::{AnswerPath, Served, Served4, Served6};
pub use clat::{ClatPath, ClatRules};
pub use copies::{Owner, NODES};
pub use forward::{ForwardCount, ForwardPath, Forwarding, Gateway};
pub use homes::{Cluster, Homes, HostPort, BUCKETS, LINKS};
pub use hook::Hook;
pub use label::{LabelCount, LabelPath, LabelSlots, Slip, LABEL_HEAD, SPOILT_V4, SPOILT_V6};
pub use lease::queue_of;
pub use lending::{halves, place, Lending, Opening, Report, LEASES, LEASE_PORTS};
pub use nat64::{Inherited, Nat64Path, Nat64Rules, Old, OWN};
pub use next_hop::WayOut;
pub use pin::Pins;
pub use received::{at_ingress, has_egress, Attachee};
pub use router::{Inline, Media, Prepared, Site};
pub use session::{NodePort, Sent, Session, Sessions};
pub use side::Side;
pub use siit::{Destinations, Eam, SiitPath, SiitRules};
pub use survey::{Bound, Seen};
pub use used_hops::{UsedHop, UsedHops};
pub use xdp::{attached, Abilities, Attached, Port, Sends};

include!(concat!(env!("OUT_DIR"), "/fates.rs"));
include!(concat!(env!("OUT_DIR"), "/answers.rs"));

/// What the programs of every mode need to know; see `struct diolkos_rules` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Index of the TUN device.
    pub tun_ifindex: u32,
    /// MTU of the IPv4 side, bytes.
    pub mtu4: u32,
    /// MTU of the IPv6 side, bytes.
    pub mtu6: u32,
    /// RFC 7915 section 4, bytes.
    pub lowest_ipv6_mtu: u32,
    /// Send TOS and traffic class as zero instead of copying them.
    pub traffic_class_zero: bool,
    /// Take a hop at the TUN device, as the slow path does.
    pub takes_hop: bool,
}

/// A translation prefix (RFC 6052); see `struct diolkos_pref64` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pref64 {
    /// Zero beyond its length.
    pub network: Ipv6Addr,
    /// 32, 40, 48, 56, 64 or 96.
    pub bits: u8,
    /// It is the well-known prefix and refuses IPv4 that is not globally reachable (RFC 6052 section 3.1).
    pub only_global: bool,
}

/// Why there is no fast path.
#[derive(thiserror::Error, Debug)]
pub enum FastPathError {
    /// CAP_BPF or CAP_NET_ADMIN is missing, or the kernel has no BPF.
    #[error(
        "the kernel refuses BPF programs ({0}): run as root or with CAP_BPF and CAP_NET_ADMIN, \
         and without a seccomp filter that refuses bpf(2)"
    )]
    Refused(io::Error),
    /// The programs do not load here.
    #[error("the BPF programs do not load on Linux {}: {what}", kernel::release())]
    Load {
        /// In one line.
        what: String,
        /// What libbpf and the verifier said, many lines.
        log: String,
    },
    /// The process may open no further file; each map, program and link is one.
    #[error("too many files are open")]
    Files,
    /// An interface whose driver is to run a program does not.
    #[error("packets cannot be translated in the driver (XDP): {0}")]
    Driver(io::Error),
    /// The programs load but cannot be put at their hooks.
    #[error("the BPF program {program} cannot be attached: {source}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl FastPathError {
    /// Whether another file could not be opened.
    pub fn lacks_files(&self) -> bool {
        match self {
            FastPathError::Files => true,
            FastPathError::Attach { source, .. } => source.raw_os_error() == Some(libc::EMFILE),
            FastPathError::Refused(_) | FastPathError::Load { .. } | FastPathError::Driver(_) => {
                false
            }
        }
    }
}

/// Where to attach. `Auto` takes tcx where the kernel has it (6.6 and later), clsact otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attach {
    /// tcx, else clsact.
    #[default]
    Auto,
    /// Links; they die with the process.
    Tcx,
    /// Filters on the clsact queueing discipline.
    Clsact,
}

/// Packets and bytes of one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Packets as the kernel passed them; a super-packet is one.
    pub packets: u64,
    /// Bytes of their network layer.
    pub bytes: u64,
}

/// Attached programs of any mode; dropped, they are off.
#[derive(Debug)]
pub struct FastPath {
    hooks: Vec<Hook>,
    fates: MapHandle,
    /// Where drivers translate.
    used_hops: Option<Arc<UsedHops>>,
}

/// Takes the filters off an interface that an earlier run of an instance left there on clsact: they would go on taking
/// its packets away; and clsact with the last filter. Those that the heirs have taken over stay. True if there were any.
pub fn take_off_leftovers(
    ifindex: u32,
    instance: &str,
    heirs: (Option<&FastPath>, Option<&LabelPath>),
) -> bool {
    libbpf_rs::set_print(None);
    let (fast, labels) = heirs;
    let fast = fast.into_iter().flat_map(|heir| &heir.hooks);
    let hooks = fast.chain(labels.into_iter().flat_map(LabelPath::hooks));
    hook::take_off_leftovers(ifindex, handle(instance), hooks)
}

impl FastPath {
    fn new(fates: MapHandle) -> FastPath {
        FastPath {
            hooks: Vec::new(),
            fates,
            used_hops: None,
        }
    }

    /// `tcx` or `clsact`: what was chosen.
    pub fn hook_name(&self) -> &'static str {
        self.hooks.first().map_or("none", Hook::name)
    }

    /// The next hops to which drivers send, where drivers translate.
    pub fn used_hops(&self) -> Option<&UsedHops> {
        self.used_hops.as_deref()
    }

    /// Lets the programs stay at their places beyond the process, and takes off what else is pinned there.
    pub fn keep(&mut self, pins: &Pins) -> io::Result<()> {
        for at in 0..self.hooks.len() {
            if let Err(error) = self.hooks[at].keep(pins) {
                self.release(pins);
                return Err(error);
            }
        }
        pins.remove_others(&hook::links(&self.hooks), false);
        Ok(())
    }

    /// Takes [`FastPath::keep`] back: the programs go with this.
    pub fn release(&mut self, pins: &Pins) {
        for hook in &mut self.hooks {
            hook.release(pins);
        }
    }

    /// Every counter, summed over the CPUs, in the order of [`FATE_NAMES`].
    pub fn counts(&self) -> io::Result<Vec<Count>> {
        // 0 is no fate.
        (1..=FATE_NAMES.len() as u32)
            .map(|key| {
                let per_cpu = self
                    .fates
                    .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                    .map_err(io::Error::other)?
                    .unwrap_or_default();
                Ok(per_cpu.iter().fold(Count::default(), |sum, value| {
                    let word =
                        |i: usize| value.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok());
                    Count {
                        packets: sum.packets + word(0).map_or(0, u64::from_ne_bytes),
                        bytes: sum.bytes + word(1).map_or(0, u64::from_ne_bytes),
                    }
                }))
            })
            .collect()
    }
}

/// The queueing disciplines that were made for the filters go with them, however this ends. A place has two filters where
/// packets are met both ways: so it is looked when all are off.
impl Drop for FastPath {
    fn drop(&mut self) {
        let made: Vec<u32> = self.hooks.iter().filter_map(Hook::made_qdisc_on).collect();
        self.hooks.clear();
        for ifindex in made {
            qdisc::remove_unused_clsact(ifindex);
        }
    }
}

/// A handle made of a name (FNV-1a), never 0.
fn handle(instance: &str) -> u32 {
    instance
        .bytes()
        .fold(0x811c_9dc5u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        })
        .max(1)
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
    pub mod siit {
        include!(concat!(env!("OUT_DIR"), "/siit.skel.rs"));
    }
}
