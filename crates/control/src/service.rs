// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop of every translator and the parts that all translators share: signals, supervision, the configuration of the TUN
//! device, and requests of clients.
//!
//! notification → settled → the service checks again; own routes and addresses → restored; request → answer; signal, alarm →
//! end. After each event the service manager is told the state of the service, if that has changed.
//!
//! The loop may take its time for its own work, for example for a new configuration. Work that must not wait for it runs on the
//! runtime's worker or on a thread: Neighbour Discovery, netlink, signals, large answers.

mod notify;
mod settle;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use tokio::time::MissedTickBehavior;

use crate::translator::{Answer, Condition, Control, Request};
use diolkos_kernel::error::KernelError;
use diolkos_kernel::net::{DeviceConfig, Event, Net, News, RouteNews};
use diolkos_service::confinement;
use diolkos_service::failure::Failure;
use diolkos_service::manager::Manager;
use diolkos_service::signals::Signals;
use diolkos_service::supervise::{self, Alarm, Supervision, Task, Watch};
use diolkos_service::watchdog::Heartbeat;

use notify::Notified;
use settle::{Checks, Restoring, Settling};

pub use settle::until;
pub use waiting::wait_for;

/// Time limit for one step of the loop; each of a million routes is a request to the kernel. After that the loop counts as
/// hung.
const LONGEST_WORK: Duration = Duration::from_secs(120);

/// Interval between checks of forwarding, since the kernel does not report every change of it.
const FORWARDING: Duration = Duration::from_secs(2);

/// The environment that a service runs in.
pub struct Host {
    /// The connection to the kernel.
    pub net: Arc<Net>,
    /// Starts supervised threads and tasks.
    pub watch: Watch,
    /// The signals that end the service.
    pub signals: Signals,
    /// Receives the state of the service.
    pub manager: Manager,
    alarm: Alarm,
    news: News,
    _worker: Option<Task>,
}

impl Host {
    /// Installs signal handlers first, so that everything that is built afterwards is also removed.
    pub async fn new(supervision: Supervision) -> Result<Host, Failure> {
        let Supervision {
            watch,
            alarm,
            manager,
        } = supervision;
        let signals = Signals::new(&watch)?;
        let (net, news) = Net::connect(&watch).await?;
        Ok(Host {
            net: Arc::new(net),
            _worker: watch.worker(),
            watch,
            signals,
            manager,
            alarm,
            news,
        })
    }
}

/// The reason why a service ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal: another start may follow.
    Signal,
    /// The operator's request to stop: nothing is left in the kernel.
    ForGood,
    /// All nodes of a cluster change to a new file: nothing is left, and another service follows in this process.
    Again,
}

/// An answer, or a future that makes it beside the loop.
pub enum Reply {
    /// The answer.
    Now(Answer),
    /// A future for an answer that takes long.
    Later(BoxFuture<'static, Answer>),
}

/// The consequence of an event for a service.
pub enum Heed {
    /// Nothing more.
    Nothing,
    /// Check routes and links when they have settled.
    Routes,
}

/// The state of a service, for the service manager.
pub struct Account {
    /// The service works, or waits only for events that the network must bring.
    pub is_settled: bool,
    /// A description of the service, and what it waits for.
    pub text: String,
    /// The faults.
    pub wrong: Vec<String>,
}

/// A translator, as the loop sees it.
#[expect(
    async_fn_in_trait,
    reason = "the loop of `serve` awaits all of them on its own thread, so they need not be `Send`"
)]
pub trait Service {
    /// The events that only this service waits for.
    type Wakeup;

    /// The name of its TUN device.
    fn device(&self) -> &str;

    /// The configuration that must stay on the TUN device; `None` before there is a device. A router may have 100 000 routes,
    /// so the questions at each event have functions of their own.
    fn own(&self) -> Option<DeviceConfig>;

    /// The index of its TUN device.
    fn index(&self) -> Option<u32> {
        Some(self.own()?.index)
    }

    /// Returns true if it has put an address on the device.
    fn has_address(&self) -> bool {
        self.own().is_some_and(|own| own.address.is_some())
    }

