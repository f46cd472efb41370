// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of a capture file: read → translate → write, packet by packet, on the capture's own clock. What comes out
//! depends on the files and the options alone.
//!
//! link → pcap, pcapng → capture → (world, bindings → engine) → shape → lines, summary

mod bindings;
pub mod capture;
mod engine;
mod environment;
mod lines;
pub mod link;
pub mod pcap;
pub mod pcapng;
mod summary;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, StdoutLock};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diolkos_core::config::ConfigError;
use diolkos_core::{Offload, Outbox};

use crate::cli;
use diolkos_config::{self as config, Found, Mode, Networks, Placement, Settings};
use diolkos_service::failure::Failure;

use crate::packet_summary::PacketSummary;
use capture::Capture;
use engine::{Engine, Noted};
use environment::Environment;
use lines::{Fate, Form, Lines};
use pcap::{Record, Writer};
use summary::Summary;

/// Nothing that a packet begins is over sooner: every timeout is longer (RFC 6146 section 4).
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// Translates the capture and says on standard error what became of its packets.
pub fn run(options: &cli::Translate) -> Result<(), Failure> {
    let settings = config::load(&options.config, |_| ())?.as_node(options.node.as_deref())?;
    refuse_unknown(&settings, options)?;
    let mut world = Environment::new(options.seed, options.ipv4_id);
    let mut engine = engine(&settings, &mut world)?;
    if engine.lacks_source() {
        eprintln!("diolkos: ICMPv6 errors are left out, because no source address is known: set icmp.address6");
    }
    if let Some(path) = &options.bindings {
        bindings::make(&mut engine, path)?;
    }

    let path = &options.from_pcap;
    let mut capture = Capture::new(BufReader::new(open(path)?)).map_err(|e| unread(path, &e))?;
    let form = match (options.json, options.each) {
        (true, _) => Some(Form::Json),
        (_, true) => Some(Form::Text),
        _ => None,
    };
    let mut run = Run {
        engine,
        world,
        wire: Wire {
            to: writer(options, capture.precision())?,
            keeps: form.is_some(),
            written: 0,
            shapes: Vec::new(),
            failed: None,
        },
        noted: Noted {
            keeps: form.is_some(),
            ..Noted::default()
        },
        lines: form.map(|form| Lines::new(BufWriter::new(io::stdout().lock()), form)),
        summary: Summary::default(),
        quiet_until: Duration::ZERO,
        path: options.to_pcap.clone().unwrap_or_default(),
    };
    let mut record = Record::default();
    let mut number = 0;
    while capture.next(&mut record).map_err(|e| unread(path, &e))? {
        number += 1;
        run.pass_until(record.since_epoch)?;
        run.take(number, &record)?;
    }
    run.finish()
}

/// What only a network can tell.
fn refuse_unknown(settings: &Settings, options: &cli::Translate) -> Result<(), Failure> {
    let mode = settings.translator.mode;
    if mode == Mode::Clat && settings.clat.v6.fixed().is_none() {
        return Err(Failure::usage(
            "clat.v6: `auto` and `shared` need an uplink, and there is none here: give the address",
        ));
    }
    if settings.translator.pref64 == Networks::Auto {
        return Err(Failure::usage(
            "translator.pref64: `auto` needs a network, and there is none here: give the prefix",
        ));
    }
    if options.bindings.is_some() && mode != Mode::Nat64 {
        return Err(Failure::usage(
            "--bindings: only a NAT64 has bindings, and translator.mode is another",
        ));
    }
    Ok(())
}

fn engine(settings: &Settings, world: &mut Environment) -> Result<Engine, Failure> {
    let found = Found {
        mtu4: Found::OFFLINE_MTU,
        mtu6: Found::OFFLINE_MTU,
        address6: None,
    };
    // No kernel takes hops here.
    let mut settings = settings.clone();
    settings.translator.placement = Placement::Device;
    let engine = match settings.translator.mode {
        Mode::Nat64 => Engine::stateful(&settings.stateful(found), world),
        Mode::Clat | Mode::Siit => Engine::stateless(&settings.translation(found)),
    };
    engine.map_err(|error: ConfigError| {
        let first = &error.problems[0];
        Failure::usage(format!("{}: {}", settings.key(&first.key), first.message))
    })
}

