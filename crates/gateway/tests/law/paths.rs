// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both paths on the same packet, and the check of the law between them.
//!
//! fast path → slow path (`slow`) → do they agree (`judge`)?
//!
//! The slow path runs second: with state, its changes to the sessions are for later packets.

mod judge;
mod slow;

use super::fate::Fate;
use super::input::{Input, Way};
use super::setup::Setup;
use diolkos_fastpath::testrun::{Action, Run, TestRun, LONGEST, SHORTEST};
use judge::judge;
use slow::{Outcome, SlowPath};
use std::fmt::Write;

/// Bytes of the shortest Ethernet frame behind its header.
const SHORTEST_IN_FRAME: usize = 46;
/// Bytes of the shortest Ethernet frame (`ETH_ZLEN`), with which `parse_v4` compares what is behind its header.
const SHORTEST_FRAME: usize = 60;

/// Both paths, made for the same translator.
pub struct Paths {
    setup: Setup,
    fast: TestRun,
    pub slow: SlowPath,
    /// Number of packets that the program of a router's interfaces translated, too.
    pub inline: usize,
    /// Of those: single packets whose checksum does not look unfinished, and those that the drivers' program
    /// translated.
    pub driver: [usize; 2],
    /// Number of segments that changed the state of a TCP session, and that the tables knew from the fast path alone.
    pub moved: usize,
}

impl Paths {
    pub fn new(setup: &Setup) -> Paths {
        let root = "the law of the fast path is tested with the kernel's own BPF, which needs root";
        let (fast, slow) = match &setup.nat64 {
            None => {
                let fast = setup
                    .fast()
                    .unwrap_or_else(|error| panic!("{root}: {error}"));
                (fast, SlowPath::stateless(&setup.config))
            }
            Some(config) => {
                let (fast, sessions, lending) = setup
                    .fast_with_state()
                    .unwrap_or_else(|error| panic!("{root}: {error}"));
                (fast, SlowPath::stateful(config, sessions, lending))
            }
        };
        Paths {
            setup: setup.clone(),
            fast,
            slow,
            inline: 0,
            driver: [0; 2],
            moved: 0,
        }
    }

    /// Returns true if these are the paths of a translator with the same configuration.
    pub fn are_for(&self, setup: &Setup) -> bool {
        self.setup.config == setup.config
    }