    /// Returns true if it has put a route to this destination on the device.
    fn leads(&self, to: &IpNet) -> bool {
        self.own()
            .is_some_and(|own| own.destinations().any(|own| own == *to))
    }

    /// The reason why it must end, other than a signal.
    fn ends(&self) -> Option<End>;

    /// The current state, for the service manager.
    fn account(&self) -> Account;

    /// Waits for the events of this service. May be dropped at any time and called again.
    async fn wait(&mut self) -> Self::Wakeup;

    /// Handles such an event. Once begun, the future is not dropped.
    async fn obey(&mut self, own: Self::Wakeup) -> Result<(), Failure>;

    /// Handles a link that appeared, changed or disappeared, other than the TUN device.
    async fn link(&mut self, event: Event) -> Result<Heed, Failure>;

    /// Handles routes that have just changed.
    fn routes_change(&mut self, news: &RouteNews) -> Heed;

    /// Checks again after routes and links have settled.
    async fn look_at_routes(&mut self) -> Result<(), Failure>;

    /// Returns true if forwarding is off where it is needed, as far as this is visible without the kernel's notifications. It
    /// is cheap.
    fn lacks_forwarding(&self) -> bool;

    /// The kernel has just forgotten the settings of the interface with this index.
    fn settings_forgotten(&mut self, index: u32);

    /// Checks again after settings of interfaces, of which many change at a time, have settled.
    async fn look_at_settings(&mut self) -> Result<(), Failure>;

    /// Checks again after addresses have settled.
    async fn look_at_addresses(&mut self) -> Result<(), Failure>;

    /// The current condition. The loop reads it after each event.
    fn condition(&self) -> Condition;

    /// Answers a request. This is the only place where requests are answered.
    async fn reply(&mut self, request: Request) -> Reply;
}

/// Serves until the service ends. An error ends the program, and is reported to the service manager.
pub async fn serve(
    service: &mut impl Service,
    host: &mut Host,
    control: &mut Control,
) -> Result<End, Failure> {
    let manager = host.manager.clone();
    let served = work(service, host, control).await;
    if !matches!(served, Ok(End::Again)) {
        manager.stopping();
    }
    served
}

