// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of a service: its open files, its log, its threads, and its messages to the watchdog of the service manager.
//!
//! files → log → watchdog → event loop → service

use std::future::Future;
use std::io::{self, IsTerminal};
use std::sync::mpsc;

use diolkos_sys::limit;
use tokio::runtime::{Builder, Runtime};

use crate::error;
use crate::files::Files;
use diolkos_config::port_owner;
use diolkos_config::{Dns64, Level, Settings};
use diolkos_resolver::server;
use diolkos_service::failure::Failure;
use diolkos_service::manager::Manager;
use diolkos_service::privilege;
use diolkos_service::supervise::{self, Supervision, Watch};
use diolkos_service::watchdog::Watchdog;

/// Runs a DNS64 without a translator, until a signal ends it.
///
/// `read` reads the configuration again, for a reload.
pub fn dns64_alone(
    settings: Settings,
    read: impl Fn() -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    let files = Files::default().and_dns64(settings.dns64.as_ref());
    files.check()?;
    port_owner::note(&settings);
    privilege::seal()?;
    // Untrusted queries fill the cache and the queues.
    if let Some(memory) = settings.dns64.as_ref().map(server::memory) {
        limit::small(memory)
            .map_err(|e| error::run_time(format!("cannot limit the DNS64's memory: {e}")))?;
    }
    privilege::keep(match hears_routers(&settings) {
        true => privilege::HEARING_DNS64,
        false => privilege::DNS64,
    })?;
    start_log(settings.log.level);
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    // A configuration with more resolvers needs more files.
    let read = || {
        let settings = read()?;
        let files = Files::default().and_dns64(settings.dns64.as_ref());
        files.check().map(|()| settings)
    };
    with_watchdog(&manager, watch, |watch| {
        let supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
        };
        supervise::guarded("the program", || {
            event_loop(&mut Builder::new_current_thread())?.block_on(server::run(
                settings,
                read,
                supervision,
            ))
        })
    })
}

fn hears_routers(settings: &Settings) -> bool {
    let dns64 = settings.dns64.as_ref();
    dns64.is_some_and(Dns64::follows_network)
}

/// Does some work, and meanwhile tells the service manager's watchdog that all loops make progress.
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
                .map_err(|e| error::run_time(format!("cannot start the watchdog's thread: {e}")))?,
        ),
    };
    let done = work(watch);
    drop(end);
    if let Some(keeper) = keeper {
        // The alarm has reported the reason of its end.
        let _ = keeper.join();
    }
    done
}

/// Runs a translator, until a signal ends it or it fails.
pub fn translator<F: Future<Output = Result<(), Failure>>>(
    files: Files,
    level: Level,
    run: impl FnOnce(Supervision) -> F,
) -> Result<(), Failure> {
    files.check()?;
    privilege::seal()?;
    let manager = Manager::of_environment();
    let (watch, alarm) = supervise::pair_with(Watchdog::of(&manager));
    privilege::keep(privilege::TRANSLATOR)?;
    start_log(level);
    with_watchdog(&manager, watch, |watch| {
        let supervision = Supervision {
            watch,
            alarm,
            manager: manager.clone(),
        };
        supervise::guarded("the translator", || {
            let mut builder = Builder::new_multi_thread();
            event_loop(builder.worker_threads(1))?.block_on(run(supervision))
        })
    })
}

/// Does some work in this process that is no service of its own.
pub fn foreground(
    files: Files,
    level: Level,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    files.check()?;
    privilege::keep(privilege::TRANSLATOR)?;
    start_log(level);
    supervise::guarded("the program", || {
        event_loop(&mut Builder::new_current_thread())?.block_on(work)
    })
}

fn event_loop(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder
        .enable_all()
        .build()
        .map_err(|e| error::run_time(format!("cannot start the event loop: {e}")))
}

fn start_log(level: Level) {
    let level = match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
        Level::Trace => tracing::Level::TRACE,
    };
    // Libraries log only warnings and errors. What the query log says is a matter of its own key.
    let filter = tracing_subscriber::EnvFilter::new(format!(
        "warn,diolkos={level},{}=info",
        server::QUERY_LOG
    ));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // That would be written to the same stderr, and end the program where nobody reads it.
        .log_internal_errors(false)
        .with_target(false);
    // The journal adds its own time stamps.
    match std::env::var_os("JOURNAL_STREAM").is_none() {
        true => log.init(),
        false => log.without_time().init(),
    }
}
