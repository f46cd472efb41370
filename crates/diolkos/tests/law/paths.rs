// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both paths on the same packet, and the law between them.
//!
//! fast path → slow path (`slow`) → do they agree (`judge`)?
//!
//! The slow path comes second: with state, what it does to the sessions is for the packets behind.

mod judge;
mod slow;

use super::fate::Fate;
use super::given::{Given, Way};
use super::setup::Setup;
use diolkos_sys::fastpath::testrun::{Action, Run, TestRun, LONGEST, SHORTEST};
use judge::judge;
use slow::{Outcome, SlowPath};
use std::fmt::Write;

/// Bytes of the shortest Ethernet frame (`ETH_ZLEN`), which `cut_padding` compares with what is behind its header.
const SHORTEST_FRAME: usize = 60;

/// Both paths, made for the same translator.
pub struct Paths {
    setup: Setup,
    fast: TestRun,
    pub slow: SlowPath,
    /// Packets that were translated by the program of a router's interfaces, too.
    pub inline: usize,
    /// Segments that moved a session of TCP, and that the tables knew from the fast path alone.
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
            moved: 0,
        }
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
}

/// An IPv4 packet in a frame of the shortest length may be shorter than what is in the frame (`cut_padding`).
fn without_padding(bytes: &[u8]) -> &[u8] {
    let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    match bytes.len() <= SHORTEST_FRAME && (20..bytes.len()).contains(&len) {
        true => &bytes[..len],
        false => bytes,
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
