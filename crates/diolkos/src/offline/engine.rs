// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What translates: without state, or with it and on the capture's clock.

use std::time::Duration;

use diolkos_nat64::config::{Binding, Nat64Config};
use diolkos_nat64::session::{BindError, Counts, Event, SessionView, Watcher};
use diolkos_nat64::Nat64;
use diolkos_xlat::config::ConfigError;
use diolkos_xlat::{
    Config, ErrorSources, Offload, Outbox, Packet, Reason, Translator, Verdict, HEADROOM,
};

use super::environment::Environment;

/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;
/// Entries that are looked at before what was sent about them is written: what waits in memory is bounded.
const BUDGET: usize = 4096;

/// A translator of either kind.
pub enum Engine {
    /// SIIT and CLAT; with what it was made of.
    Stateless(Box<(Translator, Config)>),
    /// NAT64.
    Stateful(Box<Nat64>),
}

/// What happened to the tables: beside a packet, or because time passed.
#[derive(Default)]
pub struct Noted {
    /// Somebody reads the events.
    pub keeps: bool,
    /// In their order.
    pub events: Vec<Event>,
    /// Packets that were held until now.
    pub dropped: Vec<Reason>,
}

impl Noted {
    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.dropped.is_empty()
    }

    /// Nothing yet.
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
    /// Without state.
    pub fn stateless(config: &Config) -> Result<Engine, ConfigError> {
        let translator = Translator::new(config)?;
        Ok(Engine::Stateless(Box::new((translator, config.clone()))))
    }

    /// With tables that have the bindings of the configuration.
    pub fn stateful(config: &Nat64Config, world: &mut Environment) -> Result<Engine, ConfigError> {
        let nat64 = Nat64::new(config, world.secret())?;
        Ok(Engine::Stateful(Box::new(nat64)))
    }

    /// Makes a binding that lasts. Nothing of it is noted.
    pub fn bind(&mut self, binding: Binding) -> Result<(), BindError> {
        match self {
            Engine::Stateless(..) => Err(BindError::Contradiction(
                "only a NAT64 has bindings".to_owned(),
            )),
            Engine::Stateful(nat64) => nat64.state_mut().bind(binding, &mut ()),
        }
    }

    /// When something expires next; None if nothing can.
    pub fn next_due(&self) -> Option<Duration> {
        match self {
            Engine::Stateless(..) => None,
            Engine::Stateful(nat64) => nat64.next_due(),
        }
    }

    /// Ends some of what has expired by now; true if that was all.
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

    /// Translates a packet. All that leaves goes to `out`, with [`Verdict::Forward`], too.
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

    /// There is no address to send ICMPv6 errors from.
    pub fn lacks_source(&self) -> bool {
        let sources = match self {
            Engine::Stateless(made) => ErrorSources::of(&made.1),
            Engine::Stateful(nat64) => ErrorSources::of(&nat64.config().translator),
        };
        sources.address6.is_none()
    }

    /// What a NAT64 holds.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Engine::Stateless(..) => None,
            Engine::Stateful(nat64) => Some(nat64.state().counts()),
        }
    }
}
