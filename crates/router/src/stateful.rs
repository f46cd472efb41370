// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translation of a router (RFC 6146): a controller, and a program for the sessions that it knows.

use diolkos_datapath::choice;
use diolkos_datapath::DatapathError;
use std::future::ready;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{
    Attach, FastPath, Homes, Inherited, Inline, Lending, Media, Nat64Path, Nat64Rules, Old, Pins,
    PreparedNat64, Sessions,
};
use diolkos_nat64::config::Nat64Config;
use diolkos_p4::Switch;
use diolkos_sys::memory;
use diolkos_sys::tun::Queue;
use futures_util::future::{BoxFuture, FutureExt};

use super::error::RouterError;
use super::pcp;
use super::rules;
use super::survey::misconfigured;
use super::switch;
use diolkos_bindlog::{BindlogError, Logs};
use diolkos_config::Settings;
use diolkos_control::translator::{Finding, Reason};
use diolkos_datapath::rules as shared;
use diolkos_figures::counters::Counter;
use diolkos_figures::figures::StateFigures;
use diolkos_gateway::alarms::{AlarmThread, Alarms};
use diolkos_gateway::store::{self, StateFile, StateSaver, StoredState};
use diolkos_gateway::{lister, own_networks, Controller, Listener, Log, Pcp, Sweeper};
use diolkos_service::error::ServiceError;
use diolkos_service::failure::Failure;
use diolkos_service::random::random;
use diolkos_service::signals::Came;
use diolkos_service::supervise::Watch;

/// The programs of a NAT64, and the threads that keep its tables. The gateway has the controller, which owns the tables.
pub struct Stateful {
    // In the order in which they must end.
    alarm_thread: Option<AlarmThread>,
    sweeper: Option<Sweeper>,
    saver: Option<StateSaver>,
    pcp: Option<Pcp>,
    listener: Option<Listener>,
    fast: Option<Nat64Path>,
    switch: Option<Arc<Switch>>,
    logs: Logs,
    watch: Watch,
    pub alarms: Arc<Alarms>,
    has_file: bool,
    /// Sizes of the maps when they were created: sessions, bindings.
    sizes: [u32; 2],
}

/// The leftovers of an earlier run, besides its file.
#[derive(Clone, Copy)]
pub struct Past<'a> {
    /// The pins of its programs, which still translate.
    pub pins: Option<&'a Pins>,
    /// Addresses of this host, which no binding can have any more.
    pub own: &'a [Ipv4Addr],
    /// Tells whether a signal has arrived, after which a restore is pointless.
    pub came: &'a Came,
}

/// Another configuration, ready to be put into force.
pub struct Next {
    config: Nat64Config,
    program: Option<PreparedNat64>,
    pcp: Option<pcp::Next>,
}