/// As [`serve`], for services after which another service may follow in the same process.
pub async fn work(
    service: &mut impl Service,
    host: &mut Host,
    control: &mut Control,
) -> Result<End, Failure> {
    let net = host.net.clone();
    let beat = host.watch.beat("the service");
    let mut told = Notified::default();
    let mut looks = Checks::default();
    let mut settings = Settling::default();
    let mut keeping = Restoring::default();
    let mut is_settled = false;
    let mut lacked_forwarding = service.lacks_forwarding();
    let mut looks_at_forwarding = tokio::time::interval(FORWARDING);
    looks_at_forwarding.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if !is_settled && service.account().is_settled {
            is_settled = true;
            confinement::log_mode();
        }
        let mut condition = service.condition();
        keeping.add_to(&mut condition, service.device());
        control.publish(condition);
        beat.beat();
        told.notify(&host.manager, service, &keeping);
        tokio::select! {
            () = beat.due() => {}
            _ = looks_at_forwarding.tick() => {
                let lacks = service.lacks_forwarding();
                if std::mem::replace(&mut lacked_forwarding, lacks) != lacks {
                    settings.touch();
                }
            }
            () = host.signals.reload() => {
                tracing::info!("SIGHUP: reading the configuration again");
                let answer = reload(service, &host.manager, &beat, &mut told).await;
                if answer == Answer::Reloaded {
                    control.reloaded();
                }
            }
            () = host.signals.any() => {
                tracing::info!("stopped by a signal");
                return Ok(End::Signal);
            }
            failure = host.alarm.rung() => return Err(failure),
            event = host.news.next() => {
                let own = service.index();
                let is_own = |index| own == Some(index);
                let heed = match event {
                    Event::LinkGone(index) if is_own(index) => return Err(gone(service.device())),
                    Event::LinkChanged(link) if is_own(link.index) => {
                        keeping.settling.touch();
                        Heed::Nothing
                    }
                    Event::LinkGone(_) | Event::LinkChanged(_) => match beat.through(LONGEST_WORK, service.link(event)).await {
                        Ok(heed) => heed,
                        Err(failure) => looks.again_after(failure).map(|()| Heed::Nothing)?,
                    },
                    Event::AddressesChanged => {
                        looks.addresses.touch();
                        if service.has_address() {
                            keeping.settling.touch();
                        }
                        Heed::Nothing
                    }
                    Event::SettingsChanged => {
                        settings.touch();
                        Heed::Nothing
                    }
                    Event::SettingsForgotten(index) => {
                        settings.touch();
                        service.settings_forgotten(index);
                        if is_own(index) {
                            keeping.settling.touch();
                        }
                        Heed::Nothing
                    }
                    Event::RoutesChanged(news) => {
                        if own.is_some_and(|own| news.may_have_taken(own, |to| service.leads(to))) {
                            keeping.settling.touch();
                        }
                        service.routes_change(&news)
                    }
                };
                if let Heed::Routes = heed {
                    looks.routes.touch();
                }
            },
            own = service.wait() => {
                let done = beat.through(LONGEST_WORK, service.obey(own)).await;
                done.or_else(|failure| looks.again_after(failure))?;
                if let Some(end) = service.ends() {
                    return Ok(end);
                }
            }
            () = looks.addresses.settled() => {
                looks.addresses.clear();
                let done = beat.through(LONGEST_WORK, service.look_at_addresses()).await;
                done.or_else(|failure| looks.again_after(failure))?;
            }
            () = looks.routes.settled() => {
                looks.routes.clear();
                let done = beat.through(LONGEST_WORK, service.look_at_routes()).await;
                done.or_else(|failure| looks.again_after(failure))?;
            }
            () = settings.settled() => {
                settings.clear();
                beat.through(LONGEST_WORK, service.look_at_settings()).await?;
            }
            () = keeping.settling.settled() => {
                keeping.settling.clear();
                if let Some(own) = service.own() {
                    let kept = keeping.keep(&net, service.device(), &own);
                    beat.through(LONGEST_WORK, kept).await;
                }
            }
            question = control.next() => {
                if question.request == Request::Reload {
                    question.answer(reload(service, &host.manager, &beat, &mut told).await);
                    continue;
                }
                match beat.through(LONGEST_WORK, service.reply(question.request)).await {
                    Reply::Now(answer) => question.answer(answer),
                    Reply::Later(answer) => {
                        let tell = async move { question.answer(answer.await) };
                        host.watch.short_task("an answer", tell);
                    }
                }
                if service.ends() == Some(End::ForGood) {
                    // The answer is sent before the program ends.
                    control.finish().await;
                    tracing::info!("stopped for good");
                    return Ok(End::ForGood);
                }
            }
        }
    }
}

/// Reloads the configuration, at the request of a client or by a signal.
async fn reload(
    service: &mut impl Service,
    manager: &Manager,
    beat: &Heartbeat,
    told: &mut Notified,
) -> Answer {
    manager.reloading();
    let read = async {
        match service.reply(Request::Reload).await {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => answer.await,
        }
    };
    let answer = beat.through(LONGEST_WORK, read).await;
    told.refusal = None;
    if let Answer::Failed(why) | Answer::Misconfigured(why) = &answer {
        for line in why.lines() {
            tracing::warn!("not reloaded, the old configuration stays in force: {line}");
        }
        let first = why.lines().next().unwrap_or_default();
        told.refusal = Some(format!("not reloaded: {first}"));
    }
    manager.ready();
    answer
}

/// Makes an answer on a thread of its own.
pub fn later(make: impl FnOnce() -> Answer + Send + 'static) -> Reply {
    Reply::Later(Box::pin(async {
        let made = || supervise::guarded("an answer", || Ok(make()));
        match tokio::task::spawn_blocking(made).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => Answer::Failed(failure.to_string()),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }))
}

/// The failure of a translator whose device another program removed.
fn gone(device: &str) -> Failure {
    KernelError::TunGone(device.to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_panics_is_a_failure() {
        let Reply::Later(answer) = later(|| panic!("the tables are half changed")) else {
            panic!("it is made elsewhere")
        };
        let Answer::Failed(why) = answer.await else {
            panic!("it failed")
        };
        assert!(why.contains("half changed"), "{why}");
    }
}
