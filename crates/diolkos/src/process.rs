// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of a service: its open files, its log, its threads, and what keeps the watchdog of its service manager quiet.
//!
//! files → log → (watchdog, DNS64) → event loop → what is served

use std::future::Future;
use std::io::{self, IsTerminal};
use std::sync::mpsc;
use std::thread::JoinHandle;

use diolkos_sys::limit;
use diolkos_sys::signal::leave_to_others;
use nix::sys::signal::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::companion::{Companion, Supervision};
use crate::dns64;
use crate::files::Files;
use diolkos_config::port_owner;
use diolkos_config::{Dns64, Level, Settings};
use diolkos_service::failure::Failure;
use diolkos_service::manager::Manager;
use diolkos_service::privilege;
use diolkos_service::signals;
use diolkos_service::supervise::{self, Watch};
use diolkos_service::watchdog::{Heartbeat, Watchdog};

/// A DNS64 without a translator, until a signal ends it.
pub fn dns64_alone(settings: Settings) -> Result<(), Failure> {
    let files = Files::default().and_dns64(settings.dns64.as_ref());
    files.check()?;
    port_owner::note(&settings);
    privilege::seal()?;
    privilege::keep(match hears_routers(&settings) {
        true => privilege::HEARING_DNS64,
        false => privilege::DNS64,
    })?;
    start_log(settings.log.level);
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    with_watchdog(&manager, watch, |watch| {
        let supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
            companion: Companion::default(),
        };
        supervise::guarded("the program", || {
            event_loop(&mut Builder::new_current_thread())?
                .block_on(dns64::run(settings, supervision))
        })
    })
}

fn hears_routers(settings: &Settings) -> bool {
    let dns64 = settings.dns64.as_ref();
    dns64.is_some_and(Dns64::follows_network)
}

/// Does some work, and meanwhile lets the service manager's watchdog hear that all its loops move.
fn with_watchdog<T>(
    manager: &Manager,
    watch: Watch,
    work: impl FnOnce(Watch) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let watchdog = watch.watchdog();
    let (end, ended) = mpsc::channel::<()>();
    let keep = move || {
        watchdog.keep(|pause| ended.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout));
        Ok(())
    };
    let keeper = match manager.watchdog() {
        None => None,
        Some(_) => Some(
            watch
                .thread_with(privilege::WATCHDOG, "watchdog", keep)
                .map_err(|e| {
                    Failure::run_time(format!("cannot start the watchdog's thread: {e}"))
                })?,
        ),
    };
    let done = work(watch);
    drop(end);
    if let Some(keeper) = keeper {
        // Whatever it ended by, the alarm has told.
        let _ = keeper.join();
    }
    done
}

/// A translator, and a DNS64 beside it, until a signal ends both or one fails. The DNS64 is a process of its own, whose
/// keeper has a thread here: only that one may start programs, so it begins before the others give that up.
pub fn translator<F: Future<Output = Result<(), Failure>>>(
    files: Files,
    level: Level,
    dns64: Option<Settings>,
    run: impl FnOnce(Supervision) -> F,
) -> Result<(), Failure> {
    let its = dns64.as_ref().and_then(|beside| beside.dns64.as_ref());
    files.and_dns64(its).check()?;
    privilege::seal()?;
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    let keeper = match dns64 {
        Some(settings) => Some(Keeper::begin(settings, &watch)?),
        None => None,
    };
    privilege::keep(privilege::TRANSLATOR)?;
    start_log(level);
    with_watchdog(&manager, watch, |watch| {
        let (companion, stop) = keeper.map(|keeper| keeper.go(&watch)).unzip();
        let mut supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
            companion: companion.unwrap_or_default(),
        };
        let done = supervise::guarded("the translator", || {
            let mut builder = Builder::new_multi_thread();
            event_loop(builder.worker_threads(1))?.block_on(async {
                // Nothing is ready, and nothing is changed, if only one of both can be had.
                match supervision.companion.has_begun() {
                    true => run(supervision).await,
                    false => Err(supervision.alarm.rung().await),
                }
            })
        });
        if let Some((stop, thread)) = stop {
            drop(stop);
            // Whatever it ended by, the alarm has told.
            let _ = thread.join();
        }
        done
    })
}

