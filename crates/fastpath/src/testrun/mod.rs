// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the programs of the fast path in the kernel on synthetic packets (BPF_PROG_TEST_RUN), for tests.
//!
//! Order of use: load, set the identification, run. A run takes a packet, and returns packet, action and counters.
//!
//! The kernel gives every such packet an Ethernet header. That is correct for the uplink. The TUN device has no such
//! header, so `tun_egress_l2` replaces `tun_egress`, and `siit_egress_l2` replaces `siit_egress`: the same functions,
//! compiled for packets with a header. The programs of a router's interfaces run unchanged; their packets come from the
//! loopback device, where nothing is forwarded. So the driver program has a variant in which every packet has a way:
//! back.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::{failed, keep, no_data, AsMap};
use super::router::Media;
use super::{
    clat, load, nat64, siit, ClatRules, Count, FastPathError, Homes, Lending, Nat64Rules, Port,
    Sends, Sessions, SiitRules, FATE_NAMES,
};
use diolkos_sys::bpf::read;

mod answering;
mod driver;
mod forwarding;
mod frame;

pub use answering::AnswerRun;
pub use driver::DriverRun;
pub use forwarding::{ForwardRun, Verdict};
pub use frame::Action;
use frame::{run, run_on_frame, ETHERNET};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Length in bytes of the longest packet for a test run: the kernel needs one page for packet, headroom and metadata.
pub const LONGEST: usize = 3500;
/// Length in bytes of the shortest packets: the kernel refuses IPv4 and IPv6 packets without their header.
pub const SHORTEST: [usize; 2] = [20, 40];

/// Size in bytes of a counter: packets and bytes.
const COUNT: usize = 16;

/// The key that selects lease places, which need not be secret in tests.
const LEASE_KEY: u64 = 1;

/// The loopback device as a port; it has index 1 in every network namespace. Test packets are sent to its address,
/// which is all zeros.
const ETHERNETS: Media = Media {
    ethernet: true,
    bare_ip: false,
};
const LOOPBACK: Port = Port {
    ifindex: 1,
    card: 1,
    vlan: None,
    address: [0; 6],
    takes: true,
    sends: Sends::Buffers,
    turns: true,
    hides_tags: false,
};

/// The kernel takes no type of super-packet from the context, so the segments are declared datagrams.
macro_rules! segments_are_datagrams {
    ($open:expr) => {{
        let data = $open.maps.rodata_data.as_deref_mut();
        data.ok_or_else(no_data)?.gso.udp_under_test = 1;
    }};
}

/// Loads one program and not the others, because the verifier takes long.
macro_rules! only {
    ($open:expr, [$($other:ident),*], $program:ident) => {{
        $($open.progs.$other.set_autoload(false);)*
        $open.progs.$program.set_autoload(true);
    }};
}

/// The effect of a program on a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The result of the program.
    pub action: Action,
    /// The counters that changed, by name, and their increments.
    pub fates: Vec<(&'static str, Count)>,
    /// The packet after the run, from the network header on.
    pub packet: Vec<u8>,
    /// Number of IPv4 identifications used.
    pub ipv4_ids: u32,
}

/// Loaded programs that are not attached.
#[derive(Debug)]
pub struct TestRun {
    from_ipv4: OwnedFd,
    from_ipv6: OwnedFd,
    /// The program at a router's interfaces.
    inline: Option<OwnedFd>,
    /// The program in their drivers.
    driver: Option<OwnedFd>,
    /// Bytes in front of an IPv6 packet that a program has translated.
    front_of_ipv6: usize,
    fates: MapHandle,
    ipv4_ids: MapHandle,
    cpus: usize,
    counted: Vec<Count>,
    next_ipv4_id: u32,
}

impl TestRun {
    /// Loads the programs of a CLAT with these rules, as the daemon does. The uplink is always Ethernet, and the
    /// interfaces need not exist.
    pub fn clat(rules: &ClatRules) -> Result<TestRun, FastPathError> {
        let rules = ClatRules {
            uplink_is_ethernet: true,
            ..rules.clone()
        };
        let mut storage = MaybeUninit::uninit();
        let mut open = clat::open(&mut storage, &rules)?;
        only!(open, [tun_egress, tun_ingress], tun_egress_l2);
        segments_are_datagrams!(open);
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let (programs, maps) = (&loaded.progs, &loaded.maps);
        TestRun::new(
            [
                keep(programs.tun_egress_l2.as_fd())?,
                keep(programs.uplink_ingress.as_fd())?,
            ],
            [None, None],
            // The program has put an uplink header in front of the existing one.
            2 * ETHERNET,
            maps.fates.handle()?,
            maps.ipv4_ids.handle()?,
        )
    }

