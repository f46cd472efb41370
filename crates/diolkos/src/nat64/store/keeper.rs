// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the state is written: at the start, when the operator changes something, now and then, and at the end.
//!
//! What is lost in a kill is what has happened since the last time, so far as no maps have it. To write four million
//! sessions takes some seconds of one CPU, so the pauses grow with it: it never takes more than a fiftieth.

use std::io;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diolkos_core::session::{BindingView, Origin, SessionView};
use ipnet::Ipv6Net;

use super::super::controller::Controller;
use super::file::StateFile;
use super::format::{Entry, Head, Writer};
use super::moment::Moment;
use crate::failure::Failure;
use crate::supervise::Watch;

/// Between two times.
const PAUSE: Duration = Duration::from_secs(60);
/// And at least so many times what it took.
const SHARE: u32 = 50;
/// How long packets pass between two parts: the controller's lock is not a fair one.
const BREATH: Duration = Duration::from_micros(100);

/// Reloads that one writing puts up with.
const TRIES: u32 = 5;

/// Of the life of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Begin,
    Between,
    End,
}

/// The running thread. Dropped, it ends, and does not write again.
pub struct Keeper {
    file: StateFile,
    controller: Arc<Controller>,
    secret: [u64; 4],
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Writes the state, so that it is known at once if it cannot be, and then whenever it is time.
    pub fn start(
        file: StateFile,
        controller: Arc<Controller>,
        secret: [u64; 4],
        watch: &Watch,
    ) -> Result<Keeper, Failure> {
        write(&file, &controller, secret, When::Begin)?;
        let (bell, rung) = channel();
        let (to, of) = (file.clone(), controller.clone());
        let keep = move || {
            let (mut pause, mut broken) = (PAUSE, false);
            loop {
                let asked = match rung.recv_timeout(pause) {
                    Ok(()) => true,
                    Err(RecvTimeoutError::Timeout) => false,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                };
                // One time is enough for all who asked until now.
                while rung.try_recv().is_ok() {}
                // Sessions that are there are used, which changes how long they have to live.
                let changed = of.take_changed() || of.counts().sessions > 0;
                if !(changed || asked || broken) {
                    continue;
                }
                let begun = Instant::now();
                let written = write(&to, &of, secret, When::Between);
                match &written {
                    Ok(()) if broken => tracing::info!("the state is written again"),
                    Err(failure) if !broken => tracing::warn!("{failure}; it is tried again"),
                    Ok(()) | Err(_) => {}
                }
                broken = written.is_err();
                pause = PAUSE.max(begun.elapsed() * SHARE);
            }
        };
        let thread = watch.thread("keeper", keep);
        let thread =
            thread.map_err(|e| Failure::run_time(format!("no thread for the state: {e}")))?;
        Ok(Keeper {
            file,
            controller,
            secret,
            bell: Some(bell),
            thread: Some(thread),
        })
    }

    /// The operator has changed something, which no map has.
    pub fn write_soon(&self) {
        if let Some(bell) = &self.bell {
            let _ = bell.send(());
        }
    }

    /// Writes the state for the last time. No packet may change it any more.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.end();
        write(&self.file, &self.controller, self.secret, When::End)
    }

    fn end(&mut self) {
        drop(self.bell.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reload in between may change what numbers of prefixes mean: then all is written anew.
fn write(
    file: &StateFile,
    controller: &Controller,
    secret: [u64; 4],
    when: When,
) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        let mut changed = false;
        let written = file.replace(|out| {
            let put = put(out, controller, secret, when);
            changed = matches!(&put, Err(error) if error.kind() == io::ErrorKind::Interrupted);
            put
        });
        tries += 1;
        if !changed || tries == TRIES {
            return written;
        }
    }
}

fn put(
    out: &mut impl io::Write,
    controller: &Controller,
    secret: [u64; 4],
    when: When,
) -> io::Result<()> {
    let pref64 = controller.pref64();
    let begun = Instant::now();
    let breath = match when {
        When::Between => BREATH,
        // Nobody waits.
        When::Begin | When::End => Duration::ZERO,
    };
    // At the beginning, no more is known than what has just come back.
    let asks = when != When::Begin;
    let head = Head {
        moment: Moment::now(),
        clean: when == When::End,
        secret,
        pref64: pref64.clone(),
    };
    let mut writer = Writer::new(out, &head)?;
    walk(
        controller,
        &pref64,
        breath,
        Controller::bindings_from,
        |view: BindingView| match view.origin {
            Origin::Operator => writer.put(&Entry::Binding(view.binding)),
            Origin::Configured | Origin::Dynamic => Ok(()),
        },
    )?;
    walk(
        controller,
        &pref64,
        breath,
        |of, first| of.sessions_from(first, asks),
        |mut view: SessionView| {
            // What it has left now, as of the moment of the head.
            view.remaining += begun.elapsed();
            writer.put(&Entry::Session(view))
        },
    )?;
    writer.finish()
}

/// A part of the tables, and where to go on.
type Part<T> = (Vec<T>, Option<u32>);

/// Reads the tables in parts; packets pass in between.
fn walk<T>(
    controller: &Controller,
    pref64: &[Ipv6Net],
    breath: Duration,
    part: impl Fn(&Controller, u32) -> Part<T>,
    mut put: impl FnMut(T) -> io::Result<()>,
) -> io::Result<()> {
    let mut next = Some(0);
    while let Some(first) = next {
        let (there, after) = part(controller, first);
        // Numbers of prefixes mean something by one list only.
        if controller.pref64() != pref64 {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the prefixes have changed meanwhile",
            ));
        }
        there.into_iter().try_for_each(&mut put)?;
        next = after;
        if !breath.is_zero() {
            std::thread::sleep(breath);
        }
    }
    Ok(())
}