/// The file to write, if there is to be one.
fn writer(options: &cli::Translate, precision: pcap::Precision) -> Result<Option<Output>, Failure> {
    let Some(path) = &options.to_pcap else {
        return Ok(None);
    };
    if same_file(&options.from_pcap, path) {
        return Err(Failure::usage(
            "--to-pcap is the file that --from-pcap reads: choose another",
        ));
    }
    let output = File::create(path).map_err(|e| unwritten(path, &e))?;
    let writer = Writer::new(BufWriter::new(output), precision);
    writer.map(Some).map_err(|e| unwritten(path, &e))
}

type Output = Writer<BufWriter<File>>;

/// A capture on its way through a translator.
struct Run {
    engine: Engine,
    world: Environment,
    wire: Wire,
    noted: Noted,
    lines: Option<Lines<BufWriter<StdoutLock<'static>>>>,
    summary: Summary,
    /// Nothing expires before: to ask takes longer than a packet does.
    quiet_until: Duration,
    /// That is written.
    path: PathBuf,
}

impl Run {
    /// What expires before the next packet comes, each at its own time.
    fn pass_until(&mut self, next: Duration) -> Result<(), Failure> {
        if next < self.quiet_until {
            self.world.advance(next);
            return Ok(());
        }
        while let Some(due) = self.engine.next_due().filter(|due| *due <= next) {
            self.world.advance(due);
            self.wire.stamp(due);
            loop {
                let Run {
                    engine,
                    world,
                    wire,
                    noted,
                    ..
                } = self;
                let done = engine.expire(world, wire, noted);
                self.report(due, Fate::Expired, None)?;
                if done {
                    break;
                }
            }
        }
        self.world.advance(next);
        let due = self.engine.next_due().unwrap_or(Duration::MAX);
        self.quiet_until = due.min(next + SHORTEST_LIFE);
        Ok(())
    }

    fn take(&mut self, number: u64, record: &Record) -> Result<(), Failure> {
        let time = record.since_epoch;
        self.wire.stamp(time);
        let (fate, packet) = match link::network_layer(record.link, &record.bytes) {
            Some(packet) => {
                let Run {
                    engine,
                    world,
                    wire,
                    noted,
                    ..
                } = self;
                let verdict = engine.translate(packet, world, wire, noted);
                (Fate::Judged(verdict), packet)
            }
            None => (Fate::Skipped, &record.bytes[..]),
        };
        self.report(time, fate, Some((number, packet)))
    }

    /// Counts, and writes the line about it if there is to be one.
    fn report(
        &mut self,
        time: Duration,
        fate: Fate,
        packet: Option<(u64, &[u8])>,
    ) -> Result<(), Failure> {
        if let Some(error) = self.wire.failed.take() {
            return Err(unwritten(&self.path, &error));
        }
        self.summary.count(fate);
        for reason in &self.noted.dropped {
            self.summary.drop(*reason);
        }
        let shapes = &self.wire.shapes;
        // A look at a session whose time has not come yet is no news.
        let is_news = fate != Fate::Expired || !shapes.is_empty() || !self.noted.is_empty();
        if let Some(lines) = self.lines.as_mut().filter(|_| is_news) {
            lines.write_packet(time, fate, packet, shapes, &self.noted)?;
        }
        self.wire.shapes.clear();
        self.noted.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        if let Some(writer) = &mut self.wire.to {
            writer.finish().map_err(|e| unwritten(&self.path, &e))?;
        }
        if let Some(lines) = &mut self.lines {
            lines.finish()?;
        }
        let text = self.summary.text(self.wire.written, self.engine.counts());
        eprint!("{text}");
        Ok(())
    }
}

/// Where everything that leaves goes, in its order.
struct Wire {
    to: Option<Output>,
    /// Lines are written about it.
    keeps: bool,
    written: u64,
    /// Since the last line.
    shapes: Vec<PacketSummary>,
    failed: Option<io::Error>,
}

impl Wire {
    fn stamp(&mut self, time: Duration) {
        if let Some(writer) = &mut self.to {
            writer.stamp(time);
        }
    }
}

impl Outbox for Wire {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        if self.keeps {
            self.shapes.push(PacketSummary::of(packet));
        }
        match self.to.as_mut().map(|writer| writer.write(packet)) {
            Some(Err(error)) => self.failed = Some(error),
            Some(Ok(())) | None => self.written += 1,
        }
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

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::run_time(format!(
        "the capture {} cannot be written: {error}",
        path.display()
    ))
}
