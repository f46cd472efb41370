// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a running router answers to whoever asks by its control socket.

use diolkos_core::config::nat64::Endpoint4;

use super::{addresses, Isthmus};
use crate::config::{Mtu, Settings, V6Address};
use crate::control::{Answer, Request};
use crate::counters;
use crate::failure::{Failure, Kind};
use crate::nat64::{self, Controller};
use crate::net::Net;

impl Isthmus {
    pub(super) async fn reply(
        &mut self,
        net: &Net,
        read: &impl Fn() -> Result<Settings, Failure>,
        request: Request,
    ) -> Answer {
        match request {
            Request::Hello => Answer::Hello {
                pid: std::process::id(),
            },
            Request::Counters => self.counters(),
            Request::Sessions => self.of_state(|state| Answer::Sessions(nat64::sessions(state))),
            Request::Bindings => self.of_state(|state| Answer::Bindings(nat64::bindings(state))),
            Request::Bind(binding) => {
                let device = &self.settings.translator.device;
                let address = *binding.v4.ip();
                let fit = addresses::check_bound(net, device, &self.routes, address).await;
                let bound = self.of_state(|state| match fit.map(|()| state.bind(binding.into())) {
                    Ok(Ok(())) => Answer::Done,
                    Ok(Err(error)) => Answer::Misconfigured(format!("not bound: {error}")),
                    Err(failure) => refused(&failure),
                });
                self.once_it_lasts(bound, || {
                    format!(
                        "{} is bound, but the binding does not survive a restart yet",
                        binding.v4
                    )
                })
                .await
            }
            Request::Unbind { protocol, v4 } => {
                let unbound = self.of_state(|state| {
                    let v4 = Endpoint4 {
                        addr: *v4.ip(),
                        port: v4.port(),
                    };
                    match state.unbind(protocol.into(), v4) {
                        Ok(_) => Answer::Done,
                        Err(error) => Answer::Misconfigured(format!("{v4}: {error}")),
                    }
                });
                self.once_it_lasts(unbound, || {
                    format!("the binding of {v4} has ended, but a restart brings it back for now")
                })
                .await
            }
            Request::Config => match self.in_force().canonical() {
                Ok(text) => Answer::Config(text),
                Err(failure) => Answer::Failed(failure.to_string()),
            },
            Request::Prefix => Answer::Failed(
                "a router learns no prefix; `show config` says which it has".to_owned(),
            ),
            Request::Stop => {
                self.ends = true;
                Answer::Done
            }
            Request::Reload => {
                let done = match read() {
                    Ok(new) => self.reload(net, new).await,
                    Err(failure) => Err(failure),
                };
                let Err(failure) = done else {
                    return Answer::Reloaded;
                };
                for line in failure.to_string().lines() {
                    tracing::warn!("not reloaded, the old configuration stays in force: {line}");
                }
                refused(&failure)
            }
        }
    }

    /// A change is done when it survives a restart. `else_`: what is so if it does not.
    async fn once_it_lasts(&self, answer: Answer, else_: impl FnOnce() -> String) -> Answer {
        if answer != Answer::Done {
            return answer;
        }
        match self.crossing.write_now().await {
            Ok(()) => Answer::Done,
            Err(failure) => Answer::Failed(format!("{}: {failure}; it is tried again", else_())),
        }
    }

    fn counters(&self) -> Answer {
        let mut tallies = self.slow.tallies.clone();
        tallies.extend(self.crossing.tally());
        match counters::read(self.crossing.fast(), &tallies) {
            Ok(mut counters) => {
                if let Some(controller) = self.crossing.controller() {
                    counters.extend(counters::of_state(
                        &controller.counts(),
                        controller.refused(),
                        controller.unheard(),
                    ));
                }
                Answer::Counters(counters)
            }
            Err(error) => Answer::Failed(format!("the counters cannot be read: {error}")),
        }
    }

    fn of_state(&self, answer: impl FnOnce(&Controller) -> Answer) -> Answer {
        match self.crossing.controller() {
            Some(controller) => answer(controller),
            None => {
                Answer::Failed("a stateless translator has no bindings and sessions".to_owned())
            }
        }
    }

    /// The settings with what was found in place of `auto`.
    fn in_force(&self) -> Settings {
        let mut settings = self.settings.clone();
        let translation = settings.translation(self.found);
        settings.translator.mtu4 = Mtu::Bytes(translation.mtu4);
        settings.translator.mtu6 = Mtu::Bytes(translation.mtu6);
        if let Some(address) = translation.icmp.address6 {
            settings.icmp.address6 = V6Address::Fixed(address);
        }
        settings
    }
}

fn refused(failure: &Failure) -> Answer {
    match failure.kind {
        Kind::Usage => Answer::Misconfigured(failure.to_string()),
        _ => Answer::Failed(failure.to_string()),
    }
}
