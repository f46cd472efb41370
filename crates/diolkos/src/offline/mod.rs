// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of a capture file: read → translate → write, packet by packet,
//! on the capture's own clock. What comes out depends on the files and the
//! options alone.

pub mod link;
pub mod pcap;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::Duration;

use diolkos_core::{
    Env, ErrorSources, Offload, Outbox, Packet, Reason, Translator, Verdict, HEADROOM,
};

use crate::cli;
use crate::config::{self, Found, Mode, Networks, V6Address};
use crate::failure::Failure;

use pcap::{Reader, Record, Writer};

/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// Translates the capture and says on standard error what became of its packets.
pub fn run(options: &cli::Translate) -> Result<(), Failure> {
    let settings = config::load(&options.config, |_| ())?;
    if settings.translator.mode == Mode::Nat64 {
        return Err(Failure::usage(
            "translator.mode: a capture is translated without state; what a NAT64 did depends on packets before it",
        ));
    }
    if settings.translator.mode == Mode::Clat && settings.clat.v6 == V6Address::Auto {
        return Err(Failure::usage(
            "clat.v6: there is no uplink from whose prefix `auto` could be made: give the address",
        ));
    }
    if settings.translator.pref64 == Networks::Auto {
        return Err(Failure::usage(
            "translator.pref64: there is no network from which `auto` could learn it: give the prefix",
        ));
    }
    let found = Found {
        mtu4: Found::OFFLINE_MTU,
        mtu6: Found::OFFLINE_MTU,
        address6: None,
    };
    let config = settings.translation(found);
    let translator = Translator::new(&config).map_err(|error| {
        let first = &error.problems[0];
        Failure::usage(format!("{}: {}", settings.key(&first.key), first.message))
    })?;
    if ErrorSources::of(&config).address6.is_none() {
        eprintln!("diolkos: ICMPv6 errors are left out, because no source address is known: set icmp.address6");
    }

    let input = open(&options.from_pcap)?;
    let mut reader =
        Reader::new(BufReader::new(input)).map_err(|e| unread(&options.from_pcap, &e))?;
    if same_file(&options.from_pcap, &options.to_pcap) {
        return Err(Failure::usage(
            "--to-pcap is the file that --from-pcap reads: choose another",
        ));
    }
    let output = File::create(&options.to_pcap).map_err(|e| unwritten(&options.to_pcap, &e))?;
    let mut wire = Wire {
        writer: Writer::new(BufWriter::new(output), reader.precision())
            .map_err(|e| unwritten(&options.to_pcap, &e))?,
        written: 0,
        failed: None,
    };
    let mut clock = Clock {
        now: Duration::ZERO,
        next_id: options.ipv4_id,
    };
    let mut summary = Summary::default();
    let mut record = Record::default();
    while reader
        .next(&mut record)
        .map_err(|e| unread(&options.from_pcap, &e))?
    {
        clock.now = clock.now.max(record.since_epoch);
        wire.writer.stamp(&record);
        let fate = match link::network_layer(reader.link(), &record.bytes) {
            Some(packet) => translate(&translator, packet, &mut clock, &mut wire),
            None => Fate::Skipped,
        };
        summary.count(fate);
        if let Some(error) = wire.failed.take() {
            return Err(unwritten(&options.to_pcap, &error));
        }
    }
    wire.writer
        .finish()
        .map_err(|e| unwritten(&options.to_pcap, &e))?;
    eprint!("{}", summary.text(wire.written));
    Ok(())
}

/// What became of one packet of the capture.
enum Fate {
    Skipped,
    Judged(Verdict),
}

fn translate(translator: &Translator, packet: &[u8], clock: &mut Clock, wire: &mut Wire) -> Fate {
    let mut buffer = vec![0; HEADROOM + packet.len() + BACK];
    let end = HEADROOM + packet.len();
    buffer[HEADROOM..end].copy_from_slice(packet);
    let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
    let verdict = translator.translate(&mut packet, clock, wire);
    if verdict == Verdict::Forward {
        wire.emit(packet.bytes(), packet.offload);
    }
    Fate::Judged(verdict)
}

/// The capture's time, and identifications that count up.
struct Clock {
    now: Duration,
    next_id: u16,
}

impl Env for Clock {
    fn now(&mut self) -> Duration {
        self.now
    }

    fn ipv4_id(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

/// Where everything that leaves goes, in its order.
struct Wire {
    writer: Writer<BufWriter<File>>,
    written: u64,
    failed: Option<std::io::Error>,
}

impl Outbox for Wire {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        match self.writer.write(packet) {
            Ok(()) => self.written += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}

/// How many packets met which fate.
#[derive(Default)]
struct Summary {
    read: u64,
    skipped: u64,
    forwarded: u64,
    emitted: u64,
    dropped: BTreeMap<Reason, u64>,
}

impl Summary {
    fn count(&mut self, fate: Fate) {
        self.read += 1;
        match fate {
            Fate::Skipped => self.skipped += 1,
            Fate::Judged(Verdict::Forward) => self.forwarded += 1,
            Fate::Judged(Verdict::Emitted) => self.emitted += 1,
            Fate::Judged(Verdict::Held) => {}
            Fate::Judged(Verdict::Drop(reason)) => *self.dropped.entry(reason).or_default() += 1,
        }
    }

    fn text(&self, written: u64) -> String {
        let mut lines = vec![
            ("read".to_owned(), self.read),
            ("skipped (not IP)".to_owned(), self.skipped),
            ("forward".to_owned(), self.forwarded),
            ("emitted".to_owned(), self.emitted),
        ];
        let drops = self.dropped.iter();
        lines.extend(drops.map(|(reason, count)| (format!("drop.{}", reason.name()), *count)));
        lines.push(("written".to_owned(), written));
        let shown = lines
            .iter()
            .filter(|(name, count)| *count > 0 || name == "read" || name == "written");
        shown
            .map(|(name, count)| format!("{name:32} {count:>12}\n"))
            .collect()
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|e| {
        Failure::run_time(format!(
            "the capture {} cannot be read: {e}",
            path.display()
        ))
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other && one.is_file(),
        _ => false,
    }
}

fn unread(path: &Path, error: &pcap::ReadError) -> Failure {
    Failure::run_time(format!("the capture {}: {error}", path.display()))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::run_time(format!(
        "the capture {} cannot be written: {error}",
        path.display()
    ))
}
