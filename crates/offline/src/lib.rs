// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of a capture file: read → translate → write, packet by packet, on the capture's own clock. The result depends
//! only on the files and the options.
//!
//! link → pcap, pcapng → capture → (environment, bindings → engine) → shape → lines, summary
//!
//! The crate knows captures, the settings and `diolkos-xlat`, and uses no network. Other crates call [`run`]; [`pcap`],
//! [`capture`] and [`link`] are public because they parse untrusted bytes, which `fuzz/` tests.

mod bindings;
pub mod capture;
mod engine;
mod environment;
mod error;
mod lines;
pub mod link;
mod options;
pub mod pcap;
pub mod pcapng;
mod summary;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, StdoutLock};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diolkos_xlat::config::ConfigError;
use diolkos_xlat::{Offload, Outbox};

pub use error::OfflineError;

use diolkos_config::{self as config, AutoValues, Mode, Networks, Placement, Settings};
pub use options::Translate;

use capture::Capture;
use diolkos_datapath::packet_summary::PacketSummary;
use engine::{Engine, Noted};
use environment::Environment;
use lines::{Fate, Form, Lines};
use pcap::{PcapWriter, Record};
use summary::Summary;

/// No entry that a packet creates expires sooner: every timeout is longer (RFC 6146 section 4).
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// Translates the capture, and prints a summary of the outcomes on standard error.
pub fn run(options: &Translate) -> Result<(), OfflineError> {
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
    let mut capture = Capture::new(BufReader::new(open(path)?)).map_err(|e| unread(path, e))?;
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
    while capture.next(&mut record).map_err(|e| unread(path, e))? {
        number += 1;
        run.pass_until(record.since_epoch)?;
        run.take(number, &record)?;
    }
    run.finish()
}

/// Refuses settings that only a network can determine.
fn refuse_unknown(settings: &Settings, options: &Translate) -> Result<(), OfflineError> {
    let mode = settings.translator.mode;
    if mode == Mode::Clat && settings.clat.v6.fixed().is_none() {
        return Err(OfflineError::NoUplink);
    }
    if settings.translator.pref64 == Networks::Auto {
        return Err(OfflineError::NoNetwork);
    }
    if options.bindings.is_some() && mode != Mode::Nat64 {
        return Err(OfflineError::NoBindings);
    }
    Ok(())
}

fn engine(settings: &Settings, world: &mut Environment) -> Result<Engine, OfflineError> {
    let found = AutoValues {
        mtu4: AutoValues::OFFLINE_MTU,
        mtu6: AutoValues::OFFLINE_MTU,
        narrowest4: AutoValues::OFFLINE_MTU,
        narrowest6: AutoValues::OFFLINE_MTU,
        address6: None,
        outside: None,
    };
    // No kernel is involved that decrements the hop limit.
    let mut settings = settings.clone();
    settings.translator.placement = Placement::Device;
    let engine = match settings.translator.mode {
        Mode::Nat64 => Engine::stateful(&settings.stateful(found), world),
        Mode::Clat | Mode::Siit => Engine::stateless(&settings.translation(found)),
    };
    engine.map_err(|source: ConfigError| {
        let first = &source.problems[0];
        OfflineError::Contradiction {
            sentence: format!("{}: {}", settings.key(&first.key), first.message),
            source,
        }
    })
}

/// The output file, if one is requested.
fn writer(options: &Translate, precision: pcap::Precision) -> Result<Option<Output>, OfflineError> {
    let Some(path) = &options.to_pcap else {
        return Ok(None);
    };
    if same_file(&options.from_pcap, path) {
        return Err(OfflineError::SameFile);
    }
    let output = File::create(path).map_err(|e| unwritten(path, e))?;
    let writer = PcapWriter::new(BufWriter::new(output), precision);
    writer.map(Some).map_err(|e| unwritten(path, e))
}

type Output = PcapWriter<BufWriter<File>>;

/// The translation of a capture.
struct Run {
    engine: Engine,
    world: Environment,
    wire: Wire,
    noted: Noted,
    lines: Option<Lines<BufWriter<StdoutLock<'static>>>>,
    summary: Summary,
    /// Nothing expires before this time. The cached value saves a query for each packet.
    quiet_until: Duration,
    /// Path of the output file.
    path: PathBuf,
}

impl Run {
    /// Expires the entries that are due before the next packet, each at its own time.
    fn pass_until(&mut self, next: Duration) -> Result<(), OfflineError> {
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

    fn take(&mut self, number: u64, record: &Record) -> Result<(), OfflineError> {
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

    /// Counts the outcome, and prints its line if lines are requested.
    fn report(
        &mut self,
        time: Duration,
        fate: Fate,
        packet: Option<(u64, &[u8])>,
    ) -> Result<(), OfflineError> {
        if let Some(error) = self.wire.failed.take() {
            return Err(unwritten(&self.path, error));
        }
        self.summary.count(fate);
        for reason in &self.noted.dropped {
            self.summary.drop(*reason);
        }
        let shapes = &self.wire.shapes;
        // A check of a session whose time has not come yet is not reported.
        let is_news = fate != Fate::Expired || !shapes.is_empty() || !self.noted.is_empty();
        if let Some(lines) = self.lines.as_mut().filter(|_| is_news) {
            lines.write_packet(time, fate, packet, shapes, &self.noted)?;
        }
        self.wire.shapes.clear();
        self.noted.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), OfflineError> {
        if let Some(writer) = &mut self.wire.to {
            writer.finish().map_err(|e| unwritten(&self.path, e))?;
        }
        if let Some(lines) = &mut self.lines {
            lines.finish()?;
        }
        let text = self.summary.text(self.wire.written, self.engine.counts());
        eprint!("{text}");
        Ok(())
    }
}

/// The output for all packets, in order.
struct Wire {
    to: Option<Output>,
    /// Record summaries, because lines will be printed.
    keeps: bool,
    written: u64,
    /// The packets since the last line.
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

fn open(path: &Path) -> Result<File, OfflineError> {
    File::open(path).map_err(|source| OfflineError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other && one.is_file(),
        _ => false,
    }
}

fn unread(path: &Path, source: pcap::ReadError) -> OfflineError {
    OfflineError::Capture {
        path: path.to_owned(),
        source,
    }
}

fn unwritten(path: &Path, source: io::Error) -> OfflineError {
    OfflineError::Unwritten {
        path: path.to_owned(),
        source,
    }
}
