// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers of a running router to requests on its control socket.

use std::future::ready;
use std::time::Duration;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};
use futures_util::future::FutureExt;

use super::gateway::Gateway;
use super::serving::Router;
use super::stateful::Stateful;
use super::{addresses, ways};
use crate::announce::Announcer;
use diolkos_cluster::Cluster;
use diolkos_config::{Mtu, Settings};
use diolkos_control::service::{later, Reply};
use diolkos_control::translator::{self, Answer, Condition, Finding, Request, State};
use diolkos_datapath::choice;
use diolkos_datapath::trace::{self, Imagined};
use diolkos_figures::counters;
use diolkos_figures::entries::Order;
use diolkos_figures::figures::Figures;
use diolkos_gateway::{self as nat64, Controller};
use diolkos_kernel::net::Net;
use diolkos_service::failure::{Exit, Failure};

impl<R: Fn() -> Result<Settings, Failure>> Router<'_, R> {
    pub(super) async fn answer(&mut self, request: Request) -> Reply {
        let gateway = &mut *self.gateway;
        let answer = match request {
            Request::Counters => gateway.counters(),
            Request::Figures => gateway.figures(),
            Request::Sessions(selection) => {
                return gateway
                    .entries(move |state| Answer::Sessions(nat64::sessions(state, &selection)))
            }
            Request::Bindings(selection) => {
                return gateway
                    .entries(move |state| Answer::Bindings(nat64::bindings(state, &selection)))
            }
            Request::Top { order, lines } => return gateway.top(order, lines),
            Request::Trace(packet) => gateway.trace(packet, self.net).await,
            Request::Bind(binding) => {
                let device = &gateway.settings.translator.device;
                let address = binding.v4.addr;
                let fit = addresses::check_bound(self.net, device, &gateway.routes, address).await;
                let fit = fit.and_then(|()| addresses::check_port(&gateway.settings, &binding));
                let bound = gateway.of_state(|state| match fit.map(|()| state.bind(binding)) {
                    Ok(Ok(())) => Answer::Done,
                    Ok(Err(error)) => Answer::Misconfigured(format!("not bound: {error}")),
                    Err(failure) => refused(&failure),
                });
                let otherwise = format!(
                    "{} is bound, but the binding does not survive a restart yet",
                    binding.v4
                );
                return gateway.once_it_lasts(bound, otherwise);
            }
            Request::Unbind { protocol, v4 } => {
                let unbound = gateway.of_state(|state| match state.unbind(protocol, v4) {
                    Ok(_) => Answer::Done,
                    Err(error) => Answer::Misconfigured(format!("{v4}: {error}")),
                });
                let otherwise = format!(
                    "the binding of {v4} is removed, but a restart would restore it for now"
                );
                return gateway.once_it_lasts(unbound, otherwise);
            }
            Request::EndSession {
                protocol,
                v6,
                v4,
                peer,
            } => {
                let ended = gateway.of_state(|state| {
                    match state.end_session(protocol, v6, v4, peer) {
                        Some(view) => {
                            let (binding, state) = (view.binding, view.state.name());
                            tracing::info!(
                                "ended by the operator: the session {protocol} {} with {peer}, seen as {} ({state})",
                                binding.v6,
                                binding.v4
                            );
                            Answer::Done
                        }
                        None => Answer::Misconfigured(no_session(protocol, v6, v4, peer)),
                    }
                });
                let otherwise = format!(
                    "the session of {v6} with {peer} is ended, but a restart would restore it for now"
                );
                return gateway.once_it_lasts(ended, otherwise);
            }
            Request::Cluster => match &gateway.cluster {
                Some(cluster) => Answer::Cluster(Box::new(cluster.status())),
                None => alone(),
            },
            Request::Drain | Request::Join => match &gateway.cluster {
                Some(cluster) => {
                    cluster.take_part(request == Request::Join);
                    Answer::Done
                }
                None => alone(),
            },
            Request::Roll { seconds } => match &gateway.cluster {
                Some(_) => self.roll(Duration::from_secs(seconds.into())).await,
                None => alone(),
            },
            Request::CancelRoll => match &gateway.cluster {
                Some(cluster) => {
                    cluster.disarm();
                    Answer::Done
                }
                None => alone(),
            },
            Request::Config => match gateway.in_force().canonical() {
                Ok(text) => Answer::Config(text),
                Err(failure) => Answer::Failed(failure.to_string()),
            },
            Request::Prefix => Answer::NotSupported(
                "a router does not discover prefixes; `show config` prints the configured ones"
                    .to_owned(),
            ),
            Request::Stop => {
                gateway.ends = true;
                Answer::Done
            }
            Request::Reload => self.reload().await,
        };
        Reply::Now(answer)
    }

    async fn roll(&mut self, time: Duration) -> Answer {
        let armed = match (self.read)() {
            Ok(new) => self.gateway.arm(self.net, new, time).await,
            Err(failure) => Err(failure),
        };
        match armed {
            Ok(()) => Answer::Done,
            Err(failure) => refused(&failure),
        }
    }

    async fn reload(&mut self) -> Answer {
        let done = match (self.read)() {
            Ok(new) => {
                self.gateway
                    .reload(self.net, new, &self.came, &self.watch)
                    .await
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            return refused(&failure);
        }
        self.metrics.follow(&self.gateway.settings);
        self.samples = ways::samples(&self.gateway.settings);
        // Obstacles of the old configuration may not exist in the new one.
        self.look_for_obstacles().await;
        Answer::Reloaded
    }
}