/// The thread that keeps the process of a DNS64, which waits for its word.
struct Keeper {
    companion: Companion,
    go: mpsc::Sender<Heartbeat>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts it, and returns when it has given up what it does not need.
    fn begin(settings: Settings, watch: &Watch) -> Result<Keeper, Failure> {
        let (companion, post) = Companion::pair();
        let (stop, stopped) = oneshot::channel();
        let (go, gone) = mpsc::channel();
        let (confined, is_confined) = mpsc::channel::<()>();
        let role = match hears_routers(&settings) {
            true => privilege::HEARING_KEEPER,
            false => privilege::KEEPER,
        };
        let keep = move || {
            drop(confined);
            // Without a word the program does not start.
            let Ok(beat) = gone.recv() else { return Ok(()) };
            event_loop(&mut Builder::new_current_thread())?
                .block_on(dns64::run_beside(settings, beat, post, stopped))
        };
        let thread = watch
            .thread_with(role, "dns64", keep)
            .map_err(|e| Failure::run_time(format!("cannot start the DNS64's thread: {e}")))?;
        let _ = is_confined.recv();
        Ok(Keeper {
            companion,
            go,
            stop,
            thread,
        })
    }

    /// Lets it work.
    fn go(self, watch: &Watch) -> (Companion, (oneshot::Sender<()>, JoinHandle<()>)) {
        // If it has failed, the alarm has told.
        let _ = self.go.send(watch.beat("the DNS64"));
        (self.companion, (self.stop, self.thread))
    }
}

/// The process of a DNS64 beside a translator, which ends with the one that has started it (`parent`). It has at most
/// `memory` bytes, and its orders from its standard input.
pub fn dns64_apart(parent: u32, memory: u64, level: Level) -> Result<(), Failure> {
    let keeper = dns64::standard_input()?;
    signals::end_with(parent, Signal::SIGKILL)?;
    // The parent ends this process.
    leave_to_others().map_err(|e| Failure::run_time(format!("cannot block signals: {e}")))?;
    privilege::seal()?;
    let named = rustix::thread::set_name(c"dns64");
    let limited = named
        .map_err(Into::into)
        .and_then(|()| limit::small(memory));
    limited.map_err(|e| Failure::run_time(format!("cannot limit the DNS64's process: {e}")))?;
    start_log_of(level, false);
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build();
    let runtime =
        runtime.map_err(|e| Failure::run_time(format!("cannot start the event loop: {e}")))?;
    privilege::keep(privilege::DNS64_PROCESS)?;
    supervise::guarded("the DNS64", || runtime.block_on(dns64::work(keeper)))
}

/// Some work of this process that is no service of its own: it starts others.
pub fn foreground(
    files: Files,
    level: Level,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    files.check()?;
    privilege::keep(privilege::MANAGER)?;
    start_log(level);
    supervise::guarded("the program", || {
        event_loop(&mut Builder::new_current_thread())?.block_on(work)
    })
}

fn event_loop(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder
        .enable_all()
        .build()
        .map_err(|e| Failure::run_time(format!("cannot start the event loop: {e}")))
}

fn start_log(level: Level) {
    // The journal has its own clock.
    start_log_of(level, std::env::var_os("JOURNAL_STREAM").is_none());
}

/// `has_time`: each line begins with it.
fn start_log_of(level: Level, has_time: bool) {
    let level = match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
        Level::Trace => tracing::Level::TRACE,
    };
    // The libraries are only heard when something is wrong with them.
    let filter = tracing_subscriber::EnvFilter::new(format!("warn,diolkos={level}"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    match has_time {
        true => log.init(),
        false => log.without_time().init(),
    }
}