impl Stateful {
    /// Builds the translation. The sweeper sends through `queue`. With a state file, the tables of the earlier run are
    /// restored before any new program sees a packet.
    pub fn build(
        settings: &Settings,
        config: &Nat64Config,
        index: u32,
        inline: &[Inline],
        queue: Queue,
        past: Past<'_>,
        watch: &Watch,
    ) -> Result<(Stateful, Arc<Controller>), Failure> {
        config.check().map_err(|e| misconfigured(settings, e))?;
        Logs::check(settings, true)?;
        let next_pcp = pcp::prepare(settings, None, true)?;
        let (file, mut found) = read(settings)?;
        let secret = secret(&found);

        let sizes = [config.limits.sessions, config.limits.bindings];
        let rules = |inline: &[Inline]| of(settings, config, index, sizes, inline);
        let (fast, old) = fast_path(settings, rules, inline, past)?;
        let (mut fast, lending) = fast.unzip();
        let sessions = fast.as_ref().map(Nat64Path::sessions);
        let switch = switch::start(settings, config.limits.sessions, watch)?;
        let controller = match &switch {
            Some(switch) => {
                switch::follow_stateful(switch, config);
                Controller::beside(config, switch.clone(), secret)
            }
            None => Controller::new(config, sessions.zip(lending), secret),
        };
        let controller = controller.map_err(|e| misconfigured(settings, e))?;
        let controller = Arc::new(controller);
        let has_past = !matches!(found, StoredState::Nothing) || old.is_some();
        restore(&controller, &mut found, old.as_ref(), past)?;
        if let (Some(fast), Some(_)) = (&mut fast, &old) {
            fast.take_over().map_err(DatapathError::from)?;
        }
        controller.tell_unbound();
        let mut logs = Logs::new();
        log(&mut logs, &controller, settings, watch)?;
        let [pool0, pool1, ..] = secret;
        let interval = Duration::from_secs(settings.nat64.state_interval);
        let keep = |file| {
            let secret = [pool0, pool1];
            StateSaver::start(file, controller.clone(), secret, interval, has_past, watch)
        };
        let saver = file.map(keep).transpose()?;
        let sweeper =
            Sweeper::start(controller.clone(), queue, watch).map_err(unstarted("of the timers"))?;
        let listener = Listener::start(controller.clone(), watch)
            .map_err(unstarted("that receives what the fast path opens"))?;
        let mut asked = None;
        pcp::follow(&mut asked, next_pcp, &controller, watch)?;
        let alarms = Arc::new(Alarms::default());
        alarms.follow(settings.nat64.alarm_percent, logs.queues());
        let alarm_thread = AlarmThread::start(alarms.clone(), controller.clone(), watch)
            .map_err(unstarted("of the alarms"))?;
        let stateful = Stateful {
            alarm_thread: Some(alarm_thread),
            sweeper: Some(sweeper),
            saver,
            pcp: asked,
            listener,
            fast,
            switch,
            logs,
            watch: watch.clone(),
            alarms,
            has_file: settings.nat64.state().is_some(),
            sizes,
        };
        Ok((stateful, controller))
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

    /// Has the programs stay in the kernel after the process ends.
    pub fn keep(&mut self, pins: &Pins) -> Result<(), Failure> {
        let Some(fast) = &mut self.fast else {
            return Ok(());
        };
        let kept = fast.keep(pins);
        kept.map_err(|source| {
            let what = "the programs";
            RouterError::NotKept { what, source }.into()
        })
    }

    /// Reverses [`Stateful::keep`].
    pub fn release(&mut self, pins: &Pins) {
        if let Some(fast) = &mut self.fast {
            fast.release(pins);
        }
    }

    /// Requests a write after a change by the operator that must survive.
    pub fn write_soon(&self) {
        if let Some(saver) = &self.saver {
            saver.write_soon();
        }
    }

    /// Waits until the current state is durable; returns at once if it need not be.
    pub fn write_now(&self) -> BoxFuture<'static, Result<(), Failure>> {
        match &self.saver {
            Some(saver) => saver
                .write_now()
                .map(|written| written.map_err(Failure::from))
                .boxed(),
            None => ready(Ok(())).boxed(),
        }
    }

    /// Returns how often the state file could not be written.
    pub fn unwritten(&self) -> u64 {
        self.saver.as_ref().map_or(0, StateSaver::failures)
    }

    /// Returns findings about failed writes: of the state file, and of the binding log.
    pub fn findings(&self) -> Vec<Finding> {
        let broken = self.saver.as_ref().and_then(StateSaver::broken);
        let unsaved = broken.map(|why| {
            let text = format!("{why}; a restart loses what has changed since then; retrying");
            Finding::trouble(Reason::StateFile, text)
        });
        let away = self.logs.away().into_iter();
        let away = away.map(|text| Finding::trouble(Reason::Log, text));
        unsaved.into_iter().chain(away).collect()
    }

    /// Ends the threads that change the tables, and writes them, once no packet arrives any more.
    pub fn finish(&mut self, controller: &Controller) -> Result<(), Failure> {
        self.alarm_thread = None;
        // What nodes have asked for does not outlast the epoch, and their own sessions do (RFC 6887 section 8.5).
        self.pcp = None;
        self.sweeper = None;
        self.listener = None;
        if controller.is_broken() {
            // As after a kill: the next start has the last file, which is whole, and the maps.
            self.saver = None;
            return Err(RouterError::Broken.into());
        }
        // Anything that programs opened after the last write would have no owner.
        controller.stop_lending();
        let written = self.saver.take().map_or(Ok(()), StateSaver::finish);
        self.logs.finish();
        Ok(written?)
    }

