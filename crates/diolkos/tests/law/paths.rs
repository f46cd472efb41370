// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both paths on the same packet, and the law between them.
//!
//! fast path → slow path → do they agree?
//!
//! With state, the slow path's comes after: what it does to the sessions is for the packets behind. What it tells is
//! copied into the maps of the fast path, as the program does (`mirror`), and what the fast path has opened by itself is
//! brought into the tables first (`leases`): then the slow path has to choose the same.

use super::configurations::Setup;
use super::leases::Leases;
use super::mirror::Mirror;
use diolkos_core::config::nat64::Protocol;
use diolkos_core::nat64::{Nat64, Random};
use diolkos_core::{Env, Gso, GsoKind, Offload, Outbox, Packet, Translator, Verdict, HEADROOM};
use diolkos_sys::fastpath::testrun::{Action, Run, TestRun, LONGEST, SHORTEST};
use diolkos_sys::fastpath::Count;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the shortest Ethernet frame (`ETH_ZLEN`), which `cut_padding` compares with what is behind its header.
const SHORTEST_FRAME: usize = 60;

/// Where the packet is given to the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From IPv4 to IPv6, at the TUN device.
    FourToSix,
    /// From IPv6 to IPv4, at the uplink of a CLAT and the TUN device of a SIIT.
    SixToFour,
}

/// A packet, and what the device says about it.
#[derive(Clone, Debug)]
pub struct Given {
    pub way: Way,
    pub bytes: Vec<u8>,
    /// Bytes of transport payload of one segment, if the packet stands for several.
    pub gso_size: Option<u16>,
}

/// What the fast path did with a packet without breaking the law.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    Translated,
    /// Left to the slow path under this name.
    Declined(&'static str),
    /// Not for the translator.
    PassedBy,
    /// Longer or shorter than the kernel accepts for a test run.
    NotRun,
}

/// How many packets met which fate.
#[derive(Default)]
pub struct Tally(BTreeMap<Fate, usize>);

impl Tally {
    pub fn add(&mut self, fate: Fate) {
        *self.0.entry(fate).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Tally) {
        for (&fate, count) in &other.0 {
            *self.0.entry(fate).or_default() += count;
        }
    }

    pub fn of(&self, fate: Fate) -> usize {
        self.0.get(&fate).copied().unwrap_or_default()
    }

    pub fn all(&self) -> usize {
        self.0.values().sum()
    }

    /// The part that was translated, 0 to 1.
    pub fn translated(&self) -> f64 {
        self.of(Fate::Translated) as f64 / self.all().max(1) as f64
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (fate, count) in &self.0 {
            writeln!(f, "{count:9} {fate:?}")?;
        }
        Ok(())
    }
}

/// Both paths, made for the same translator.
pub struct Paths {
    setup: Setup,
    fast: TestRun,
    slow: Engine,
    /// Numbers that the slow path draws.
    drawn: u64,
    /// Packets that were translated by the program of a router's interfaces, too.
    pub inline: usize,
}

/// A slow path.
enum Engine {
    Stateless(Box<Translator>),
    Stateful(Box<State>),
}

impl Paths {
    pub fn new(setup: &Setup) -> Paths {
        let root = "the law of the fast path is tested with the kernel's own BPF, which needs root";
        let (fast, slow) = match &setup.nat64 {
            None => {
                let slow = Translator::new(&setup.config).unwrap();
                let fast = setup
                    .fast()
                    .unwrap_or_else(|error| panic!("{root}: {error}"));
                (fast, Engine::Stateless(Box::new(slow)))
            }
            Some(config) => {
                let (fast, sessions, lending) = setup
                    .fast_with_state()
                    .unwrap_or_else(|error| panic!("{root}: {error}"));
                let state = State {
                    mirror: Mirror::new(config, Some(Arc::new(sessions))),
                    leases: Leases::new(config, Some(lending)),
                    nat64: Nat64::new(config, [1, 2, 3, 4]).unwrap(),
                    opened: [0; 2],
                };
                (fast, Engine::Stateful(Box::new(state)))
            }
        };
        Paths {
            setup: setup.clone(),
            fast,
            slow,
            drawn: 0,
            inline: 0,
        }
    }

