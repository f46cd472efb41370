// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Common parts of loading a BPF object: libbpf's messages, random initial values, and descriptors that outlive the
//! object.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, OpenProgramMut, PrintLevel};

use super::FastPathError;
use diolkos_sys::kernel;

/// The messages of libbpf, whose callback can only be a plain function.
static LOADER_LOG: Mutex<String> = Mutex::new(String::new());

fn loader_log() -> MutexGuard<'static, String> {
    LOADER_LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to collect libbpf's messages for [`failed`].
pub fn listen() {
    loader_log().clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        loader_log().push_str(&line)
    })));
}

/// Returns the messages collected since then.
pub(super) fn heard() -> String {
    std::mem::take(&mut *loader_log())
}

/// Builds the error from libbpf's result and its earlier messages.
pub fn failed(what: &str, error: libbpf_rs::Error) -> FastPathError {
    let log = heard();
    // The verifier also returns EACCES, but then it has logged a reason.
    match error.kind() {
        ErrorKind::PermissionDenied if !log.contains("processed ") => {
            FastPathError::Refused(io::Error::from_raw_os_error(libc::EPERM))
        }
        ErrorKind::Unsupported => {
            FastPathError::Refused(io::Error::from_raw_os_error(libc::ENOSYS))
        }
        _ if is_of_files(&error) => FastPathError::Files,
        _ => FastPathError::Load {
            what: reason(&log).unwrap_or_else(|| format!("{what}: {error}")),
            log,
            source: error,
        },
    }
}

/// Returns true if the root cause is the limit on open files. libbpf gives the error number only as text.
fn is_of_files(error: &libbpf_rs::Error) -> bool {
    let mut first: &dyn Error = error;
    while let Some(source) = first.source() {
        first = source;
    }
    first.to_string() == io::Error::from_raw_os_error(libc::EMFILE).to_string()
}

/// Summarises libbpf's messages in one line: the verifier's last message about a program, or the first failure of
/// another kind.
fn reason(log: &str) -> Option<String> {
    const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];
    let mut lines = log.lines().map(str::trim);
    let begin = lines.find(|line| line.ends_with("-- BEGIN PROG LOAD LOG --"));
    let Some(begin) = begin else {
        let failure = log.lines().find(|line| line.contains("failed"))?;
        return Some(failure.trim().trim_start_matches("libbpf: ").to_owned());
    };
    let program = begin.split('\'').nth(1).unwrap_or_default();
    let last = lines
        .take_while(|line| *line != "-- END PROG LOAD LOG --")
        .filter(|line| {
            !line.is_empty()
                && !STATISTICS
                    .iter()
                    .any(|beginning| line.starts_with(beginning))
        })
        .last()?;
    Some(format!("the verifier refuses {program}: {last}"))
}

/// The error for an object whose read-only data does not match its source.
pub fn no_data() -> FastPathError {
    FastPathError::NoData
}

/// Duplicates the descriptor of a program, so that it outlives its object.
pub fn keep(program: BorrowedFd<'_>) -> Result<OwnedFd, FastPathError> {
    program
        .try_clone_to_owned()
        .map_err(|e| FastPathError::map("keep a program", e))
}

/// A map of any object, with a descriptor that outlives the object.
pub trait AsMap {
    /// Returns a new descriptor of the map.
    fn handle(&self) -> Result<MapHandle, FastPathError>;
}

impl AsMap for libbpf_rs::MapMut<'_> {
    fn handle(&self) -> Result<MapHandle, FastPathError> {
        MapHandle::try_from(self).map_err(|e| failed("keep a map", e))
    }
}

/// Starts the identifications of each CPU at an unpredictable value.
pub(super) fn seed(ipv4_ids: &impl MapCore, seed: u64) -> Result<(), FastPathError> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| failed("count CPUs", e))?;
    let ids: Vec<Vec<u8>> = (0..cpus)
        .map(|cpu| scatter(seed, cpu as u64).to_ne_bytes().to_vec())
        .collect();
    ipv4_ids
        .update_percpu(&0u32.to_ne_bytes(), &ids, MapFlags::ANY)
        .map_err(|e| failed("seed", e))
}

