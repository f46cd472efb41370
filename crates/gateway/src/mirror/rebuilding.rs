// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The copy while it is incomplete: during a restore of an earlier run, or a change of the configuration.

use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::Sessions;
use diolkos_nat64::config::Nat64Config;
use diolkos_nat64::session::{Event, SessionView, State, Watcher};
use diolkos_xlat::Reason;

use super::Mirror;

/// A copy that is being filled from the state of an earlier run. If this is dropped before [`Restoring::finish`],
/// the copy is incomplete.
pub struct Restoring<'a>(&'a mut Mirror);

impl<'a> Restoring<'a> {
    pub(super) fn of(mirror: &'a mut Mirror) -> Restoring<'a> {
        Restoring(mirror)
    }

    /// Returns the kernel's maps, if there is a fast path.
    pub fn sessions(&self) -> Option<Arc<Sessions>> {
        self.0.fast.as_ref()?.maps()
    }

    /// Applies the configuration. Once all bindings are in the tables, it is known which peers are our own.
    pub fn follow(&mut self, config: &Nat64Config, state: &mut State) {
        self.0.follow(config, state, Meanwhile::Kept);
    }

    /// Copies all bindings.
    pub fn bind_all(&mut self, state: &State) {
        self.0.begin(state);
    }

    /// Returns true if programs may have a session.
    pub fn belongs(&self, view: &SessionView) -> bool {
        self.0.belongs(view)
    }

    /// Copies a session.
    pub fn copy(&mut self, view: &SessionView) {
        self.0.copy(view);
    }

    /// Ends the restore: everything has come back.
    pub fn finish(self) {
        self.0.phase.end();
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        self.0.break_off();
    }
}

impl Watcher for Restoring<'_> {
    fn event(&mut self, event: Event) {
        match event {
            // A packet of an earlier run opened this session, so it earns no lease in this one.
            Event::SessionOpened(view) => {
                self.0.changed = true;
                self.0.copy(&view);
            }
            other => self.0.event(other),
        }
    }

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        self.0.last_seen(view)
    }

    fn dropped(&mut self, reason: Reason) {
        Watcher::dropped(self.0, reason);
    }
}

/// What happens to the sessions in the maps while the configuration changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meanwhile {
    Kept,
    Emptied,
}

/// A copy while another configuration comes into force. If this is dropped before [`Changing::finish`], the copy is
/// incomplete.
pub struct Changing<'a> {
    mirror: &'a mut Mirror,
    meanwhile: Meanwhile,
}

impl<'a> Changing<'a> {
    pub(super) fn of(mirror: &'a mut Mirror, meanwhile: Meanwhile) -> Changing<'a> {
        Changing { mirror, meanwhile }
    }

    /// Puts the configuration into force, and recreates the copy where necessary.
    pub fn finish(self, config: &Nat64Config, state: &mut State) {
        self.mirror.take_out();
        self.mirror.follow(config, state, self.meanwhile);
        if let Some(records) = &mut self.mirror.records {
            records.follow(config, state);
        }
        self.mirror.phase.end();
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.mirror.take_out();
        self.mirror.break_off();
    }
}

impl Watcher for Changing<'_> {
    fn event(&mut self, event: Event) {
        self.mirror.event(event);
    }

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        self.mirror.last_seen(view)
    }

    fn dropped(&mut self, reason: Reason) {
        Watcher::dropped(self.mirror, reason);
    }
}