    /// Loads the program of a SIIT, which handles both families.
    pub fn siit(rules: &SiitRules) -> Result<TestRun, FastPathError> {
        let rules = &SiitRules {
            media: ETHERNETS,
            drivers: Some(vec![LOOPBACK]),
            ..rules.clone()
        };
        let mut storage = MaybeUninit::uninit();
        let mut open = siit::open(&mut storage, rules)?;
        only!(open, [siit_egress, siit_xdp], siit_egress_l2);
        load::load_driver(&mut open.progs.siit_xdp_alone);
        segments_are_datagrams!(open);
        let loaded = siit::load(open, rules)?;
        let (program, maps) = (loaded.progs.siit_egress_l2.as_fd(), &loaded.maps);
        let inline = loaded.progs.siit_ingress.as_fd();
        let driver = loaded.progs.siit_xdp_alone.as_fd();
        TestRun::new(
            [keep(program)?, keep(program)?],
            [Some(keep(inline)?), Some(keep(driver)?)],
            ETHERNET,
            maps.fates.handle()?,
            maps.ipv4_ids.handle()?,
        )
    }

    /// Loads the program of a NAT64, without sessions and leases.
    pub fn nat64(rules: &Nat64Rules) -> Result<(TestRun, Sessions, Lending), FastPathError> {
        let (run, sessions, lending, _) = TestRun::of_gateway(rules)?;
        Ok((run, sessions, lending))
    }

    /// Loads the program of a NAT64 that is one of several gateways.
    pub fn of_gateway(
        rules: &Nat64Rules,
    ) -> Result<(TestRun, Sessions, Lending, Homes), FastPathError> {
        let rules = &Nat64Rules {
            media: ETHERNETS,
            drivers: Some(vec![LOOPBACK]),
            ..rules.clone()
        };
        let mut storage = MaybeUninit::uninit();
        let mut open = nat64::open(&mut storage, rules, LEASE_KEY)?;
        only!(open, [nat64_egress, nat64_xdp], nat64_egress_l2);
        load::load_driver(&mut open.progs.nat64_xdp_alone);
        segments_are_datagrams!(open);
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let (program, maps) = (loaded.progs.nat64_egress_l2.as_fd(), &loaded.maps);
        let inline = loaded.progs.nat64_ingress.as_fd();
        let driver = loaded.progs.nat64_xdp_alone.as_fd();
        let run = TestRun::new(
            [keep(program)?, keep(program)?],
            [Some(keep(inline)?), Some(keep(driver)?)],
            ETHERNET,
            maps.fates.handle()?,
            maps.ipv4_ids.handle()?,
        )?;
        Ok((
            run,
            nat64::sessions(maps, LEASE_KEY)?,
            nat64::lending(maps, LEASE_KEY)?,
            nat64::homes(maps)?,
        ))
    }

    fn new(
        [from_ipv4, from_ipv6]: [OwnedFd; 2],
        [inline, driver]: [Option<OwnedFd>; 2],
        front_of_ipv6: usize,
        fates: MapHandle,
        ipv4_ids: MapHandle,
    ) -> Result<TestRun, FastPathError> {
        Ok(TestRun {
            from_ipv4,
            from_ipv6,
            inline,
            driver,
            front_of_ipv6,
            fates,
            ipv4_ids,
            cpus: libbpf_rs::num_possible_cpus().map_err(|e| failed("count CPUs", e))?,
            counted: vec![Count::default(); FATE_NAMES.len()],
            next_ipv4_id: 0,
        })
    }

