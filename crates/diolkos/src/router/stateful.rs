// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router's translation with state (RFC 6146): a controller, and a program for the sessions that it knows.

use std::sync::Arc;

use diolkos_core::config::nat64::Nat64Config;
use diolkos_sys::fastpath::{FastPath, Inline, Nat64Path, Nat64Rules, Prepared};
use diolkos_sys::tun::Queue;

use super::{misconfigured, rules};
use crate::accelerate;
use crate::config::Settings;
use crate::failure::Failure;
use crate::nat64::{Controller, Sweeper};
use crate::random::random;
use crate::slowpath::Engine;

/// The state, and what moves it.
pub struct Stateful {
    // In the order in which they must end.
    _sweeper: Sweeper,
    fast: Option<Nat64Path>,
    pub controller: Arc<Controller>,
    max_sessions: u32,
}

/// Another configuration, ready to be put in force.
pub struct Next {
    config: Nat64Config,
    program: Option<Prepared>,
}

impl Stateful {
    /// `queue`: where the sweeper sends.
    pub fn build(
        settings: &Settings,
        config: &Nat64Config,
        index: u32,
        inline: &[Inline],
        queue: Queue,
    ) -> Result<(Stateful, Arc<dyn Engine>), Failure> {
        config.check().map_err(|e| misconfigured(settings, e))?;
        let t = &settings.translator;
        let max_sessions = config.limits.sessions;
        let fast = accelerate::start(t, |attach| {
            let rules = of(config, index, max_sessions);
            let site = accelerate::site(t, attach, inline);
            Nat64Path::start(&rules, site, random()).map_err(accelerate::failure)
        })?;
        let sessions = fast.as_ref().map(Nat64Path::sessions);
        let controller =
            Controller::new(config, sessions).map_err(|e| misconfigured(settings, e))?;
        let controller = Arc::new(controller);
        let sweeper = Sweeper::start(controller.clone(), queue)
            .map_err(|e| Failure::run_time(format!("no thread for the timers: {e}")))?;
        let stateful = Stateful {
            _sweeper: sweeper,
            fast,
            controller: controller.clone(),
            max_sessions,
        };
        Ok((stateful, controller))
    }

    pub fn fast(&self) -> Option<&FastPath> {
        self.fast.as_deref()
    }

    pub fn prepare(
        &self,
        settings: &Settings,
        config: &Nat64Config,
        index: u32,
    ) -> Result<Next, Failure> {
        config.check().map_err(|e| misconfigured(settings, e))?;
        let program = match &self.fast {
            Some(fast) => {
                let rules = of(config, index, self.max_sessions);
                Some(fast.prepare(&rules).map_err(accelerate::failure)?)
            }
            None => None,
        };
        Ok(Next {
            config: config.clone(),
            program,
        })
    }

    pub fn commit(&mut self, settings: &Settings, next: Next) -> Result<(), Failure> {
        let (fast, program) = (&mut self.fast, next.program);
        let swap = || match (fast, program) {
            (Some(fast), Some(program)) => fast.swap(program),
            _ => Ok(()),
        };
        self.controller
            .reconfigure(&next.config, swap)
            .map_err(|e| misconfigured(settings, e))?
            .map_err(accelerate::failure)
    }
}

/// What the fast path is told: the same as the slow path, in its own words.
fn of(config: &Nat64Config, tun_ifindex: u32, max_sessions: u32) -> Nat64Rules {
    Nat64Rules {
        rules: rules::of(&config.translator, tun_ifindex),
        pref64: rules::pref64(&config.translator),
        max_sessions,
    }
}
