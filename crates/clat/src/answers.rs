// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers of a running CLAT to requests on its control socket.

use super::{rules, Clat};
use diolkos_config::{Networks, Settings, V6Address};
use diolkos_control::translator::{self, Address6, Answer, Condition, Request, State};
use diolkos_datapath::choice;
use diolkos_datapath::trace::{self, Imagined};
use diolkos_figures::counters;
use diolkos_figures::figures::Figures;

impl Clat {
    pub(super) fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Counters => self.counters(),
            Request::Figures => self.figures(),
            Request::Config => match self.settings_in_force().canonical() {
                Ok(text) => Answer::Config(text),
                Err(error) => Answer::Failed(error.to_string()),
            },
            Request::Prefix => Answer::Prefix(self.finder.rows(self.in_force())),
            Request::Sessions(_)
            | Request::Bindings(_)
            | Request::Top { .. }
            | Request::Bind(_)
            | Request::Unbind { .. }
            | Request::EndSession { .. } => {
                Answer::NotSupported("a CLAT has no bindings and sessions".to_owned())
            }
            Request::Cluster
            | Request::Drain
            | Request::Join
            | Request::Roll { .. }
            | Request::CancelRoll => {
                Answer::NotSupported("a CLAT is not a node of a cluster".to_owned())
            }
            Request::Stop => {
                self.ends = true;
                Answer::Done
            }
            // These take some time, and are answered elsewhere.
            Request::Reload | Request::Trace(_) => Answer::NotSupported("elsewhere".to_owned()),
        }
    }

    /// Returns what would happen to a packet.
    pub(super) async fn trace(&self, packet: Imagined) -> Answer {
        let Some(device) = &self.device else {
            return Answer::Failed(
                "no packet is translated, because no translation prefix is in force: see `diolkos show status`".to_owned(),
            );
        };
        let settings = &self.site.settings;
        let asked = trace::Asked {
            packet,
            engine: device.slow.engine(),
            config: &rules::translation(settings, &self.site.uplink, device.side6),
            device: &settings.translator.device,
            fast: choice::kind(settings, device.fast.as_deref()),
            way6: Some(match &self.obstacle {
                Some(why) => format!("nowhere: {why}"),
                None => device.way_in_words(&self.site.uplink),
            }),
        };
        translator::traced(trace::trace(&asked, &self.site.net).await)
    }

    /// Returns the condition of the CLAT, for clients that watch it.
    pub(super) fn present_condition(&self) -> Condition {
        let is_ready = self.ready.is_some();
        let obstacle = || match &self.obstacle {
            Some(why) => why.clone(),
            None if self.wanted.is_none() => match self.finder.silence() {
                Some(why) => format!("no translation prefix is known: {why}"),
                None => "no translation prefix is known".to_owned(),
            },
            None => "the address in the translation prefix is not ready".to_owned(),
        };
        let device = self.device.as_ref();
        Condition {
            state: match is_ready {
                true => State::Ready,
                false => State::Waiting,
            },
            obstacles: Some(obstacle()).filter(|_| !is_ready).into_iter().collect(),
            findings: self.findings(),
            alarms: Vec::new(),
            prefixes: self
                .shown_prefix()
                .iter()
                .map(ToString::to_string)
                .collect(),
            address6: device.filter(|_| !self.stranded).map(|device| Address6 {
                address: device.side6.address,
                origin: self.origin.clone(),
            }),
            datapath: device.map(|device| choice::name(device.fast.as_deref())),
            marks_trouble: device.and_then(|device| device.labels.trouble()),
        }
    }

    fn figures(&self) -> Answer {
        let fast = self.device.as_ref();
        let fast = fast.and_then(|device| device.fast.as_deref());
        match self.counters() {
            Answer::Counters(counters) => Answer::Figures(Box::new(Figures {
                about: choice::about(&self.site.settings, fast),
                counters,
                state: None,
                cluster: None,
            })),
            other => other,
        }
    }

    fn counters(&self) -> Answer {
        let device = self.device.as_ref();
        let fast = device.and_then(|device| device.fast.as_deref());
        let tallies = device.map_or(&[][..], |device| &device.slow.tallies);
        match counters::read(fast, tallies) {
            Ok(mut counters) => {
                counters.extend(device.map_or_else(Vec::new, |device| device.labels.counters()));
                counters.extend(self.finder.counters());
                Answer::Counters(counters)
            }
            Err(error) => Answer::Failed(format!("the counters cannot be read: {error}")),
        }
    }

    /// Returns the settings with the current values in place of `auto`; without a value, `auto`
    /// stays.
    fn settings_in_force(&self) -> Settings {
        let mut settings = Settings::clone(&self.site.settings);
        if let Some(device) = self.device.as_ref().filter(|device| device.is_open) {
            settings.clat.v6 = V6Address::Fixed(device.side6.address);
            settings.translator.pref64 = Networks::These(vec![device.side6.pref64]);
        }
        settings
    }
}