    /// Sets the next IPv4 identification, on all CPUs.
    pub fn set_ipv4_id(&mut self, next: u16) -> io::Result<()> {
        self.next_ipv4_id = next.into();
        let ids = vec![u32::from(next).to_ne_bytes().to_vec(); self.cpus];
        self.ipv4_ids
            .update_percpu(&0u32.to_ne_bytes(), &ids, MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Runs the program that translates IPv4 packets. `gso_size`: bytes of transport payload of one segment, or 0 if
    /// the packet is not a super-packet.
    pub fn from_ipv4(&mut self, packet: &[u8], gso_size: u16) -> io::Result<Run> {
        let (action, bytes) = run(&self.from_ipv4, ETHERTYPE_IPV4, packet, gso_size)?;
        let front = match action {
            Action::Redirect => self.front_of_ipv6,
            _ => ETHERNET,
        };
        self.outcome(action, bytes, front)
    }

    /// Runs the program that translates IPv6 packets; see [`TestRun::from_ipv4`].
    pub fn from_ipv6(&mut self, packet: &[u8], gso_size: u16) -> io::Result<Run> {
        let (action, bytes) = run(&self.from_ipv6, ETHERTYPE_IPV6, packet, gso_size)?;
        self.outcome(action, bytes, ETHERNET)
    }

    /// Runs the program at a router's interfaces on an IPv4 packet. `None`: a CLAT has no such program.
    pub fn inline_from_ipv4(&mut self, packet: &[u8], gso_size: u16) -> io::Result<Option<Run>> {
        self.inline(ETHERTYPE_IPV4, packet, gso_size)
    }

    /// Runs the program at a router's interfaces on an IPv6 packet. `None`: a CLAT has no such program.
    pub fn inline_from_ipv6(&mut self, packet: &[u8], gso_size: u16) -> io::Result<Option<Run>> {
        self.inline(ETHERTYPE_IPV6, packet, gso_size)
    }

    fn inline(&mut self, ethertype: u16, packet: &[u8], gso_size: u16) -> io::Result<Option<Run>> {
        let Some(program) = &self.inline else {
            return Ok(None);
        };
        let (action, bytes) = run(program, ethertype, packet, gso_size)?;
        self.outcome(action, bytes, ETHERNET).map(Some)
    }

    /// Runs the driver program of a router on an IPv4 packet. `None`: a CLAT has no such program.
    pub fn driver_from_ipv4(&mut self, packet: &[u8]) -> io::Result<Option<Run>> {
        self.driver(ETHERTYPE_IPV4, packet)
    }

    /// Runs the driver program of a router on an IPv6 packet. `None`: a CLAT has no such program.
    pub fn driver_from_ipv6(&mut self, packet: &[u8]) -> io::Result<Option<Run>> {
        self.driver(ETHERTYPE_IPV6, packet)
    }

    fn driver(&mut self, ethertype: u16, packet: &[u8]) -> io::Result<Option<Run>> {
        let Some(program) = &self.driver else {
            return Ok(None);
        };
        let (result, bytes) = run_on_frame(program, ethertype, packet)?;
        self.outcome(Action::of_driver(result), bytes, ETHERNET)
            .map(Some)
    }

    fn outcome(&mut self, action: Action, mut bytes: Vec<u8>, front: usize) -> io::Result<Run> {
        if bytes.len() < front {
            return Err(io::Error::other("the packet lost its link-layer header"));
        }
        bytes.drain(..front);
        let counts = self.counts()?;
        let before = std::mem::replace(&mut self.counted, counts);
        let moved = FATE_NAMES.iter().zip(&self.counted).zip(&before);
        let fates = moved.filter(|((_, now), before)| now != before);
        Ok(Run {
            action,
            fates: fates
                .map(|((name, now), before)| {
                    let packets = now.packets - before.packets;
                    let bytes = now.bytes - before.bytes;
                    (*name, Count { packets, bytes })
                })
                .collect(),
            packet: bytes,
            ipv4_ids: self.ipv4_ids_taken()?,
        })
    }

    /// Number of identifications used since the next one was set; only one CPU has run the program.
    fn ipv4_ids_taken(&self) -> io::Result<u32> {
        let ids = self
            .ipv4_ids
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        let next = ids.iter().filter_map(|id| id.get(..4)?.try_into().ok());
        Ok(next
            .map(|id| u32::from_ne_bytes(id) - self.next_ipv4_id)
            .sum())
    }

    /// Returns every counter, summed over the CPUs. Reads the whole map with one system call, because this is done
    /// after each packet.
    fn counts(&self) -> io::Result<Vec<Count>> {
        // The map also has an entry for 0, which is not a counter.
        let entries = FATE_NAMES.len() + 1;
        let mut keys = vec![0; entries * 4];
        let mut values = vec![0; entries * self.cpus * COUNT];
        let (count, _) = read(&self.fates, None, &mut keys, &mut values)?;
        if count != entries {
            return Err(io::Error::other("the map of counters is cut off"));
        }
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |n| u64::from_ne_bytes(*n));
        let mut counts = vec![Count::default(); entries];
        // An array map returns its keys in order.
        for (count, per_cpu) in counts.iter_mut().zip(values.chunks(self.cpus * COUNT)) {
            for value in per_cpu.chunks(COUNT) {
                count.packets += number(value);
                count.bytes += number(&value[8..]);
            }
        }
        Ok(counts.split_off(1))
    }
}