    /// The state of a NAT64.
    pub fn nat64(&self) -> &Nat64 {
        match &self.slow {
            Engine::Stateful(state) => &state.nat64,
            Engine::Stateless(_) => panic!("there is no state"),
        }
    }

    /// UDP sessions that there have been, and those of them that the fast path has opened by itself.
    pub fn opened(&self) -> [u32; 2] {
        match &self.slow {
            Engine::Stateful(state) => state.opened,
            Engine::Stateless(_) => [0; 2],
        }
    }

    /// Takes all leases back. Returns how many ports are on loan then, of how many before.
    pub fn end_leases(&mut self) -> [usize; 2] {
        let Engine::Stateful(state) = &mut self.slow else {
            return [0; 2];
        };
        let before = state.nat64.state().pool().leased_ports();
        state.leases.end_all(state.nat64.state_mut());
        [state.nat64.state().pool().leased_ports(), before]
    }

    /// Whether these are the paths of a translator with the same configuration.
    pub fn are_for(&self, setup: &Setup) -> bool {
        self.setup.config == setup.config
    }

    /// Gives the packet to both paths, with the same next identification. Fails with the whole story if the law is
    /// broken.
    pub fn obey(&mut self, given: &Given, ipv4_id: u16) -> Result<Fate, String> {
        let runs = (SHORTEST[given.way as usize]..=LONGEST).contains(&given.bytes.len());
        let fast = if runs {
            Some(self.fast(given, ipv4_id)?)
        } else {
            None
        };
        let slow = self.slow(given, ipv4_id);
        let Some(fast) = fast else {
            return Ok(Fate::NotRun);
        };
        judge(&self.setup, given, &fast, &slow).map_err(|broken| {
            format!(
                "{broken}\nsetup: {}: {:?}\ngiven: {:?}, next identification {ipv4_id:#06x}, gso_size {:?}\n{}\
                 fast:  {:?} {:?}\n{}slow:  {slow:?}\n{}",
                self.setup.name,
                self.setup,
                given.way,
                given.gso_size,
                hex(&given.bytes),
                fast.action,
                fast.fates,
                hex(&fast.packet),
                match &slow {
                    Slow::Done { packet, .. } => hex(packet),
                    Slow::Panicked => String::new(),
                }
            )
        })
    }

    fn fast(&mut self, given: &Given, ipv4_id: u16) -> Result<Run, String> {
        let gso_size = given.gso_size.unwrap_or(0);
        let run = self
            .fast
            .set_ipv4_id(ipv4_id)
            .and_then(|()| match given.way {
                Way::FourToSix => self.fast.from_ipv4(&given.bytes, gso_size),
                Way::SixToFour => self.fast.from_ipv6(&given.bytes, gso_size),
            });
        let run = run.map_err(|error| {
            format!(
                "the kernel does not run the program: {error}\n{:?} {:?}\n{}",
                given.way,
                given.gso_size,
                hex(&given.bytes)
            )
        })?;
        self.inline(given, ipv4_id, &run).map_err(|broken| {
            format!(
                "{broken}\nsetup: {}\ngiven: {:?}, gso_size {:?}\n{}",
                self.setup.name,
                given.way,
                given.gso_size,
                hex(&given.bytes)
            )
        })?;
        Ok(run)
    }

