// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos`: translation between IPv4 and IPv6 on Linux.
//!
//! cli → config → clat, router → (nat64, announce, net, slow path, fast path) → control → varlink
//!
//! cli → config → dns64 → (pref64, net) → control
//!
//! cli → config → offline
//!
//! cli → trace → control: what would become of a packet; the service follows it through its slow path's engine
//!
//! The program is [`main`]; `src/main.rs` only calls it, so that what reads bytes from elsewhere can also be reached
//! by `fuzz/`, through [`readers`].

mod accelerate;
mod announce;
mod clat;
mod clats;
mod cli;
mod config;
mod confinement;
mod control;
mod counters;
mod dns64;
mod dns_over_tcp;
mod events;
mod failure;
mod figures;
mod files;
mod fixed_keys;
mod forwarding;
mod instance;
mod logging;
mod lookup;
mod manager;
mod metrics;
mod nat64;
mod net;
mod offline;
mod own_sources;
mod pref64;
mod prefixes;
mod privilege;
mod process;
mod pulse;
mod random;
mod resident;
mod router;
mod service;
mod shape;
mod signals;
mod slowpath;
mod stop;
mod supervise;
mod trace;
mod varlink;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, Common, Show, What};
use config::nat64::Static;
use config::{Level, Mode, Networks, Prefix, Settings};
use control::{Answer, Request};
use failure::Failure;
use files::Files;
use process::{dns64_alone, translator};

/// Readers of what others wrote: files and packets. Nothing else of this crate is for use from outside.
pub mod readers {
    pub use crate::clat::neighbour::{parse as neighbour, Message as NeighbourMessage};
    pub use crate::config::{parse as settings, Settings};
    pub use crate::nat64::store::format as state;
    pub use crate::nat64::store::Moment;
    pub use crate::offline::capture::Capture;
    pub use crate::offline::link::network_layer;
    pub use crate::offline::pcap::{Precision, ReadError, Reader, Record, Writer};
    pub use crate::slowpath::join::{flow, part, Train};
    pub use crate::slowpath::offload::{read as offload, write as offload_header, Received};
}

/// What the manual pages and the completions of shells are written from.
pub mod manual {
    use clap::CommandFactory;

    pub use crate::config::schema as configuration;

    /// The command line.
    pub fn command() -> clap::Command {
        crate::cli::Cli::command()
    }
}