    pub fn switch(&self) -> Option<&Switch> {
        self.switch.as_deref()
    }

    /// Returns true if a next run has the state of this one.
    pub fn has_file(&self) -> bool {
        self.has_file
    }

    pub fn fast(&self) -> Option<&FastPath> {
        self.fast.as_deref()
    }

    /// Returns the maps that programs share with other parts, if there are programs: sessions, and the homes of hosts.
    pub fn shared_maps(&self) -> Option<(Arc<Sessions>, Arc<Homes>)> {
        let fast = self.fast.as_ref();
        fast.map(|fast| (fast.sessions(), fast.homes()))
    }

    pub fn prepare(
        &self,
        settings: &Settings,
        config: &Nat64Config,
        index: u32,
        inline: &[Inline],
    ) -> Result<Next, Failure> {
        config.check().map_err(|e| misconfigured(settings, e))?;
        Logs::check(settings, false)?;
        let program = match &self.fast {
            Some(fast) => {
                let rules = of(settings, config, index, self.sizes, inline);
                Some(fast.prepare(&rules).map_err(DatapathError::from)?)
            }
            None => None,
        };
        Ok(Next {
            config: config.clone(),
            program,
            pcp: pcp::prepare(settings, self.pcp.as_ref(), false)?,
        })
    }

    /// Puts it into force. A packet is translated by the old configuration or by the new one.
    pub fn commit(
        &mut self,
        controller: &Arc<Controller>,
        settings: &Settings,
        next: Next,
    ) -> Result<(), Failure> {
        let (fast, program) = (&mut self.fast, next.program);
        let switch = self.switch.as_deref();
        let swap = || {
            if let Some(switch) = switch {
                switch::follow_stateful(switch, &next.config);
            }
            match (fast, program) {
                (Some(fast), Some(program)) => fast.swap(program),
                _ => Ok(()),
            }
        };
        controller
            .reconfigure(&next.config, swap)
            .map_err(|e| misconfigured(settings, e))?
            .map_err(DatapathError::from)?;
        log(&mut self.logs, controller, settings, &self.watch)?;
        pcp::follow(&mut self.pcp, next.pcp, controller, &self.watch)?;
        self.alarms
            .follow(settings.nat64.alarm_percent, self.logs.queues());
        Ok(())
    }

    /// Returns figures of the tables, and how full they are.
    pub fn figures(&self, controller: &Controller) -> StateFigures {
        let mut figures = controller.figures();
        self.alarms.add_to(&mut figures);
        figures
    }

    /// Returns the counters of binding records, and those of PCP.
    pub fn counters(&self) -> Vec<Counter> {
        let pcp = self.pcp.as_ref().map_or(Vec::new(), Pcp::counters);
        self.logs.counters().into_iter().chain(pcp).collect()
    }
}

/// Sends bindings to collectors, according to the settings.
fn log(
    logs: &mut Logs,
    controller: &Arc<Controller>,
    settings: &Settings,
    watch: &Watch,
) -> Result<(), BindlogError> {
    logs.follow(
        settings,
        watch,
        |sessions| lister(controller, sessions),
        |recorders| controller.record(|nat64| Log::to(recorders, nat64)),
    )
}

/// Opens the state file, if it is configured, and reads what an earlier run has left in it.
fn read(settings: &Settings) -> Result<(Option<StateFile>, StoredState), Failure> {
    let mut file = settings.nat64.state().map(StateFile::new).transpose()?;
    if let Some(file) = &mut file {
        file.claim(&settings.translator.device)?;
    }
    let found = file
        .as_mut()
        .map_or(Ok(StoredState::Nothing), StateFile::read)?;
    Ok((file, found))
}

/// Fails if there is a state file that cannot be read.
pub fn check_file(settings: &Settings) -> Result<(), Failure> {
    read(settings).map(|_| ())
}

/// Returns the secrets of the controller. The pool's is that of the earlier run, so that a source keeps its address.
/// The keys of hash tables are new: what an attacker learnt of them in an earlier run is useless.
fn secret(found: &StoredState) -> [u64; 4] {
    let [pool0, pool1] = found.secret().unwrap_or_else(|| [random(), random()]);
    [pool0, pool1, random(), random()]
}

