// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of a service: its open files, its log, its threads, and what keeps the watchdog of its service manager quiet.
//!
//! files → log → (watchdog, DNS64) → event loop → what is served

use std::future::Future;
use std::io::{self, IsTerminal};
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::config::{Dns64, Level, Settings};
use crate::dns64;
use crate::failure::Failure;
use crate::files::Files;
use crate::manager::Manager;
use crate::privilege::{self, Role};
use crate::supervise::{self, Supervision, Watch};
use crate::watchdog::Watchdog;

/// A DNS64 without a translator, until a signal ends it.
pub fn dns64_alone(settings: Settings) -> Result<(), Failure> {
    let files = Files::default().and_dns64(settings.dns64.as_ref());
    files.check()?;
    privilege::keep(role_of_dns64(&settings))?;
    start_log(settings.log.level);
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    with_watchdog(&manager, watch, |watch| {
        let supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
        };
        supervise::guarded("the program", || {
            event_loop(&mut Builder::new_current_thread())?
                .block_on(dns64::run(settings, supervision))
        })
    })
}

fn role_of_dns64(settings: &Settings) -> Role {
    let dns64 = settings.dns64.as_ref();
    match dns64.is_some_and(Dns64::follows_network) {
        true => privilege::HEARING_DNS64,
        false => privilege::DNS64,
    }
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

/// A translator, and a DNS64 beside it, until a signal ends both or one fails. The DNS64 has a thread of its own: it goes
/// on while the translator restores its state or takes another configuration.
pub fn translator<F: Future<Output = Result<(), Failure>>>(
    files: Files,
    level: Level,
    dns64: Option<Settings>,
    run: impl FnOnce(Supervision) -> F,
) -> Result<(), Failure> {
    let its = dns64.as_ref().and_then(|beside| beside.dns64.as_ref());
    files.and_dns64(its).check()?;
    privilege::keep(privilege::TRANSLATOR)?;
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    let (stop, stopped) = oneshot::channel::<()>();
    let beside = |settings: Settings, watch: &Watch| {
        let beat = watch.beat("the DNS64");
        let role = role_of_dns64(&settings);
        let serve = move || {
            event_loop(&mut Builder::new_current_thread())?.block_on(async {
                tokio::select! {
                    done = dns64::run_beside(settings, beat) => done,
                    _ = stopped => Ok(()),
                }
            })
        };
        watch
            .thread_with(role, "dns64", serve)
            .map_err(|e| Failure::run_time(format!("cannot start the thread of the DNS64: {e}")))
    };
    start_log(level);
    with_watchdog(&manager, watch, |watch| {
        let beside = dns64.map(|settings| beside(settings, &watch)).transpose()?;
        let supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
        };
        let done = supervise::guarded("the translator", || {
            event_loop(Builder::new_multi_thread().worker_threads(1))?.block_on(run(supervision))
        });
        drop(stop);
        if let Some(thread) = beside {
            // Whatever it ended by, the alarm has told.
            let _ = thread.join();
        }
        done
    })
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
    // The journal has its own clock.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init();
    } else {
        log.init();
    }
}