    /// Gives the packet to both paths, with the same next identification. Fails with a full report if the law is
    /// broken.
    pub fn obey(&mut self, given: &Input, ipv4_id: u16) -> Result<Fate, String> {
        let runs = (SHORTEST[given.way as usize]..=LONGEST).contains(&given.bytes.len());
        let fast = if runs {
            Some(self.fast(given, ipv4_id)?)
        } else {
            None
        };
        let slow = self.slow.run(given, ipv4_id);
        let Some(fast) = fast else {
            return Ok(Fate::NotRun);
        };
        let judged = judge(&self.setup, given, &fast, &slow);
        if let (Ok(Fate::Translated), Outcome::Done { moved, .. }) = (&judged, &slow) {
            self.moved += usize::from(moved.is_some_and(|moved| moved.after != moved.before));
        }
        judged.map_err(|broken| {
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
                    Outcome::Done { packet, .. } => hex(packet),
                    Outcome::Panicked => String::new(),
                }
            )
        })
    }

    fn fast(&mut self, given: &Input, ipv4_id: u16) -> Result<Run, String> {
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
        let at_interfaces = self
            .inline(given, ipv4_id, &run)
            .and_then(|inline| self.driver(given, ipv4_id, inline.as_ref()));
        at_interfaces.map_err(|broken| {
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

    /// Runs the program of a router's interfaces, and compares it with the program at the device: what both translate
    /// must be equal, and what the interface declines must go on to the device unchanged. Returns the run if it
    /// translates.
    fn inline(&mut self, given: &Input, ipv4_id: u16, device: &Run) -> Result<Option<Run>, String> {
        let gso_size = given.gso_size.unwrap_or(0);
        let run = self
            .fast
            .set_ipv4_id(ipv4_id)
            .and_then(|()| match given.way {
                Way::FourToSix => self.fast.inline_from_ipv4(&given.bytes, gso_size),
                Way::SixToFour => self.fast.inline_from_ipv6(&given.bytes, gso_size),
            });
        let Some(inline) = run.map_err(|error| format!("not run inline: {error}"))? else {
            return Ok(None);
        };
        if inline.action != Action::Next {
            return Err(format!("inline, it does not go on: {:?}", inline.action));
        }
        // Padding of a short packet's Ethernet frame is cut off there.
        let unpadded = match given.way {
            Way::FourToSix => without_padding(&given.bytes),
            Way::SixToFour => &given.bytes,
        };
        match &inline.fates[..] {
            [] if inline.packet == given.bytes => Ok(None),
            [] => Err("inline, a packet is changed that is not translated".into()),
            [(name, _), ..] if !name.starts_with("translated_") => {
                Err(format!("inline, it is {name}"))
            }
            _ if unpadded.len() < given.bytes.len() => Ok(Some(inline)),
            same if same == &device.fates[..] && inline.packet == self.at_interface(device) => {
                self.inline += 1;
                Ok(Some(inline))
            }
            other => Err(format!(
                "inline, it becomes another packet: {other:?}\n{}at the device: {:?}\n{}",
                hex(&inline.packet),
                device.fates,
                hex(&device.packet)
            )),
        }
    }

    /// Returns a packet translated at the device as an interface would translate it. If the device does not decrement
    /// the hop limit, the kernel has done so on the way there, and the program at the interface does it instead.
    fn at_interface(&self, device: &Run) -> Vec<u8> {
        let mut packet = device.packet.clone();
        if self.setup.config.takes_hop {
            return packet;
        }
        match packet[0] >> 4 {
            6 => packet[7] -= 1,
            _ => {
                packet[8] -= 1;
                packet[10..12].fill(0);
                let words = packet[..20].chunks_exact(2);
                let sum: u32 = words
                    .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
                    .sum();
                let folded = (sum & 0xffff) + (sum >> 16);
                let checksum = !((folded + (folded >> 16)) as u16);
                packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        packet
    }

    /// Runs the program of a router's drivers: what it translates must be equal, byte by byte, to the result behind the
    /// driver. All other packets must go on unchanged, and are not counted. `inline` is the result of the interface's
    /// program, if any.
    fn driver(&mut self, given: &Input, ipv4_id: u16, inline: Option<&Run>) -> Result<(), String> {
        if given.gso_size.is_some() {
            return Ok(());
        }
        let run = self
            .fast
            .set_ipv4_id(ipv4_id)
            .and_then(|()| match given.way {
                Way::FourToSix => self.fast.driver_from_ipv4(&given.bytes),
                Way::SixToFour => self.fast.driver_from_ipv6(&given.bytes),
            });
        let Some(driver) = run.map_err(|error| format!("not run in a driver: {error}"))? else {
            return Ok(());
        };
        self.driver[0] += usize::from(inline.is_some() && !looks_unfinished(given));
        let (sent, others): (Vec<_>, Vec<_>) = driver
            .fates
            .iter()
            .copied()
            .partition(|(name, _)| *name == "sent_xdp");
        let len = match (driver.action, &sent[..], &others[..]) {
            (Action::Next, [], []) if driver.packet == given.bytes => return Ok(()),
            (Action::Next, [], []) => return Err("a driver changes a packet and leaves it".into()),
            (Action::Back, [(_, sent)], [_, ..]) => sent.bytes as usize,
            other => return Err(format!("in a driver, it is {other:?}")),
        };
        // Padding of the frame is no part of the packet, and must be zero.
        let (packet, fills) = driver.packet.split_at(len.min(driver.packet.len()));
        if driver.packet.len() != len.max(SHORTEST_IN_FRAME) || fills.iter().any(|b| *b != 0) {
            return Err(format!(
                "a driver sends a frame of a wrong length, not {len}"
            ));
        }
        let is_same = |inline: &&Run| {
            inline.fates == others && inline.packet == packet && inline.ipv4_ids == driver.ipv4_ids
        };
        if inline.filter(is_same).is_none() {
            return Err(format!(
                "in a driver, it becomes another packet: {:?}\n{}behind it: {inline:?}",
                driver.fates,
                hex(&driver.packet),
            ));
        }
        if looks_unfinished(given) {
            return Err("a driver translates a packet whose checksum looks unfinished".into());
        }
        self.driver[1] += 1;
        Ok(())
    }
}

/// Returns true if the checksum of a packet with a plain header is the sum of its pseudo-header, as passed to a device
/// that is to complete it (RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1; ICMP in IPv4 has no pseudo-header, so
/// that the sum is zero).
fn looks_unfinished(given: &Input) -> bool {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let bytes = &given.bytes;
    let word = |at: usize| u64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (header, protocol, addresses, len) = match given.way {
        Way::FourToSix => (20, bytes[9], 12..20, word(2) - 20),
        Way::SixToFour => (40, bytes[6], 8..40, word(4)),
    };
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    };
    let has_pseudo_header = protocol == TCP || protocol == UDP || given.way == Way::SixToFour;
    let sum = match has_pseudo_header {
        true => addresses.step_by(2).map(word).sum::<u64>() + len + u64::from(protocol),
        false => 0,
    };
    sum % 0xffff == word(header + at) % 0xffff
}

/// An IPv4 packet in a frame of the shortest length may be shorter than the frame's payload (`padding` of `struct
/// seen`).
fn without_padding(bytes: &[u8]) -> &[u8] {
    let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    match bytes.len() <= SHORTEST_FRAME && (20..bytes.len()).contains(&len) {
        true => &bytes[..len],
        false => bytes,
    }
}

/// Formats bytes in lines of 16; of a long packet only the first.
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