    /// The program of a router's interfaces, beside the one at the device: what both translate becomes the same, and
    /// what one declines at the interface goes on to the device as it came.
    fn inline(&mut self, given: &Given, ipv4_id: u16, device: &Run) -> Result<(), String> {
        let gso_size = given.gso_size.unwrap_or(0);
        let run = self
            .fast
            .set_ipv4_id(ipv4_id)
            .and_then(|()| match given.way {
                Way::FourToSix => self.fast.inline_from_ipv4(&given.bytes, gso_size),
                Way::SixToFour => self.fast.inline_from_ipv6(&given.bytes, gso_size),
            });
        let Some(inline) = run.map_err(|error| format!("not run inline: {error}"))? else {
            return Ok(());
        };
        if inline.action != Action::Next {
            return Err(format!("inline, it does not go on: {:?}", inline.action));
        }
        // What an Ethernet adds to a short packet is cut off there.
        let unpadded = match given.way {
            Way::FourToSix => without_padding(&given.bytes),
            Way::SixToFour => &given.bytes,
        };
        match &inline.fates[..] {
            [] if inline.packet == unpadded => Ok(()),
            [] => Err("inline, a packet is changed that is not translated".into()),
            [(name, _)] if !name.starts_with("translated_") => Err(format!("inline, it is {name}")),
            _ if unpadded.len() < given.bytes.len() => Ok(()),
            same if same == &device.fates[..] && inline.packet == device.packet => {
                self.inline += 1;
                Ok(())
            }
            other => Err(format!(
                "inline, it becomes another packet: {other:?}\n{}at the device: {:?}\n{}",
                hex(&inline.packet),
                device.fates,
                hex(&device.packet)
            )),
        }
    }

    fn slow(&mut self, given: &Given, ipv4_id: u16) -> Slow {
        let mut buffer = vec![0xaa; HEADROOM];
        buffer.extend(&given.bytes);
        let end = buffer.len();
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, offload(given));
        let mut world = World {
            ipv4_id,
            sent: 0,
            drawn: self.drawn,
        };
        let mut wire = Wire(0);
        if let Engine::Stateful(state) = &mut self.slow {
            state.settle(&mut world);
        }
        let verdict = catch_unwind(AssertUnwindSafe(|| match &mut self.slow {
            Engine::Stateless(slow) => slow.translate(&mut packet, &mut world, &mut wire),
            Engine::Stateful(state) => state.translate(&mut packet, &mut world, &mut wire),
        }));
        self.drawn = world.drawn;
        match verdict {
            Ok(verdict) => Slow::Done {
                verdict,
                sent: wire.0,
                offload: packet.offload,
                packet: match verdict {
                    Verdict::Forward => packet.bytes().to_vec(),
                    _ => Vec::new(),
                },
            },
            Err(_) => Slow::Panicked,
        }
    }
}

/// What a NAT64 has: the controller without its lock.
struct State {
    nat64: Nat64,
    mirror: Mirror,
    leases: Leases,
    /// UDP sessions that there have been, and those of them that the fast path has opened.
    opened: [u32; 2],
}

impl State {
    fn settle(&mut self, world: &mut World) {
        let before = self.nat64.state().counts().sessions;
        let state = self.nat64.state_mut();
        let random = || world.random();
        self.leases
            .settle(state, &mut self.mirror, || Duration::ZERO, random);
        let opened = self.nat64.state().counts().sessions - before;
        self.opened = self.opened.map(|n| n + opened);
    }

    fn translate(
        &mut self,
        packet: &mut Packet<'_>,
        world: &mut World,
        wire: &mut Wire,
    ) -> Verdict {
        let verdict = self.nat64.translate(packet, world, wire, &mut self.mirror);
        while let Some((protocol, node)) = self.mirror.take_opened() {
            self.opened[0] += u32::from(protocol == Protocol::Udp);
            let state = self.nat64.state_mut();
            self.leases
                .consider(node, protocol, state, || world.random());
        }
        verdict
    }
}

/// What the slow path did.
#[derive(Debug)]
enum Slow {
    Done {
        verdict: Verdict,
        /// Packets of its own: fragments, ICMP errors.
        sent: usize,
        offload: Offload,
        packet: Vec<u8>,
    },
    Panicked,
}

/// Time stands still, identifications count up.
struct World {
    ipv4_id: u16,
    sent: u16,
    drawn: u64,
}

