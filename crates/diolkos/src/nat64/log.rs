// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tables tell, as the log of bindings has it.

use std::sync::{Arc, Weak};

use diolkos_core::addr::rfc6052::Pref64;
use diolkos_core::config::nat64::Nat64Config;
use diolkos_core::session::{Event, SessionView};

use super::controller::Controller;
use super::records::Records;
use crate::logging::{Change, Lister, Place, Queue, Record, Recorders, What};

/// Entries that are listed before packets pass again.
const BUDGET: usize = 512;

/// Tells collectors of changes.
#[derive(Debug)]
pub struct Log {
    recorders: Recorders,
    prefixes: Vec<Pref64>,
}

impl Log {
    /// None if nobody wants to hear.
    pub fn to(recorders: Recorders, config: &Nat64Config) -> Option<Box<dyn Records>> {
        recorders.any().then(|| {
            Box::new(Log {
                recorders,
                prefixes: prefixes(config),
            }) as Box<dyn Records>
        })
    }
}

impl Records for Log {
    fn event(&mut self, event: &Event) {
        let session = |change, view: &SessionView| {
            if self.recorders.want_sessions() {
                self.recorders.tell(told(change, view, &self.prefixes));
            }
        };
        match event {
            Event::BindingOpened(binding) => {
                self.recorders
                    .tell(What::Binding(Change::Created, *binding));
            }
            Event::BindingClosed(binding) => {
                self.recorders
                    .tell(What::Binding(Change::Deleted, *binding));
            }
            Event::SessionOpened(view) => session(Change::Created, view),
            Event::SessionClosed(view) => session(Change::Deleted, view),
            Event::SessionChanged(..) => {}
        }
    }

    fn follow(&mut self, config: &Nat64Config) {
        self.prefixes = prefixes(config);
    }
}

fn prefixes(config: &Nat64Config) -> Vec<Pref64> {
    let prefixes = config.translator.pref64.iter();
    prefixes.map(|&prefix| Pref64::new(prefix)).collect()
}

fn told(change: Change, view: &SessionView, prefixes: &[Pref64]) -> What {
    let peer6 = prefixes
        .get(usize::from(view.prefix))
        .map(|prefix| prefix.embed(view.peer.addr));
    let unknown = std::net::Ipv6Addr::UNSPECIFIED;
    What::Session(change, view.binding, view.peer, peer6.unwrap_or(unknown))
}

/// Lists what a controller has in force, as long as there is one.
pub fn lister(controller: &Arc<Controller>, sessions: bool) -> Lister {
    let controller: Weak<Controller> = Arc::downgrade(controller);
    Box::new(move |place, queue| {
        let controller = controller.upgrade()?;
        Some(list(&controller, sessions, place, queue))
    })
}

/// Lists a part. The queue is filled under the lock: what ends afterwards is told afterwards.
fn list(controller: &Controller, sessions: bool, place: Place, queue: &Queue) -> Place {
    controller.look(|nat64| {
        let state = nat64.state();
        match place {
            Place::Bindings(first, before) => {
                let (views, next) = state.bindings_from(first, BUDGET);
                for view in &views {
                    queue.push(Record::now(What::Binding(Change::InForce, view.binding)));
                }
                let count = before + views.len() as u64;
                match next {
                    Some(next) => Place::Bindings(next, count),
                    None if sessions => Place::Sessions(0, count),
                    None => Place::End(count),
                }
            }
            Place::Sessions(first, count) => {
                let (views, next) = state.sessions_from(first, BUDGET);
                let prefixes = prefixes(nat64.config());
                for view in &views {
                    queue.push(Record::now(told(Change::InForce, view, &prefixes)));
                }
                next.map_or(Place::End(count), |next| Place::Sessions(next, count))
            }
            Place::End(_) => place,
        }
    })
}
