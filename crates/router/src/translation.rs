// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router's translation, stateless or stateful: how it is built, and prepared for another configuration.

use std::sync::Arc;

use diolkos_fastpath::{FastPath, Inline};
use diolkos_p4::Switch;
use diolkos_sys::tun::Queue;
use diolkos_xlat::ErrorSources;

use super::error::RouterError;
use super::stateful::{self, Past, Stateful};
use super::stateless::{self, Stateless};
use diolkos_config::{AutoValues, Mode, Settings};
use diolkos_datapath::slowpath::{Engine, SlowPath};
use diolkos_gateway::Controller;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::Watch;

/// The translation at the TUN device, apart from the threads that read from it.
pub enum Translation {
    Stateless(Stateless),
    Stateful(Box<Stateful>),
}

/// A translation, with its other owners.
pub struct Built {
    pub translation: Translation,
    /// The owner of a NAT64's tables.
    pub controller: Option<Arc<Controller>>,
    /// The slow path gives each packet to it.
    pub engine: Arc<dyn Engine>,
}

/// Another configuration, ready to be put into force.
pub enum Next {
    Stateless(Box<stateless::Next>),
    Stateful(Box<stateful::Next>),
}

impl Translation {
    /// Builds the translation. `index` is that of the TUN device; `inline` are the other places where packets are
    /// translated; `queue` is a queue of the device to send through; `past` is what an earlier run has left.
    pub fn build(
        settings: &Settings,
        found: AutoValues,
        index: u32,
        inline: &[Inline],
        queue: impl FnOnce() -> Result<Queue, Failure>,
        past: Past<'_>,
        watch: &Watch,
    ) -> Result<Built, Failure> {
        warn_without_source(settings, found);
        match settings.translator.mode {
            Mode::Nat64 => {
                let config = settings.stateful(found);
                let (stateful, controller) =
                    Stateful::build(settings, &config, index, inline, queue()?, past, watch)?;
                Ok(Built {
                    translation: Translation::Stateful(Box::new(stateful)),
                    engine: controller.clone(),
                    controller: Some(controller),
                })
            }
            Mode::Clat | Mode::Siit => {
                let config = settings.translation(found);
                let (stateless, engine) =
                    Stateless::build(settings, &config, index, inline, watch)?;
                Ok(Built {
                    translation: Translation::Stateless(stateless),
                    engine,
                    controller: None,
                })
            }
        }
    }

    /// Prepares everything that another configuration needs, and changes nothing.
    pub fn prepare(
        &self,
        settings: &Settings,
        found: AutoValues,
        index: u32,
        inline: &[Inline],
    ) -> Result<Next, Failure> {
        warn_without_source(settings, found);
        match self {
            Translation::Stateless(stateless) => {
                let config = settings.translation(found);
                let next = stateless.prepare(settings, &config, index, inline)?;
                Ok(Next::Stateless(Box::new(next)))
            }
            Translation::Stateful(stateful) => {
                let config = settings.stateful(found);
                let next = stateful.prepare(settings, &config, index, inline)?;
                Ok(Next::Stateful(Box::new(next)))
            }
        }
    }

    /// Puts it into force. A packet is translated by the old configuration or by the new one. `controller` owns the
    /// tables of a NAT64.
    pub fn commit(
        &mut self,
        controller: Option<&Arc<Controller>>,
        settings: &Settings,
        next: Next,
        slow: &SlowPath,
    ) -> Result<(), Failure> {
        match (self, next, controller) {
            (Translation::Stateless(stateless), Next::Stateless(next), None) => {
                stateless.commit(*next, slow)
            }
            (Translation::Stateful(stateful), Next::Stateful(next), Some(controller)) => {
                stateful.commit(controller, settings, *next)
            }
            // `fixed_keys::refusal` prevents this.
            _ => Err(RouterError::Mode.into()),
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

    /// Returns the threads of a NAT64, and its programs.
    pub fn stateful(&self) -> Option<&Stateful> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful),
        }
    }

    /// The same, to change them.
    pub fn stateful_mut(&mut self) -> Option<&mut Stateful> {
        match self {
            Translation::Stateless(_) => None,
            Translation::Stateful(stateful) => Some(stateful),
        }
    }
}

fn warn_without_source(settings: &Settings, found: AutoValues) {
    if ErrorSources::of(&settings.translation(found))
        .address6
        .is_none()
    {
        tracing::warn!(
            "cannot send ICMPv6 errors, because no source address is known: set icmp.address6"
        );
    }
}
