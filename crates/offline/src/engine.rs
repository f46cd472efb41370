// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translator: stateless, or stateful with the clock of the capture.

use std::time::Duration;

use diolkos_nat64::config::{Binding, Nat64Config};
use diolkos_nat64::session::{BindError, Counts, Event, SessionView, Watcher};
use diolkos_nat64::Nat64;
use diolkos_xlat::config::ConfigError;
use diolkos_xlat::{
    Config, ErrorSources, Offload, Outbox, Packet, Reason, Translator, Verdict, HEADROOM,
};

use super::environment::Environment;

/// Room behind the packet for bytes that the translator appends (padding of RFC 4884 extensions).
const BACK: usize = 256;
/// Entries that are processed before the resulting packets are written, so that the memory for packets is bounded.
const BUDGET: usize = 4096;

/// A translator of either kind.
pub enum Engine {
    /// SIIT and CLAT, with the configuration.
    Stateless(Box<(Translator, Config)>),
    /// NAT64.
    Stateful(Box<Nat64>),
}

/// The events in the tables, caused by a packet or by time.
#[derive(Default)]
pub struct Noted {
    /// Record the events, because they will be printed.
    pub keeps: bool,
    /// The events in order.
    pub events: Vec<Event>,
    /// The reasons for dropping packets that were held until now.
    pub dropped: Vec<Reason>,
}

impl Noted {
    /// Returns true if nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.dropped.is_empty()
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.dropped.clear();
    }
}

impl Watcher for Noted {
    fn event(&mut self, event: Event) {
        if self.keeps {
            self.events.push(event);
        }
    }

    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

impl Engine {
    /// A stateless translator.
    pub fn stateless(config: &Config) -> Result<Engine, ConfigError> {
        let translator = Translator::new(config)?;
        Ok(Engine::Stateless(Box::new((translator, config.clone()))))
    }

    /// A NAT64 whose tables contain the bindings of the configuration.
    pub fn stateful(config: &Nat64Config, world: &mut Environment) -> Result<Engine, ConfigError> {
        let nat64 = Nat64::new(config, world.secret())?;
        Ok(Engine::Stateful(Box::new(nat64)))
    }

    /// Creates a static binding, without recording events.
    pub fn bind(&mut self, binding: Binding) -> Result<(), BindError> {
        match self {
            Engine::Stateless(..) => Err(BindError::Contradiction(
                "only a NAT64 has bindings".to_owned(),
            )),
            Engine::Stateful(nat64) => nat64.state_mut().bind(binding, &mut ()),
        }
    }

    /// The time of the next expiry; `None` if nothing can expire.
    pub fn next_due(&self) -> Option<Duration> {
        match self {
            Engine::Stateless(..) => None,
            Engine::Stateful(nat64) => nat64.next_due(),
        }
    }

    /// Expires some of the entries that are due; returns true if none are left.
    pub fn expire(
        &mut self,
        world: &mut Environment,
        out: &mut impl Outbox,
        noted: &mut Noted,
    ) -> bool {
        match self {
            Engine::Stateless(..) => true,
            Engine::Stateful(nat64) => nat64.expire(BUDGET, world, out, noted),
        }
    }

    /// Translates a packet. All resulting packets go to `out`, also with [`Verdict::Forward`].
    pub fn translate(
        &mut self,
        packet: &[u8],
        world: &mut Environment,
        out: &mut impl Outbox,
        noted: &mut Noted,
    ) -> Verdict {
        let end = HEADROOM + packet.len();
        let mut buffer = vec![0; end + BACK];
        buffer[HEADROOM..end].copy_from_slice(packet);
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
        let verdict = match self {
            Engine::Stateless(made) => made.0.translate(&mut packet, world, out),
            Engine::Stateful(nat64) => nat64.translate(&mut packet, world, out, noted),
        };
        if verdict == Verdict::Forward {
            out.emit(packet.bytes(), packet.offload);
        }
        verdict
    }

    /// Returns true if there is no source address for ICMPv6 errors.
    pub fn lacks_source(&self) -> bool {
        let sources = match self {
            Engine::Stateless(made) => ErrorSources::of(&made.1),
            Engine::Stateful(nat64) => ErrorSources::of(&nat64.config().translator),
        };
        sources.address6.is_none()
    }

    /// The numbers of entries of a NAT64.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Engine::Stateless(..) => None,
            Engine::Stateful(nat64) => Some(nat64.state().counts()),
        }
    }
}
