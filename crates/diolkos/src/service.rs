// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop of every translator, and what all of them share: signals, supervision, what is theirs on the TUN device, and
//! whoever asks.
//!
//! news → settled → the service looks again; own routes and addresses → put back; request → answer; signal, alarm → end.
//! After each of them the service manager is told how the service stands, if that has changed.
//!
//! The loop may take its time for its own work (a new configuration, say). Whatever must not wait for it runs on the
//! runtime's worker or on a thread: the DNS64, Neighbour Discovery, netlink, signals, large answers.

mod notify;
mod settle;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use tokio::time::MissedTickBehavior;

use crate::companion::{Companion, Supervision};
use crate::control::{Answer, Condition, Control, Request};
use diolkos_config::Settings;
use diolkos_kernel::net::{DeviceConfig, Event, Net, News, RouteNews};
use diolkos_service::confinement;
use diolkos_service::failure::Failure;
use diolkos_service::manager::Manager;
use diolkos_service::signals::Signals;
use diolkos_service::supervise::{self, Alarm, Task, Watch};
use diolkos_service::watchdog::Heartbeat;

use notify::Notified;
use settle::{Checks, Restoring, Settling};

pub use settle::until;
pub use waiting::wait_for;

/// The loop may take so long for one thing; each of a million routes is a request to the kernel. Beyond that it hangs.
const LONGEST_WORK: Duration = Duration::from_secs(120);

/// Between two looks at forwarding, of which the kernel does not tell everything.
const FORWARDING: Duration = Duration::from_secs(2);

/// What a service runs on.
pub struct Host {
    /// The kernel.
    pub net: Arc<Net>,
    /// Starts what is supervised.
    pub watch: Watch,
    /// Until one comes.
    pub signals: Signals,
    /// Is told how it goes.
    pub manager: Manager,
    companion: Companion,
    alarm: Alarm,
    news: News,
    _worker: Option<Task>,
}

impl Host {
    /// Signals first: whatever is built from now on is removed again.
    pub async fn new(supervision: Supervision) -> Result<Host, Failure> {
        let Supervision {
            watch,
            alarm,
            manager,
            companion,
        } = supervision;
        let signals = Signals::new(&watch)?;
        let (net, news) = Net::connect(&watch).await?;
        Ok(Host {
            net: Arc::new(net),
            _worker: watch.worker(),
            watch,
            signals,
            manager,
            companion,
            alarm,
            news,
        })
    }

    /// Has what runs beside take these settings, too.
    pub async fn bring(&self, settings: &Settings) {
        self.companion.offer(settings);
        self.companion.take().await;
    }
}

/// Why it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal: there may be a next start.
    Signal,
    /// The operator said so: nothing stays.
    ForGood,
    /// All nodes of a cluster go over to a new file: nothing stays, and another service follows in this process.
    Again,
}

/// An answer, or what makes it beside the loop.
pub enum Reply {
    /// It is here.
    Now(Answer),
    /// It takes long.
    Later(BoxFuture<'static, Answer>),
}

/// What a service has to do at an event.
pub enum Heed {
    /// Nothing more.
    Nothing,
    /// Look at routes and links when they have settled.
    Routes,
}

/// How a service stands, for the service manager.
pub struct Account {
    /// It does what it is for, or waits for what only the network can bring.
    pub is_settled: bool,
    /// What it is, and what it waits for.
    pub text: String,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// A translator, as the loop sees it.
pub trait Service {
    /// What only this service waits for.
    type Wakeup;

    /// The name of its TUN device.
    fn device(&self) -> &str;

    /// What is on the TUN device and has to stay there; None before there is one. A router may have 100 000 routes: what
    /// is asked at each event has functions of its own.
    fn own(&self) -> Option<DeviceConfig>;

    /// The index of its TUN device.
    fn index(&self) -> Option<u32> {
        Some(self.own()?.index)
    }

    /// Whether it has put an address on the device.
    fn has_address(&self) -> bool {
        self.own().is_some_and(|own| own.address.is_some())
    }

    /// Whether it has put a route to this destination on the device.
    fn leads(&self, to: &IpNet) -> bool {
        self.own()
            .is_some_and(|own| own.destinations().any(|own| own == *to))
    }

    /// It is to end, for another reason than a signal.
    fn ends(&self) -> Option<End>;

    /// How it stands now, for the service manager.
    fn account(&self) -> Account;

    /// Waits for what only this service waits for. May be dropped at any time and called again.
    async fn wait(&mut self) -> Self::Wakeup;

    /// Obeys it. Once begun it is not dropped.
    async fn obey(&mut self, own: Self::Wakeup) -> Result<(), Failure>;

    /// A link came, changed or went, but not the TUN device.
    async fn link(&mut self, event: Event) -> Result<Heed, Failure>;

    /// Routes have just changed.
    fn routes_change(&mut self, news: &RouteNews) -> Heed;

    /// Routes and links have settled.
    async fn look_at_routes(&mut self) -> Result<(), Failure>;

    /// Whether forwarding is off where it is needed, as far as this is known without news of the kernel. It costs little.
    fn lacks_forwarding(&self) -> bool;

    /// The kernel has just forgotten the settings of the interface with this index.
    fn settings_forgotten(&mut self, index: u32);

    /// Settings of interfaces, of which many change at a time, have settled.
    async fn look_at_settings(&mut self) -> Result<(), Failure>;

    /// Addresses have settled.
    async fn look_at_addresses(&mut self) -> Result<(), Failure>;

    /// How it stands now. Asked after each event.
    fn condition(&self) -> Condition;

    /// Answers whoever asks. This is the one place where that is done.
    async fn reply(&mut self, request: Request) -> Reply;
}

/// Serves until it is time to leave. An error is the end of the program, which the service manager hears.
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

/// The same, for those after which another service may follow in the same process.
pub async fn work(
    service: &mut impl Service,
    host: &mut Host,
    control: &mut Control,
) -> Result<End, Failure> {
    let net = host.net.clone();
    let companion = host.companion.clone();
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
        told.notify(&host.manager, service, &keeping, &companion);
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
                let answer = reload(service, (&host.manager, &companion), &beat, &mut told).await;
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
                    question.answer(reload(service, (&host.manager, &companion), &beat, &mut told).await);
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
                    // The answer goes first.
                    control.finish().await;
                    tracing::info!("stopped for good");
                    return Ok(End::ForGood);
                }
            }
        }
    }
}

/// Has the configuration read again, whoever wants it.
async fn reload(
    service: &mut impl Service,
    (manager, companion): (&Manager, &Companion),
    beat: &Heartbeat,
    told: &mut Notified,
) -> Answer {
    manager.reloading();
    let read = async {
        let answer = match service.reply(Request::Reload).await {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => answer.await,
        };
        if answer == Answer::Reloaded {
            companion.take().await;
        }
        answer
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

/// The end of every translator whose device somebody else removes.
fn gone(device: &str) -> Failure {
    Failure::run_time(format!("the TUN device {device} is gone"))
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
