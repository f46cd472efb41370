// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How packets cross a router: without state or with it. One face for both.

use std::future::ready;
use std::sync::Arc;

use diolkos_core::ErrorSources;
use diolkos_sys::fastpath::{FastPath, Homes, Inline, Pins, Sessions};
use diolkos_sys::tun::Queue;
use futures_util::future::{BoxFuture, FutureExt};

use super::stateful::{self, Past, Stateful};
use super::stateless::{self, Stateless};
use crate::control::Finding;
use crate::nat64::alarms::Alarms;
use crate::nat64::Controller;
use crate::slowpath::{Engine, SlowPath};
use diolkos_config::{Found, Mode, Settings};
use diolkos_figures::counters::{Counter, Tally};
use diolkos_figures::figures::StateFigures;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::Watch;

/// What translates at the TUN device, apart from the threads that read from it.
pub enum Translation {
    Stateless(Stateless),
    Stateful(Box<Stateful>),
}

/// Another configuration, ready to be put in force.
pub enum Next {
    Stateless(stateless::Next),
    Stateful(Box<stateful::Next>),
}

impl Translation {
    /// `index`: of the TUN device; `inline`: where else packets are translated; `queue`: one of the device's, to send
    /// through; `past`: what an earlier run has left.
    pub fn build(
        settings: &Settings,
        found: Found,
        index: u32,
        inline: &[Inline],
        queue: impl FnOnce() -> Result<Queue, Failure>,
        past: Past<'_>,
        watch: &Watch,
    ) -> Result<(Translation, Arc<dyn Engine>), Failure> {
        warn_without_source(settings, found);
        match settings.translator.mode {
            Mode::Nat64 => {
                let config = settings.stateful(found);
                let (stateful, engine) =
                    Stateful::build(settings, &config, index, inline, queue()?, past, watch)?;
                Ok((Translation::Stateful(Box::new(stateful)), engine))
            }
            Mode::Clat | Mode::Siit => {
                let config = settings.translation(found);
                let (stateless, engine) = Stateless::build(settings, &config, index, inline)?;
                Ok((Translation::Stateless(stateless), engine))
            }
        }
    }

    /// Makes everything that another configuration needs, and changes nothing.
    pub fn prepare(
        &self,
        settings: &Settings,
        found: Found,
        index: u32,
        inline: &[Inline],
    ) -> Result<Next, Failure> {
        warn_without_source(settings, found);
        match self {
            Translation::Stateless(stateless) => {
                let config = settings.translation(found);
                Ok(Next::Stateless(
                    stateless.prepare(settings, &config, index, inline)?,
                ))
            }
            Translation::Stateful(stateful) => {
                let config = settings.stateful(found);
                let next = stateful.prepare(settings, &config, index, inline)?;
                Ok(Next::Stateful(Box::new(next)))
            }
        }
    }

    /// Puts it in force. A packet is translated by the old configuration or by the new one.
    pub fn commit(
        &mut self,
        settings: &Settings,
        next: Next,
        slow: &SlowPath,
    ) -> Result<(), Failure> {
        match (self, next) {
            (Translation::Stateless(stateless), Next::Stateless(next)) => {
                stateless.commit(next, slow)
            }
            (Translation::Stateful(stateful), Next::Stateful(next)) => {
                stateful.commit(settings, *next)
            }
            // `fixed_keys::refusal` has seen to it.
            _ => Err(Failure::run_time("the mode cannot change")),
        }
    }

    /// Translates at interfaces that were not there before, too.
    pub fn widen(&mut self, settings: &Settings, new: &[Inline]) -> Result<(), Failure> {
        match self {
            Translation::Stateless(stateless) => stateless.widen(settings, new),
            Translation::Stateful(stateful) => stateful.widen(settings, new),
        }
    }

    /// The fast path, if there is one.
    pub fn fast(&self) -> Option<&FastPath> {
        match self {
            Translation::Stateless(stateless) => stateless.fast(),
            Translation::Stateful(stateful) => stateful.fast(),
        }
    }

    /// Lets the fast path stay in the kernel beyond the process.
    pub fn keep(&mut self, pins: &Pins) -> Result<(), Failure> {
        match self {
            Translation::Stateless(_) => Ok(()),
            Translation::Stateful(stateful) => stateful.keep(pins),
        }
    }

    /// Takes [`Translation::keep`] back.
    pub fn release(&mut self, pins: &Pins) {
        if let Translation::Stateful(stateful) = self {
            stateful.release(pins);
        }
    }

    /// The operator has changed something that is to survive.
    pub fn write_soon(&self) {
        if let Translation::Stateful(stateful) = self {
            stateful.write_soon();
        }
    }

    /// Waits until what the operator has changed survives a restart, so far as it is to.
    pub fn write_now(&self) -> BoxFuture<'static, Result<(), Failure>> {
        match self {
            Translation::Stateless(_) => ready(Ok(())).boxed(),
            Translation::Stateful(stateful) => stateful.write_now(),
        }
    }

    /// How often the state file could not be written.
    pub fn unwritten(&self) -> u64 {
        match self {
            Translation::Stateless(_) => 0,
            Translation::Stateful(stateful) => stateful.unwritten(),
        }
    }

    /// What cannot be written: the state file, the log of bindings.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Translation::Stateless(_) => Vec::new(),
            Translation::Stateful(stateful) => stateful.findings(),
        }
    }

    /// Ends what moves the state, and writes it, once no packet comes any more.
    pub fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Translation::Stateless(_) => Ok(()),
            Translation::Stateful(stateful) => stateful.finish(),
        }
    }

    /// The owner of the sessions, if there are any.
    pub fn controller(&self) -> Option<&Controller> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(&stateful.controller),
        }
    }

    /// Figures of its tables, if there are any.
    pub fn state_figures(&self) -> Option<StateFigures> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful.figures()),
        }
    }

    /// The alarms of its tables, if there are any.
    pub fn alarms(&self) -> Option<&Alarms> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(&stateful.alarms),
        }
    }

    /// The controller for another thread.
    pub fn shared_controller(&self) -> Option<Arc<Controller>> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful.controller.clone()),
        }
    }

    /// What programs and the rest share of a NAT64, if it has programs: sessions, and the homes of hosts.
    pub fn shared_maps(&self) -> Option<(Arc<Sessions>, Arc<Homes>)> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => stateful.shared_maps(),
        }
    }

    /// What became of records of bindings.
    pub fn log_counters(&self) -> Vec<Counter> {
        match self {
            Translation::Stateless(_) => Vec::new(),
            Translation::Stateful(stateful) => stateful.log_counters(),
        }
    }

    /// What is counted beside the readers.
    pub fn tally(&self) -> Option<Arc<Tally>> {
        self.controller().map(|controller| controller.tally.clone())
    }
}

fn warn_without_source(settings: &Settings, found: Found) {
    if ErrorSources::of(&settings.translation(found))
        .address6
        .is_none()
    {
        tracing::warn!(
            "cannot send ICMPv6 errors, because no source address is known: set icmp.address6"
        );
    }
}