/// The program, from its command line to its exit code.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Clat(options) => clat_alone(options),
        Command::Siit(options) => from_file(options, Some(Mode::Siit)),
        Command::Nat64(options) => from_file(options, Some(Mode::Nat64)),
        Command::Dns64(options) => dns64_settings(options).and_then(dns64_alone),
        Command::Run(options) => from_file(options, None),
        Command::Check { file } => config::load(&file, |_| ())
            .and_then(|settings| settings.canonical())
            .and_then(print),
        Command::Translate(options) => offline::run(&options),
        Command::Lookup(options) => lookup::look_up(&options).and_then(print),
        Command::ClatManager(options) => clat_manager(options),
        Command::Show(options) => show(&options).and_then(print),
        Command::Trace(options) => follow_packet(&options).and_then(print),
        Command::Bind(options) => bind(options),
        Command::Follow(options) => follow(&options),
        Command::Reload(options) => reload(options),
        Command::Stop(options) => device(options.which).and_then(|device| stop::stop(&device)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A configuration may have several mistakes, one a line.
            for line in failure.to_string().lines() {
                eprintln!("diolkos: {line}");
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn clat_alone(options: cli::Clat) -> Result<(), Failure> {
    options.end_with.map_or(Ok(()), clats::end_with)?;
    let settings = clat_settings(&options)?;
    let read = move || match &options.config {
        Some(_) => clat_settings(&options),
        None => Err(Failure::usage(
            "there is no configuration file to read again: start with `--config FILE`",
        )),
    };
    let (files, level) = (Files::of_translator(&settings), settings.log.level);
    translator(files, level, None, |with| clat::run(settings, read, with))
}

fn clat_settings(options: &cli::Clat) -> Result<Settings, Failure> {
    let mut settings = match &options.config {
        // Without an interface a file is not complete; with --uplink it is.
        Some(path) => config::load(path, |file| {
            file.translator.mode = Mode::Clat;
            file.no_translator = false;
            if let Some(uplink) = &options.uplink {
                file.translator.interfaces = vec![uplink.clone()];
            }
        })?,
        None => Settings::default(),
    };
    common(&mut settings, &options.common);
    if let Some(uplink) = &options.uplink {
        settings.translator.interfaces = vec![uplink.clone()];
    }
    let is_new = options.config.is_none() || options.pref64.is_some();
    if let Some(pref64) = options.pref64 {
        settings.translator.pref64 = pref64.into();
    }
    if let Some(device) = &options.device {
        settings.translator.device.clone_from(device);
    }
    if let Some(group) = &options.control_group {
        settings.control.group.clone_from(group);
    }
    settings.clat.v4 = options.v4.unwrap_or(settings.clat.v4);
    settings.clat.v6 = options.v6.unwrap_or(settings.clat.v6);
    settings.clat.v6_prefix = options.v6_prefix.unwrap_or(settings.clat.v6_prefix);
    settings.clat.metric = options.metric.unwrap_or(settings.clat.metric);
    if !options.routes.is_empty() {
        settings.clat.routes.clone_from(&options.routes);
    }
    if !options.resolvers.is_empty() {
        settings.clat.resolvers.clone_from(&options.resolvers);
    }
    first_objection(settings, is_new)
}

fn dns64_settings(options: cli::Dns64) -> Result<Settings, Failure> {
    let cli = &options;
    let pref64 = match cli.pref64.as_slice() {
        [] => None,
        [Prefix::Auto] => Some(Networks::Auto),
        prefixes => {
            let fixed: Option<_> = prefixes.iter().map(|prefix| prefix.fixed()).collect();
            let fixed = fixed.ok_or_else(|| {
                Failure::usage("--pref64: `auto` cannot be combined with other prefixes")
            })?;
            Some(Networks::These(fixed))
        }
    };
    let adjust = |settings: &mut Settings| {
        // Whatever else the file says is for `run`.
        settings.no_translator = true;
        settings.log.level = cli.log.unwrap_or(settings.log.level);
        let dns64 = settings.dns64.get_or_insert_default();
        if let Some(name) = &cli.name {
            dns64.name.clone_from(name);
        }
        if !cli.listen.is_empty() {
            dns64.listen.clone_from(&cli.listen);
        }
        if !cli.upstream.is_empty() {
            dns64.upstream.clone_from(&cli.upstream);
        }
        if let Some(pref64) = &pref64 {
            dns64.pref64 = Some(pref64.clone());
        }
        if let Some(uplink) = &cli.uplink {
            dns64.uplink.clone_from(uplink);
        }
    };
    if let Some(path) = &options.config {
        return config::load(path, adjust);
    }
    let mut settings = Settings::default();
    adjust(&mut settings);
    settings.settle_prefix_of_dns64();
    first_objection(settings, true)
}

/// `is_new`: no file has been warned of yet.
fn first_objection(settings: Settings, is_new: bool) -> Result<Settings, Failure> {
    match settings.objections().first() {
        None => {
            let warnings = settings.warnings();
            for warning in warnings.iter().filter(|_| is_new) {
                config::say(&format!("{}: {}", warning.key, warning.message));
            }
            Ok(settings)
        }
        Some(objection) => Err(Failure::usage(format!(
            "{}: {}",
            objection.key, objection.message
        ))),
    }
}

fn common(settings: &mut Settings, options: &Common) {
    settings.translator.datapath = options.datapath.unwrap_or(settings.translator.datapath);
    settings.log.level = options.log.unwrap_or(settings.log.level);
}

/// Everything that a file says, where the command line does not say it. `mode` is what the command is called.
fn from_file(options: cli::Run, mode: Option<Mode>) -> Result<(), Failure> {
    let read = move || {
        config::load(&options.config, |settings| {
            if let Some(mode) = mode {
                settings.translator.mode = mode;
                settings.no_translator = false;
            }
            if let Some(state) = &options.state {
                settings.nat64.state.clone_from(state);
            }
            common(settings, &options.common);
        })
    };
    let settings = read()?;
    if settings.dns64_alone().is_some() {
        return dns64_alone(settings);
    }
    let (files, level) = (Files::of_translator(&settings), settings.log.level);
    // `run` does everything that the file says, and the other commands what they are called.
    let beside = settings.dns64.is_some() && mode.is_none();
    let beside = beside.then(|| settings.clone());
    match settings.translator.mode {
        Mode::Clat => translator(files, level, beside, |with| clat::run(settings, read, with)),
        Mode::Siit | Mode::Nat64 => translator(files, level, beside, |with| {
            router::run(settings, read, with)
        }),
    }
}

fn show(options: &Show) -> Result<String, Failure> {
    let request = match options.what {
        What::Status => {
            let status = control::status(&options.device)?;
            return Ok(match options.json {
                true => json(&status),
                false => status.table(),
            });
        }
        What::Socket => {
            let socket = control::socket(&options.device)?.display().to_string();
            return Ok(match options.json {
                true => json(&socket),
                false => socket + "\n",
            });
        }
        What::Counters => Request::Counters,
        What::Config => Request::Config,
        What::Prefix => Request::Prefix,
        What::Sessions => Request::Sessions,
        What::Bindings => Request::Bindings,
        What::Top => Request::Top {
            order: options.by,
            lines: options.lines,
        },
    };
    match control::ask(&options.device, request)? {
        Answer::Counters(counters) if options.json => {
            let packets: BTreeMap<_, _> = counters.iter().map(|c| (&c.name, c.packets)).collect();
            let bytes: BTreeMap<_, _> = counters
                .iter()
                .filter_map(|c| Some((&c.name, c.bytes?)))
                .collect();
            Ok(format!(
                "{}\n",
                serde_json::json!({ "counters": packets, "bytes": bytes })
            ))
        }
        Answer::Counters(counters) => Ok(counters::table(&counters, options.all)),
        Answer::Prefix(prefixes) if options.json => Ok(json(&prefixes)),
        Answer::Prefix(prefixes) => Ok(prefixes.table()),
        Answer::Sessions(sessions) if options.json => Ok(json(&sessions)),
        Answer::Sessions(sessions) => Ok(sessions.table()),
        Answer::Bindings(bindings) if options.json => Ok(json(&bindings)),
        Answer::Bindings(bindings) => Ok(bindings.table()),
        Answer::Top(prefixes) if options.json => Ok(json(&prefixes)),
        Answer::Top(prefixes) => Ok(prefixes.table()),
        Answer::Config(text) if options.json => {
            let value: toml::Table = text.parse().map_err(|e| {
                Failure::run_time(format!(
                    "the running diolkos answered no configuration: {e}"
                ))
            })?;
            Ok(format!("{}\n", serde_json::json!(value)))
        }
        Answer::Config(text) => Ok(text),
        other => Err(unexpected(&other)),
    }
}

fn follow_packet(options: &cli::Trace) -> Result<String, Failure> {
    let words = options.packet.join(" ");
    let words = words.parse().map_err(Failure::usage)?;
    let imagined = trace::Imagined {
        words,
        details: trace::Details {
            length: options.length,
            dont_fragment: options.df,
            hop_limit: options.hop_limit,
        },
    };
    imagined.bytes().map_err(Failure::usage)?;
    match control::ask(&options.device, Request::Trace(imagined))? {
        Answer::Trace(report) if options.json => Ok(json(&report)),
        Answer::Trace(report) => Ok(report.text()),
        other => Err(unexpected(&other)),
    }
}

/// Until the program ends, or nobody reads any more.
fn follow(options: &cli::Follow) -> Result<(), Failure> {
    let mut done = Ok(());
    control::follow(&options.device, |status| {
        let text = match options.json {
            true => json(&status),
            false => status.table(),
        };
        done = say(&text);
        done.is_ok()
    })?;
    written(done)
}

fn clat_manager(options: cli::ClatManager) -> Result<(), Failure> {
    match options.order {
        None => {
            let level = options.log.unwrap_or(Level::Info);
            process::foreground(Files::default(), level, clats::run(options.control_group))
        }
        Some(cli::ClatOrder::Up {
            interface,
            pref64,
            v6_prefix,
            resolvers,
            metric,
        }) => clats::up(clats::Spec {
            interface,
            pref64,
            v6_prefix,
            resolvers: resolvers.iter().map(ToString::to_string).collect(),
            metric,
        })
        .map(|_| ()),
        Some(cli::ClatOrder::Down { interface }) => clats::down(&interface).map(|_| ()),
        Some(cli::ClatOrder::List { json, follow }) if !follow => {
            print(clats::shown(&clats::list()?, json))
        }
        Some(cli::ClatOrder::List { json, .. }) => {
            let mut done = Ok(());
            clats::follow(|clats| {
                done = say(&clats::shown(&clats, json));
                done.is_ok()
            })?;
            written(done)
        }
    }
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn json(value: &impl serde::Serialize) -> String {
    format!("{}\n", serde_json::json!(value))
}

fn bind(options: cli::Bind) -> Result<(), Failure> {
    let (device, request) = match options {
        cli::Bind::Add {
            protocol,
            v4,
            v6,
            device,
        } => (device, Request::Bind(Static { protocol, v4, v6 })),
        cli::Bind::Del {
            protocol,
            v4,
            device,
        } => (device, Request::Unbind { protocol, v4 }),
    };
    match control::ask(&device, request)? {
        Answer::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// The device of the translator that is meant.
fn device(which: cli::Which) -> Result<String, Failure> {
    match which.config {
        Some(file) => config::device(&file),
        None => Ok(which.device),
    }
}

fn reload(options: cli::Reload) -> Result<(), Failure> {
    match control::ask(&device(options.which)?, Request::Reload)? {
        Answer::Reloaded => Ok(()),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &Answer) -> Failure {
    Failure::run_time(format!(
        "unexpected answer of the running diolkos: {answer:?}"
    ))
}

/// Standard output may be a pipe that nobody reads any more; that is the reader's right.
fn print(text: String) -> Result<(), Failure> {
    written(io::stdout().write_all(text.as_bytes()))
}

fn written(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run_time(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