impl Random for World {
    fn random(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    }
}

impl Env for World {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn ipv4_id(&mut self) -> u16 {
        self.sent += 1;
        self.ipv4_id.wrapping_add(self.sent - 1)
    }
}

struct Wire(usize);

impl Outbox for Wire {
    fn emit(&mut self, _packet: &[u8], _offload: Offload) {
        self.0 += 1;
    }
}

/// The offload that says the same to the slow path as `gso_size` says to a program.
fn offload(given: &Given) -> Offload {
    let protocol = given.bytes.get(match given.way {
        Way::FourToSix => 9,
        Way::SixToFour => 6,
    });
    let kind = match protocol {
        Some(17) => GsoKind::Udp,
        _ => GsoKind::Tcp,
    };
    Offload {
        gso: given.gso_size.map(|size| Gso { kind, size }),
        ..Offload::default()
    }
}

/// An IPv4 packet in a frame of the shortest length may be shorter than what is in the frame (`cut_padding`).
fn without_padding(bytes: &[u8]) -> &[u8] {
    let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    match bytes.len() <= SHORTEST_FRAME && (20..bytes.len()).contains(&len) {
        true => &bytes[..len],
        false => bytes,
    }
}

/// The law.
fn judge(setup: &Setup, given: &Given, fast: &Run, slow: &Slow) -> Result<Fate, String> {
    let Slow::Done {
        verdict,
        sent,
        offload: slow_offload,
        packet,
    } = slow
    else {
        return Err("the slow path panics".into());
    };
    let once = Count {
        packets: 1,
        bytes: given.bytes.len() as u64,
    };
    let untouched = fast.packet == given.bytes;
    let fate = match fast.fates[..] {
        [] => {
            // Whoever asks for the CLAT's address is answered by a packet socket; all else for it is the CLAT's.
            let to = given.bytes.get(24..40);
            let asks = given.bytes.get(6) == Some(&58) && given.bytes.get(40) == Some(&135);
            let ours = match (setup.config.clat, given.way) {
                (true, Way::SixToFour) => to == Some(&setup.near(0, 0).1.octets()) && !asks,
                _ => true,
            };
            if ours || fast.action != Action::Next || !untouched {
                return Err("a packet for the translator is neither counted nor left to it".into());
            }
            return Ok(Fate::PassedBy);
        }
        [(fate, count)] if count == once => fate,
        _ => return Err("it is not counted once, with its length".into()),
    };
    match (fate, given.way) {
        ("translated_4to6", Way::FourToSix) | ("translated_6to4", Way::SixToFour) => {
            if fast.action != Action::Redirect {
                return Err("a translated packet is not sent on".into());
            }
            if (*verdict, *sent, *slow_offload) != (Verdict::Forward, 0, offload(given)) {
                return Err("the fast path translates what the slow path does not".into());
            }
            if fast.packet != *packet {
                let at = packet.iter().zip(&fast.packet).position(|(a, b)| a != b);
                return Err(format!(
                    "they translate differently, from byte {} on",
                    at.unwrap_or(packet.len().min(fast.packet.len()))
                ));
            }
            Ok(Fate::Translated)
        }
        (name, way) if name.starts_with("decline_") => {
            let handed_over = match (setup.config.clat, way) {
                (true, Way::SixToFour) => Action::Redirect,
                _ => Action::Next,
            };
            if !untouched || fast.action != handed_over {
                return Err("a declined packet does not reach the slow path as it was".into());
            }
            Ok(Fate::Declined(name))
        }
        _ => Err("the fast path loses a packet".into()),
    }
}

/// Bytes in lines of 16, of a long packet only the first.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).take(16).enumerate() {
        write!(text, "       {:04x} ", line * 16).unwrap();
        for byte in bytes {
            write!(text, " {byte:02x}").unwrap();
        }
        text.push('\n');
    }
    writeln!(text, "       {} bytes in all", bytes.len()).unwrap();
    text
}
