// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop of every translator, and what all of them share: signals, supervision, what is theirs on the TUN device, and
//! whoever asks.
//!
//! news → settled → the service looks again; own routes and addresses → put back; request → answer; signal, alarm → end
//!
//! The loop may take its time for its own work (a new configuration, say). Whatever must not wait for it runs on the
//! runtime's worker or on a thread: the DNS64, Neighbour Discovery, netlink, signals, large answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use tokio::time::Instant;

use crate::control::{Answer, Condition, Control, Request};
use crate::failure::Failure;
use crate::net::{shown, Event, Net, News, Own, RouteNews};
use crate::signals::Signals;
use crate::supervise::{self, Alarm, Watch};

/// Routes and addresses come and go in groups.
const SETTLE: Duration = Duration::from_millis(200);
/// But they may come and go without end.
const SETTLE_AT_MOST: Duration = Duration::from_secs(2);
/// When what is ours could not be put back.
const RETRY: Duration = Duration::from_secs(5);

/// What a service runs on.
pub struct Host {
    /// The kernel.
    pub net: Arc<Net>,
    /// Starts what is supervised.
    pub watch: Watch,
    /// Until one comes.
    pub signals: Signals,
    alarm: Alarm,
    news: News,
}

impl Host {
    /// Signals first: whatever is built from now on is removed again.
    pub async fn new((watch, alarm): (Watch, Alarm)) -> Result<Host, Failure> {
        let signals = Signals::new()?;
        let (net, news) = Net::connect(&watch).await?;
        Ok(Host {
            net: Arc::new(net),
            watch,
            signals,
            alarm,
            news,
        })
    }
}

/// Why it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A signal: there may be a next start.
    Signal,
    /// The operator said so: nothing stays.
    ForGood,
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

/// A translator, as the loop sees it.
pub trait Service {
    /// What only this service waits for.
    type Own;

    /// The name of its TUN device.
    fn device(&self) -> &str;

    /// What is on the TUN device and has to stay there; None before there is one. A router may have 100 000 routes: what
    /// is asked at each event has functions of its own.
    fn own(&self) -> Option<Own>;

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

    /// The operator has said that it is to end.
    fn ends(&self) -> bool;

    /// Waits for what only this service waits for. May be dropped at any time and called again.
    async fn wait(&mut self) -> Self::Own;

    /// Obeys it. Once begun it is not dropped.
    async fn obey(&mut self, own: Self::Own) -> Result<(), Failure>;

    /// A link came, changed or went, but not the TUN device.
    async fn link(&mut self, event: Event) -> Result<Heed, Failure>;

    /// Routes have just changed.
    fn routes_change(&mut self, news: &RouteNews) -> Heed;

    /// Routes and links have settled.
    async fn look_at_routes(&mut self) -> Result<(), Failure>;

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

/// Serves until it is time to leave.
pub async fn serve(
    service: &mut impl Service,
    host: &mut Host,
    control: &mut Control,
) -> Result<End, Failure> {
    let net = host.net.clone();
    let mut looks = Looks::default();
    let mut settings = Settling::default();
    let mut keeping = Keeping::default();
    loop {
        control.tell(service.condition());
        tokio::select! {
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
                    Event::LinkGone(_) | Event::LinkChanged(_) => match service.link(event).await {
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
                let done = service.obey(own).await;
                done.or_else(|failure| looks.again_after(failure))?;
            }
            () = looks.addresses.settled() => {
                looks.addresses.clear();
                let done = service.look_at_addresses().await;
                done.or_else(|failure| looks.again_after(failure))?;
            }
            () = looks.routes.settled() => {
                looks.routes.clear();
                let done = service.look_at_routes().await;
                done.or_else(|failure| looks.again_after(failure))?;
            }
            () = settings.settled() => {
                settings.clear();
                service.look_at_settings().await?;
            }
            () = keeping.settling.settled() => {
                keeping.settling.clear();
                if let Some(own) = service.own() {
                    keeping.keep(&net, service.device(), &own).await;
                }
            }
            question = control.next() => {
                match service.reply(question.request).await {
                    Reply::Now(answer) => question.answer(answer),
                    Reply::Later(answer) => {
                        tokio::spawn(async move { question.answer(answer.await) });
                    }
                }
                if service.ends() {
                    // The answer goes first.
                    control.finish().await;
                    tracing::info!("stopped for good");
                    return Ok(End::ForGood);
                }
            }
        }
    }
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

/// When a service looks at the network again.
#[derive(Default)]
struct Looks {
    routes: Settling,
    addresses: Settling,
}

impl Looks {
    /// What was not done because the kernel had no time or memory, another look makes up for.
    fn again_after(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.is_transient {
            return Err(failure);
        }
        tracing::warn!("{failure}: retrying");
        self.routes.touch_in(RETRY);
        self.addresses.touch_in(RETRY);
        Ok(())
    }
}

/// Has what is ours put back, and says so.
#[derive(Default)]
struct Keeping {
    settling: Settling,
    is_down: bool,
    /// What went wrong the last time, which is said once.
    failed: String,
}

impl Keeping {
    async fn keep(&mut self, net: &Net, device: &str, own: &Own) {
        match net.put_back(own).await {
            Ok(None) => {
                if !std::mem::replace(&mut self.is_down, true) {
                    tracing::warn!(
                        "{device} is down: nothing can pass until it is up (`ip link set {device} up`)"
                    );
                }
            }
            Ok(Some(restored)) => {
                self.is_down = false;
                self.failed.clear();
                if !restored.is_empty() {
                    tracing::warn!("{device} had lost {}: restored", shown(&restored));
                }
            }
            Err(failure) => {
                let said = failure.to_string();
                if self.failed != said {
                    tracing::warn!(
                        "{device} has lost parts that cannot be restored, so not everything can pass: {said}; retrying"
                    );
                }
                self.failed = said;
                self.settling.touch_in(RETRY);
            }
        }
    }
}

/// Waits until nothing has changed for a while, but not for ever.
#[derive(Default)]
struct Settling {
    first: Option<Instant>,
    at: Option<Instant>,
}

impl Settling {
    fn touch(&mut self) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.at = Some((now + SETTLE).min(first + SETTLE_AT_MOST));
    }

    fn touch_in(&mut self, pause: Duration) {
        self.at = Some(Instant::now() + pause);
    }

    fn clear(&mut self) {
        *self = Settling::default();
    }

    async fn settled(&self) {
        until(self.at).await;
    }
}

/// A moment, or never.
pub async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_never_settles_is_looked_at_all_the_same() {
        let mut settling = Settling::default();
        let begin = Instant::now();
        let mut looked = None;
        while looked.is_none() && begin.elapsed() < 10 * SETTLE_AT_MOST {
            settling.touch();
            tokio::select! {
                biased;
                () = settling.settled() => looked = Some(begin.elapsed()),
                () = tokio::time::sleep(SETTLE / 4) => {}
            }
        }
        assert_eq!(looked, Some(SETTLE_AT_MOST));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kernel_had_no_time_for_is_tried_again() {
        let mut looks = Looks::default();
        let begin = Instant::now();
        let failure = Failure::transient("cannot list the routes: no memory");
        assert!(looks.again_after(failure).is_ok());
        looks.addresses.settled().await;
        looks.routes.settled().await;
        assert_eq!(begin.elapsed(), RETRY);
        let for_good = Failure::run_time("the uplink eth0 is gone");
        assert!(looks.again_after(for_good).is_err());
    }

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
