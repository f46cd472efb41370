// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eBPF fast path: load → attach → count. With the feature `testrun`, which the program itself never has, also
//! without attaching anything.
//!
//! Programs that hang on links (tcx) go with the process. On kernels without
//! tcx they hang on a clsact queueing discipline and must be taken off; the
//! next start takes off what a killed one left.

mod hook;
mod next_hop;
#[cfg(feature = "testrun")]
pub mod testrun;

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, OpenObject, PrintLevel};

pub use hook::{Hook, Side};

use next_hop::NextHop;

use crate::skel::{types, OpenTcSkel, TcSkelBuilder};

include!(concat!(env!("OUT_DIR"), "/fates.rs"));

/// What the programs of a CLAT need to know; see `struct diolkos_clat` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClatRules {
    /// The CLAT's IPv4 address.
    pub v4: Ipv4Addr,
    /// The CLAT's IPv6 address.
    pub v6: Ipv6Addr,
    /// RFC 6052 prefix, zero beyond its length.
    pub pref64: Ipv6Addr,
    /// 32, 40, 48, 56, 64 or 96.
    pub pref64_bits: u8,
    /// Index of the TUN device.
    pub tun_ifindex: u32,
    /// Index of the uplink.
    pub uplink_ifindex: u32,
    /// The uplink has Ethernet headers; otherwise it carries bare IP.
    pub uplink_is_ethernet: bool,
    /// MTU of the TUN device, bytes.
    pub mtu4: u32,
    /// MTU of the uplink, bytes.
    pub mtu6: u32,
    /// RFC 7915 section 4, bytes.
    pub lowest_ipv6_mtu: u32,
    /// Send TOS and traffic class as zero instead of copying them.
    pub traffic_class_zero: bool,
    /// Refuse IPv4 that is not globally reachable behind the well-known prefix (RFC 6052 section 3.1).
    pub wkp_only_global: bool,
}

/// Why there is no fast path.
#[derive(thiserror::Error, Debug)]
pub enum FastPathError {
    /// CAP_BPF or CAP_NET_ADMIN is missing, or the kernel has no BPF.
    #[error(
        "the kernel refuses BPF programs ({0}): run as root or with CAP_BPF and CAP_NET_ADMIN"
    )]
    Refused(io::Error),
    /// The programs do not load here.
    #[error("the BPF programs do not load on this kernel: {what}")]
    Load {
        /// In one line.
        what: String,
        /// What libbpf and the verifier said, many lines.
        log: String,
    },
    /// The programs load but cannot be put at their hooks.
    #[error("the BPF program {program} cannot be attached: {source}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
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

/// Loaded and attached programs; dropped, they are off.
#[derive(Debug)]
pub struct FastPath {
    hooks: Vec<Hook>,
    fates: MapHandle,
    next_hop: NextHop,
}

/// The programs after loading, before attaching.
struct Programs {
    tun_egress: OwnedFd,
    tun_ingress: OwnedFd,
    uplink_ingress: OwnedFd,
    fates: MapHandle,
    next_hop: MapHandle,
}

/// Takes the filters off an interface that a killed run of an instance left there on clsact: they would go on taking
/// its packets away. True if there were any; then the queueing discipline may be left over too.
pub fn take_off_leftovers(ifindex: u32, instance: &str) -> bool {
    libbpf_rs::set_print(None);
    hook::take_off_leftovers(ifindex, handle(instance))
}

impl FastPath {
    /// Loads the programs with these rules and attaches them behind whatever is attached already.
    /// `instance` tells our filters from those of another instance and is the same at every start;
    /// `seed` makes the IPv4 identifications of this run start at a place nobody can guess.
    pub fn start(
        rules: &ClatRules,
        attach: Attach,
        instance: &str,
        seed: u64,
    ) -> Result<FastPath, FastPathError> {
        let programs = load(rules, seed)?;
        let mut hooks = Vec::new();
        // From the inside out: nothing is redirected before the place it is redirected to is ready.
        let plan = [
            (
                "tun_ingress",
                &programs.tun_ingress,
                rules.tun_ifindex,
                Side::Ingress,
            ),
            (
                "tun_egress",
                &programs.tun_egress,
                rules.tun_ifindex,
                Side::Egress,
            ),
            (
                "uplink_ingress",
                &programs.uplink_ingress,
                rules.uplink_ifindex,
                Side::Ingress,
            ),
        ];
        for (program, fd, ifindex, side) in plan {
            let hook = Hook::attach(fd.as_fd(), ifindex, side, attach, handle(instance))
                .map_err(|source| FastPathError::Attach { program, source })?;
            hooks.push(hook);
        }
        Ok(FastPath {
            hooks,
            fates: programs.fates,
            next_hop: NextHop::new(programs.next_hop),
        })
    }

