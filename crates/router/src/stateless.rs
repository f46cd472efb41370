// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateless translation of a router (RFC 7915): a translator that never changes, and a program made for
//! it.

use std::sync::Arc;

use diolkos_fastpath::{Eam, Inline, Media, Prepared, SiitPath, SiitRules};
use diolkos_p4::Switch;
use diolkos_xlat::{Config, Translator};

use super::routes::Routes;
use super::rules;
use super::survey::misconfigured;
use super::switch;
use diolkos_config::Settings;
use diolkos_datapath::rules as shared;
use diolkos_datapath::slowpath::{Engine, SlowPath};
use diolkos_datapath::{choice, DatapathError};
use diolkos_service::failure::Failure;
use diolkos_service::random::random;
use diolkos_service::supervise::Watch;

/// The fast path, if there is one; the slow path has the translator.
pub struct Stateless {
    fast: Option<SiitPath>,
    switch: Option<Arc<Switch>>,
}

/// Another configuration, ready to be put into force.
pub struct Next {
    config: Config,
    translator: Arc<Translator>,
    program: Option<Prepared>,
}

impl Stateless {
    pub fn build(
        settings: &Settings,
        config: &Config,
        index: u32,
        inline: &[Inline],
        watch: &Watch,
    ) -> Result<(Stateless, Arc<dyn Engine>), Failure> {
        let translator = Translator::new(config).map_err(|e| misconfigured(settings, e))?;
        let t = &settings.translator;
        let fast = choice::start(t, |attach| {
            choice::with_drivers(t, inline, |inline| {
                let site = choice::site(t, attach, inline);
                SiitPath::start(&of(settings, config, index, inline), site, random())
            })
        })?;
        let switch = switch::start(settings, 0, watch)?;
        if let Some(switch) = &switch {
            switch::follow_stateless(switch, config);
        }
        Ok((Stateless { fast, switch }, Arc::new(translator)))
    }

    /// Translates at additional interfaces.
    pub fn widen(&mut self, settings: &Settings, new: &[Inline]) -> Result<(), Failure> {
        let t = &settings.translator;
        match &mut self.fast {
            Some(fast) => fast
                .widen(choice::site(t, choice::attach(t), new))
                .map_err(|e| DatapathError::from(e).into()),
            None => Ok(()),
        }
    }

    pub fn fast(&self) -> Option<&diolkos_fastpath::FastPath> {
        self.fast.as_deref()
    }

    pub fn switch(&self) -> Option<&Switch> {
        self.switch.as_deref()
    }

    pub fn prepare(
        &self,
        settings: &Settings,
        config: &Config,
        index: u32,
        inline: &[Inline],
    ) -> Result<Next, Failure> {
        let translator = Translator::new(config).map_err(|e| misconfigured(settings, e))?;
        let program = match &self.fast {
            Some(fast) => Some(
                fast.prepare(&of(settings, config, index, inline))
                    .map_err(DatapathError::from)?,
            ),
            None => None,
        };
        Ok(Next {
            config: config.clone(),
            translator: Arc::new(translator),
            program,
        })
    }

    pub fn commit(&mut self, next: Next, slow: &SlowPath) -> Result<(), Failure> {
        if let (Some(fast), Some(program)) = (&mut self.fast, next.program) {
            fast.swap(program).map_err(DatapathError::from)?;
        }
        if let Some(switch) = &self.switch {
            switch::follow_stateless(switch, &next.config);
        }
        slow.swap(next.translator);
        Ok(())
    }
}

/// Returns the rules of the fast path: the same as those of the slow path, in its own form.
fn of(settings: &Settings, config: &Config, tun_ifindex: u32, inline: &[Inline]) -> SiitRules {
    let eam = config.eam.iter().map(|eam| Eam {
        v4: (eam.v4.network(), eam.v4.prefix_len()),
        v6: (eam.v6.network(), eam.v6.prefix_len()),
    });
    SiitRules {
        rules: shared::of(config, tun_ifindex),
        pref64: shared::pref64(config),
        eam: eam.collect(),
        routes: Routes::of(settings).destinations(),
        loops: config
            .loops4
            .iter()
            .map(|net| (net.network(), net.prefix_len()))
            .collect(),
        exits: rules::exits(settings, inline),
        media: Media::of(inline),
        drivers: rules::drivers(inline),
    }
}