impl Gateway {
    /// Returns what would happen to a packet.
    async fn trace(&self, packet: Imagined, net: &Net) -> Answer {
        let settings = &self.settings;
        let asked = trace::Asked {
            packet,
            engine: self.slow.engine(),
            config: &settings.translation(self.found),
            device: &settings.translator.device,
            fast: choice::kind(settings, self.translation.fast()),
            way6: None,
        };
        translator::traced(trace::trace(&asked, net).await)
    }

    /// There may be as many prefixes as bindings.
    fn top(&self, order: Order, lines: u32) -> Reply {
        let Some(state) = self.controller.clone() else {
            return Reply::Now(self.of_state(|_| Answer::Done));
        };
        later(move || Answer::Top(nat64::top(&state, order, lines as usize)))
    }

    /// Lists up to a hundred thousand entries, while signals and network events are still handled.
    fn entries(&self, list: impl FnOnce(&Controller) -> Answer + Send + 'static) -> Reply {
        let Some(state) = self.controller.clone() else {
            return Reply::Now(self.of_state(|_| Answer::Done));
        };
        later(move || list(&state))
    }

    /// Returns the condition of the router, for clients that watch it.
    pub(super) fn condition(&self, obstacles: Vec<String>, findings: Vec<Finding>) -> Condition {
        let prefixes = self.settings.translator.pref64.given();
        Condition {
            state: State::Ready,
            obstacles,
            findings,
            prefixes: prefixes.iter().map(ToString::to_string).collect(),
            address6: None,
            alarms: self
                .translation
                .stateful()
                .map_or(Vec::new(), |stateful| stateful.alarms.raised()),
            datapath: Some(choice::named(
                &self.settings.translator,
                self.translation.fast(),
            )),
            marks_trouble: self.labels.trouble(),
        }
    }

    /// Returns the number of translated packets that came from IPv4, and from IPv6.
    pub(super) fn translated(&self) -> [u64; 2] {
        let ours = counters::translated(self.translation.fast(), &self.slow.tallies);
        let switch = self.translation.switch();
        let [four, six] = switch.map_or([0; 2], |switch| switch.translated());
        [ours[0] + four, ours[1] + six]
    }

    /// Answers when a change survives a restart; the loop does not wait for that. `otherwise` describes the situation
    /// if it fails.
    fn once_it_lasts(&self, answer: Answer, otherwise: String) -> Reply {
        if answer != Answer::Done {
            return Reply::Now(answer);
        }
        let stateful = self.translation.stateful();
        let written = stateful.map_or_else(|| ready(Ok(())).boxed(), Stateful::write_now);
        Reply::Later(Box::pin(async move {
            match written.await {
                Ok(()) => Answer::Done,
                Err(failure) => Answer::Failed(format!("{otherwise}: {failure}; retrying")),
            }
        }))
    }

    fn counters(&self) -> Answer {
        let mut tallies = self.slow.tallies.clone();
        tallies.extend(
            self.controller
                .iter()
                .map(|controller| controller.tally.clone()),
        );
        match counters::read(self.translation.fast(), &tallies) {
            Ok(mut counters) => {
                counters.extend(self.labels.counters());
                if let Some((controller, stateful)) = self.tables() {
                    counters.extend(counters::of_state(
                        &controller.counts(),
                        controller.refused(),
                        controller.unheard(),
                        stateful.unwritten(),
                    ));
                    counters.extend(stateful.counters());
                }
                match self.announcer.as_ref().map(Announcer::counters).transpose() {
                    Ok(answers) => counters.extend(answers.unwrap_or_default()),
                    Err(error) => {
                        return Answer::Failed(format!("the counters cannot be read: {error}"))
                    }
                }
                if let Some(switch) = self.translation.switch() {
                    counters.extend(switch.counters());
                }
                if let Some(cluster) = &self.cluster {
                    counters.extend(cluster.status().counters());
                }
                Answer::Counters(counters)
            }
            Err(error) => Answer::Failed(format!("the counters cannot be read: {error}")),
        }
    }

    fn figures(&self) -> Answer {
        match self.counters() {
            Answer::Counters(counters) => Answer::Figures(Box::new(Figures {
                about: choice::about(&self.settings, self.translation.fast()),
                counters,
                state: self
                    .tables()
                    .map(|(controller, stateful)| stateful.figures(controller)),
                cluster: self.cluster.as_ref().map(Cluster::status),
            })),
            other => other,
        }
    }

    fn of_state(&self, answer: impl FnOnce(&Controller) -> Answer) -> Answer {
        match &self.controller {
            Some(controller) => answer(controller),
            None => Answer::NotSupported(
                "a stateless translator has no bindings and sessions".to_owned(),
            ),
        }
    }

    /// Returns the settings with the values found in place of `auto`.
    fn in_force(&self) -> Settings {
        let mut settings = self.settings.clone();
        let translation = settings.translation(self.found);
        settings.translator.mtu4 = Mtu::Bytes(translation.mtu4);
        settings.translator.mtu6 = Mtu::Bytes(translation.mtu6);
        settings.icmp.address6 = translation.icmp.address6;
        settings
    }
}

fn no_session(protocol: Protocol, v6: Endpoint6, v4: Option<Endpoint4>, peer: Endpoint4) -> String {
    let seen = v4.map_or(String::new(), |v4| format!(", seen as {v4}"));
    format!(
        "there is no session {protocol} {v6} with {peer}{seen}; `diolkos show sessions --node {v6}` lists those of this node"
    )
}

fn alone() -> Answer {
    Answer::NotSupported(
        "this gateway is alone: its configuration has no section [cluster]".to_owned(),
    )
}

fn refused(failure: &Failure) -> Answer {
    match failure.exit() {
        Exit::Usage => Answer::Misconfigured(failure.to_string()),
        _ => Answer::Failed(failure.to_string()),
    }
}