    /// `tcx` or `clsact`: what was chosen.
    pub fn hook_name(&self) -> &'static str {
        self.hooks.first().map_or("none", Hook::name)
    }

    /// Tells the programs the one router behind the translation prefix, so that they need not look the route up for
    /// each packet. `None` when it is not certain that there is exactly one.
    pub fn set_next_hop(&mut self, router: Option<Ipv6Addr>) -> io::Result<()> {
        self.next_hop.set(router)
    }

    /// The interfaces on which a clsact queueing discipline was made that was not there before.
    pub fn made_qdiscs(&self) -> Vec<u32> {
        self.hooks.iter().filter_map(Hook::made_qdisc_on).collect()
    }

    /// Every counter, summed over the CPUs, in the order of [`FATE_NAMES`].
    pub fn counts(&self) -> io::Result<Vec<Count>> {
        (0..FATE_NAMES.len() as u32)
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

/// What libbpf says while it works; it can only be told to call a plain function.
static LOADER_LOG: Mutex<String> = Mutex::new(String::new());

fn loader_log() -> MutexGuard<'static, String> {
    LOADER_LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(what: &str, error: &libbpf_rs::Error) -> FastPathError {
    let log = std::mem::take(&mut *loader_log());
    // The verifier, too, answers EACCES; then it has said why.
    match error.kind() {
        ErrorKind::PermissionDenied if !log.contains("processed ") => {
            FastPathError::Refused(io::Error::from_raw_os_error(libc::EPERM))
        }
        ErrorKind::Unsupported => {
            FastPathError::Refused(io::Error::from_raw_os_error(libc::ENOSYS))
        }
        _ => FastPathError::Load {
            what: format!("{what}: {error}"),
            log,
        },
    }
}

fn load(rules: &ClatRules, seed: u64) -> Result<Programs, FastPathError> {
    // The object only lives in this function; programs and maps live on by their descriptors.
    let mut storage = MaybeUninit::uninit();
    let loaded = open(&mut storage, rules)?
        .load()
        .map_err(|e| failed("load", &e))?;
    let ids: Vec<Vec<u8>> = (0..libbpf_rs::num_possible_cpus()
        .map_err(|e| failed("count CPUs", &e))?)
        .map(|cpu| scatter(seed, cpu as u64).to_ne_bytes().to_vec())
        .collect();
    loaded
        .maps
        .ipv4_ids
        .update_percpu(&0u32.to_ne_bytes(), &ids, MapFlags::ANY)
        .map_err(|e| failed("seed", &e))?;

    Ok(Programs {
        tun_egress: keep(loaded.progs.tun_egress.as_fd())?,
        tun_ingress: keep(loaded.progs.tun_ingress.as_fd())?,
        uplink_ingress: keep(loaded.progs.uplink_ingress.as_fd())?,
        fates: MapHandle::try_from(&loaded.maps.fates).map_err(|e| failed("fates", &e))?,
        next_hop: MapHandle::try_from(&loaded.maps.next_hop).map_err(|e| failed("next_hop", &e))?,
    })
}

/// The object with its rules, before the kernel sees it.
fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &ClatRules,
) -> Result<OpenTcSkel<'object>, FastPathError> {
    loader_log().clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        loader_log().push_str(&line)
    })));

    let mut open = TcSkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", &e))?;
    let rodata = open
        .maps
        .rodata_data
        .as_deref_mut()
        .ok_or_else(|| FastPathError::Load {
            what: "the object has no read-only data".into(),
            log: String::new(),
        })?;
    rodata.clat = abi(rules);
    Ok(open)
}

fn keep(program: BorrowedFd<'_>) -> Result<OwnedFd, FastPathError> {
    program
        .try_clone_to_owned()
        .map_err(|e| FastPathError::Load {
            what: e.to_string(),
            log: String::new(),
        })
}

fn abi(rules: &ClatRules) -> types::diolkos_clat {
    let address = |a: Ipv6Addr| types::in6_addr {
        in6_u: types::__anon_in6_addr_1 {
            u6_addr8: a.octets(),
        },
    };
    types::diolkos_clat {
        v6: address(rules.v6),
        pref64: address(rules.pref64),
        v4_be: u32::from_ne_bytes(rules.v4.octets()),
        pref64_bits: rules.pref64_bits.into(),
        tun_ifindex: rules.tun_ifindex,
        uplink_ifindex: rules.uplink_ifindex,
        uplink_l2_len: if rules.uplink_is_ethernet { 14 } else { 0 },
        mtu4: rules.mtu4,
        mtu6: rules.mtu6,
        lowest_ipv6_mtu: rules.lowest_ipv6_mtu,
        traffic_class_zero: rules.traffic_class_zero.into(),
        wkp_only_global: rules.wkp_only_global.into(),
        pad: [0; 2],
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

/// A different start for each CPU (the finaliser of SplitMix64).
fn scatter(seed: u64, cpu: u64) -> u32 {
    let mut z = seed.wrapping_add(cpu.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u32
}