/// Writes the rules common to all modes, and the layouts of the kernel. A macro, because each object has its own types.
macro_rules! fill_rules {
    ($data:expr, $rules:expr) => {{
        $data.rules.tun_ifindex = $rules.tun_ifindex;
        $data.rules.mtu4 = $rules.mtu4;
        $data.rules.mtu6 = $rules.mtu6;
        $data.rules.lowest_ipv6_mtu = $rules.lowest_ipv6_mtu;
        $data.rules.traffic_class_zero = $rules.traffic_class_zero.into();
        $data.rules.device_hops = $rules.takes_hop.into();
        $data.rules.tcp_mss = $rules.tcp_mss.unwrap_or(0);
        if let Some(layout) = $crate::kernel_layout::kernel_layout().gso {
            $data.gso.head_at = layout.head_at;
            $data.gso.end_at = layout.end_at;
            $data.gso.kind_at = layout.kind_at;
            $data.gso.kind_udp = layout.kind_udp;
            $data.gso.kind_dodgy = layout.kind_dodgy;
        }
    }};
}

/// Writes a translation prefix.
macro_rules! fill_pref64 {
    ($to:expr, $pref64:expr) => {{
        $to.prefix.in6_u.u6_addr8 = $pref64.network.octets();
        $to.bits = $pref64.bits.into();
        $to.only_global = $pref64.only_global.into();
    }};
}

/// Writes the interfaces to which packets are sent directly, and the layout that tells what their routes can depend on.
macro_rules! fill_exits {
    ($data:expr, $exits:expr) => {{
        if let Some(layout) = $crate::kernel_layout::kernel_layout().namespace {
            let netns = &mut $data.netns;
            netns.device_of_packet = layout.device_of_packet;
            netns.rxq_of_frame = layout.rxq_of_frame;
            netns.device_of_rxq = layout.device_of_rxq;
            netns.of_device = layout.of_device;
            netns.port_rules4 = layout.port_rules4;
            netns.port_rules6 = layout.port_rules6;
            netns.hash_policy4 = layout.hash_policy4;
            netns.hash_policy6 = layout.hash_policy6;
            netns.changes4 = layout.changes4;
            netns.changes6 = layout.changes6;
            netns.statistics6 = layout.statistics6;
            netns.removed6 = layout.removed6;
            netns.rules6 = layout.rules6;
            netns.rule_changes6 = layout.rule_changes6;
            netns.is_known = 1;
        }
        let direct = &mut $data.direct;
        for (to, ifindex) in direct.exit.iter_mut().zip($exits) {
            *to = *ifindex;
        }
        direct.exits = direct.exit.len().min($exits.len()) as u32;
        direct.last_set = $crate::load::route_sets()? - 1;
    }};
}

/// Sets of routes of all CPUs, as far as each has between `FEWEST_SETS` and those of `bpf/route_cache.h` (320 bytes each, for
/// each hook).
const ALL_SETS: u32 = 16_384;
const FEWEST_SETS: u32 = 128;
const MOST_SETS: u32 = 4096;

/// Sets of routes that each CPU gets, a power of two. Cards spread flows, so each of many CPUs meets fewer routes.
pub(super) fn route_sets() -> Result<u32, FastPathError> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| failed("count CPUs", e))?;
    let share = ALL_SETS / u32::try_from(cpus).unwrap_or(u32::MAX).next_power_of_two();
    Ok(share.clamp(FEWEST_SETS, MOST_SETS))
}

/// Gives the caches of routes their sizes. A hook that looks up no route needs none.
macro_rules! size_caches {
    ($maps:expr, $has_exits:expr, $has_drivers:expr) => {{
        let sets = $crate::load::route_sets()?;
        for (routes, hops, is_used) in [
            (&mut $maps.tc_routes, &mut $maps.tc_hops, $has_exits),
            (&mut $maps.xdp_routes, &mut $maps.xdp_hops, $has_drivers),
        ] {
            let sets = if is_used { sets } else { 1 };
            let places = if is_used { hops.max_entries() } else { 1 };
            routes
                .set_max_entries(sets)
                .and_then(|()| hops.set_max_entries(places))
                .map_err(|e| $crate::load::failed("size the tables", e))?;
        }
    }};
}