/// A fast path, if there is to be one, and what its programs have that the tables follow.
type Laid = (Option<(Nat64Path, Lending)>, Option<Old>);

/// Takes over an earlier run's fast path, with new programs that are not yet active, or makes a new one.
fn fast_path(
    settings: &Settings,
    rules: impl Fn(&[Inline]) -> Nat64Rules,
    inline: &[Inline],
    past: Past<'_>,
) -> Result<Laid, Failure> {
    let t = &settings.translator;
    let Some(pins) = past.pins else {
        let fast = choice::start(t, |attach| {
            choice::with_drivers(t, inline, |inline| {
                let site = choice::site(t, attach, inline);
                Nat64Path::start(&rules(inline), site, [random(), random()])
            })
        })?;
        return Ok((fast, None));
    };
    let attach: Attach = choice::attach(t);
    let inherited = choice::with_drivers(t, inline, |inline| {
        let site = choice::site(t, attach, inline);
        Nat64Path::inherit(&rules(inline), site, pins, [random(), random()])
    })?;
    match inherited {
        Some(Inherited { path, lending, old }) => Ok((Some((path, lending)), Some(old))),
        None => Err(RouterError::ProgramsGone.into()),
    }
}

/// The error of a thread that does not start.
fn unstarted(purpose: &'static str) -> impl FnOnce(std::io::Error) -> ServiceError {
    move |source| ServiceError::Thread { purpose, source }
}

fn restore(
    controller: &Controller,
    found: &mut StoredState,
    old: Option<&Old>,
    past: Past<'_>,
) -> Result<(), Failure> {
    if matches!(found, StoredState::Nothing) && old.is_none() {
        return Ok(());
    }
    if let Some(Old::Unknown) = old {
        tracing::info!(
            "the kernel holds another version of the programs: sessions that only its maps have are lost"
        );
    }
    let restored = store::restore(controller, found, old, past.own, &|| past.came.already());
    let restored = restored.map_err(RouterError::State)?;
    memory::give_back();
    match restored.refused.is_empty() {
        true => tracing::info!("{restored}"),
        false => tracing::warn!("{restored}"),
    }
    Ok(())
}

/// Returns the rules of the fast path: the same as those of the slow path, in its own form.
fn of(
    settings: &Settings,
    config: &Nat64Config,
    tun_ifindex: u32,
    sizes: [u32; 2],
    inline: &[Inline],
) -> Nat64Rules {
    let [max_sessions, max_bindings] = sizes;
    let own = own_networks(config);
    Nat64Rules {
        rules: shared::of(&config.translator, tun_ifindex),
        pref64: shared::pref64(&config.translator),
        max_sessions,
        exits: rules::exits(settings, inline),
        media: Media::of(inline),
        drivers: rules::drivers(inline),
        max_bindings,
        own: own
            .iter()
            .map(|net| (net.network(), net.prefix_len()))
            .collect(),
        // Bindings of others that packets ask for; a machine with more of them sends by the home.
        max_away: settings.cluster.as_ref().map_or(0, |_| max_bindings),
        heard: heard(config.translator.icmp.rate),
    }
}

/// How many unsolicited packets each CPU leaves to the slow path in a thirtieth of a second, so that it can answer as many
/// as it may answer, `rate` a second.
fn heard(rate: u32) -> u32 {
    (rate / 30).saturating_mul(2).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_gateway::store::format::Salvage;

    #[test]
    fn of_an_earlier_runs_secrets_only_the_pools_goes_on() {
        let found = StoredState::Part(Salvage {
            secret: Some([1, 2]),
            ..Salvage::default()
        });
        let [first, second] = [secret(&found), secret(&found)];
        assert_eq!(
            (first[..2].to_vec(), second[..2].to_vec()),
            (vec![1, 2], vec![1, 2])
        );
        assert!(first[2] != second[2] && first[3] != second[3]);
        assert_ne!(
            secret(&StoredState::Nothing)[..2],
            secret(&StoredState::Nothing)[..2]
        );
    }
}
