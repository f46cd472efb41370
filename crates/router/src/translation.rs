// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router's translation, stateless or stateful, behind one interface.

use std::future::ready;
use std::sync::Arc;

use diolkos_fastpath::{FastPath, Homes, Inline, Pins, Sessions};
use diolkos_p4::Switch;
use diolkos_sys::tun::Queue;
use diolkos_xlat::ErrorSources;
use futures_util::future::{BoxFuture, FutureExt};

use super::stateful::{self, Past, Stateful};
use super::stateless::{self, Stateless};
use diolkos_config::{Found, Mode, Settings};
use diolkos_control::control::Finding;
use diolkos_datapath::slowpath::{Engine, SlowPath};
use diolkos_figures::counters::{Counter, Tally};
use diolkos_figures::figures::StateFigures;
use diolkos_gateway::alarms::Alarms;
use diolkos_gateway::Controller;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::Watch;

/// The translation at the TUN device, apart from the threads that read from it.
pub enum Translation {
    Stateless(Stateless),
    Stateful(Box<Stateful>),
}

/// Another configuration, ready to be put into force.
pub enum Next {
    Stateless(stateless::Next),
    Stateful(Box<stateful::Next>),
}

impl Translation {
    /// Builds the translation. `index` is that of the TUN device; `inline` are the other places where packets are
    /// translated; `queue` is a queue of the device to send through; `past` is what an earlier run has left.
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
                let (stateless, engine) =
                    Stateless::build(settings, &config, index, inline, watch)?;
                Ok((Translation::Stateless(stateless), engine))
            }
        }
    }

    /// Prepares everything that another configuration needs, and changes nothing.
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

    /// Puts it into force. A packet is translated by the old configuration or by the new one.
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
            // `fixed_keys::refusal` prevents this.
            _ => Err(Failure::run_time("the mode cannot change")),
        }
    }

    /// Translates at additional interfaces.
    pub fn widen(&mut self, settings: &Settings, new: &[Inline]) -> Result<(), Failure> {
        match self {
            Translation::Stateless(stateless) => stateless.widen(settings, new),
            Translation::Stateful(stateful) => stateful.widen(settings, new),
        }
    }

    /// Returns the fast path, if there is one.
    pub fn fast(&self) -> Option<&FastPath> {
        match self {
            Translation::Stateless(stateless) => stateless.fast(),
            Translation::Stateful(stateful) => stateful.fast(),
        }
    }

    /// Returns the P4 switch, if there is to be one.
    pub fn switch(&self) -> Option<&Switch> {
        match self {
            Translation::Stateless(stateless) => stateless.switch(),
            Translation::Stateful(stateful) => stateful.switch(),
        }
    }

    /// Leaves the switch with what it has, if a next run takes it over from the state file; otherwise with nothing.
    pub fn leave_switch(&self, ends_for_good: bool) {
        let goes_on = self.stateful().is_some_and(Stateful::has_file);
        if let Some(switch) = self.switch() {
            switch.finish(ends_for_good || !goes_on);
        }
    }

    fn stateful(&self) -> Option<&Stateful> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful),
        }
    }

    fn stateful_mut(&mut self) -> Option<&mut Stateful> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful),
        }
    }

    /// Has the fast path stay in the kernel after the process ends.
    pub fn keep(&mut self, pins: &Pins) -> Result<(), Failure> {
        let kept = self.stateful_mut().map(|stateful| stateful.keep(pins));
        kept.unwrap_or(Ok(()))
    }

    /// Reverses [`Translation::keep`].
    pub fn release(&mut self, pins: &Pins) {
        if let Some(stateful) = self.stateful_mut() {
            stateful.release(pins);
        }
    }

    /// Requests a write after a change by the operator that must survive.
    pub fn write_soon(&self) {
        if let Some(stateful) = self.stateful() {
            stateful.write_soon();
        }
    }

    /// Waits until the operator's changes survive a restart, if they should.
    pub fn write_now(&self) -> BoxFuture<'static, Result<(), Failure>> {
        let written = self.stateful().map(Stateful::write_now);
        written.unwrap_or_else(|| ready(Ok(())).boxed())
    }

    /// Returns how often the state file could not be written.
    pub fn unwritten(&self) -> u64 {
        self.stateful().map_or(0, Stateful::unwritten)
    }

    /// Returns findings about failed writes: of the state file, and of the binding log.
    pub fn findings(&self) -> Vec<Finding> {
        self.stateful().map_or_else(Vec::new, Stateful::findings)
    }

    /// Ends the threads that change the state, and writes it, once no packet arrives any more.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.stateful_mut().map_or(Ok(()), Stateful::finish)
    }

    /// Returns the owner of the sessions, if there are any.
    pub fn controller(&self) -> Option<&Controller> {
        self.stateful().map(|stateful| &*stateful.controller)
    }

    /// Returns figures of its tables, if there are any.
    pub fn state_figures(&self) -> Option<StateFigures> {
        self.stateful().map(Stateful::figures)
    }

    /// Returns the alarms of its tables, if there are any.
    pub fn alarms(&self) -> Option<&Alarms> {
        self.stateful().map(|stateful| &*stateful.alarms)
    }

    /// Returns the controller for another thread.
    pub fn shared_controller(&self) -> Option<Arc<Controller>> {
        self.stateful().map(|stateful| stateful.controller.clone())
    }

    /// Returns the maps that programs of a NAT64 share with other parts, if it has programs: sessions, and the homes
    /// of hosts.
    pub fn shared_maps(&self) -> Option<(Arc<Sessions>, Arc<Homes>)> {
        self.stateful().and_then(Stateful::shared_maps)
    }

    /// Returns the counters of binding records.
    pub fn log_counters(&self) -> Vec<Counter> {
        self.stateful()
            .map_or_else(Vec::new, Stateful::log_counters)
    }

    /// Returns what is counted outside the readers.
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