/// Writes the interfaces whose drivers translate.
macro_rules! fill_ports {
    ($data:expr, $drivers:expr) => {{
        let ports = &mut $data.ports;
        for (to, port) in ports.port.iter_mut().zip($drivers) {
            to.ifindex = port.ifindex;
            to.card = port.card;
            to.vlan_be = port.vlan_be();
            to.address = port.address;
            to.sends = port.sends as u8;
            to.turns = port.turns.into();
        }
        ports.ports = ports.port.len().min($drivers.len()) as u32;
        ports.vlans = $drivers.iter().any(|port| port.vlan.is_some()).into();
        ports.takes_buffers = $crate::load::takes_buffers().into();
    }};
}

pub(super) use {fill_exits, fill_ports, fill_pref64, fill_rules, size_caches};

/// The first kernel version in which XDP programs may accept frames in several buffers.
const BUFFERS_SINCE: (u32, u32) = (5, 18);

/// Returns true if XDP programs may accept frames in several buffers.
pub(super) fn takes_buffers() -> bool {
    kernel::is_since(BUFFERS_SINCE)
}

/// Also loads the driver program.
pub(super) fn load_driver(program: &mut OpenProgramMut<'_>) {
    program.set_autoload(true);
    if takes_buffers() {
        program.set_flags(libbpf_sys::BPF_F_XDP_HAS_FRAGS);
    }
}

/// A different initial value for each CPU (the finaliser of SplitMix64).
pub(super) fn scatter(seed: u64, cpu: u64) -> u32 {
    let mut z = seed.wrapping_add(cpu.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u32
}

/// Masks an address to its network of `bits` bits.
pub(super) fn masked4(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

/// Masks an IPv6 address to its network of `bits` bits.
pub(super) fn masked6(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ErrorExt;

    use super::*;

    #[test]
    fn the_verifiers_last_words_are_the_reason() {
        // From Linux 6.1.
        let log = "libbpf: prog 'nat64_egress': BPF program load failed: Invalid argument\n\
            libbpf: prog 'nat64_egress': -- BEGIN PROG LOAD LOG --\n\
            0: R1=ctx(off=0,imm=0) R10=fp0\n\
            ; opening = bpf_ringbuf_reserve(&openings, sizeof(*opening), 0);\n\
            1514: (85) call bpf_ringbuf_reserve#131\n\
            Unreleased reference id=35 alloc_insn=1514\n\
            processed 7011 insns (limit 1000000) max_states_per_insn 8 total_states 286\n\
            -- END PROG LOAD LOG --\n\
            libbpf: prog 'nat64_egress': failed to load: -22\n\
            libbpf: failed to load object 'nat64_bpf'\n";
        let expected =
            "the verifier refuses nat64_egress: Unreleased reference id=35 alloc_insn=1514";
        assert_eq!(reason(log).as_deref(), Some(expected));
    }

    #[test]
    fn too_many_open_files_are_a_cause_of_their_own() {
        let open_files = || libbpf_rs::Error::from_raw_os_error(libc::EMFILE);
        assert!(failed("load", open_files()).lacks_files());
        let within = open_files().context("failed to load");
        assert!(failed("load", within).lacks_files());
        let memory = libbpf_rs::Error::from_raw_os_error(libc::ENOMEM);
        assert!(!failed("load", memory).lacks_files());
    }

    #[test]
    fn without_the_verifier_the_first_failure_is_the_reason() {
        let log = "libbpf: map 'seen': failed to create: Cannot allocate memory(-12)\n\
            libbpf: failed to load object 'pktgen_sink_bpf'\n";
        let expected = "map 'seen': failed to create: Cannot allocate memory(-12)";
        assert_eq!(reason(log).as_deref(), Some(expected));
        assert_eq!(reason(""), None);
    }
}
