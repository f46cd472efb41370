// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The use of the tables by a process, and the check of bindings that it opens.

use diolkos_nat64::session::State;
use diolkos_node::gateway::Changed;
use diolkos_node::{Moment, Via};

use super::*;
use crate::tables::Eyes;

impl World {
    pub(super) fn expire(&mut self, at: usize) {
        self.with_tables(at, Via::Outside, |state, clock, _, eyes| {
            state.expire(clock, usize::MAX, eyes, |_| ());
        });
    }

    /// Calls `act` with the tables of a process, as its slow path does. None if there is no process.
    pub(super) fn with_tables<T>(
        &mut self,
        at: usize,
        via: Via,
        act: impl FnOnce(&mut State, Moment, &mut Random, &mut Eyes<'_>) -> T,
    ) -> Option<T> {
        let machine = &mut self.machines[at];
        let clock = machine.clock(self.now);
        let process = machine.process.as_mut()?;
        let mut changes = Vec::new();
        let mut eyes = Eyes {
            program: &mut machine.program,
            gateway: Some(&mut process.gateway),
            clock,
            via,
            changes: &mut changes,
            error: None,
        };
        let done = act(&mut process.state, clock, &mut self.random, &mut eyes);
        if let Some(error) = eyes.error.filter(|_| !machine.lies) {
            self.error = Some(format!("node {at}: {error}"));
        }
        self.given(at, &changes);
        Some(done)
    }

    /// Notes that ports of a node have been given to these bindings.
    pub(super) fn given(&mut self, at: usize, changes: &[Changed]) {
        let opened = changes.iter().filter_map(|change| match change {
            Changed::Opened(binding) => Some(*binding),
            Changed::Closed(..) => None,
        });
        for binding in opened {
            let (key, who) = (key_of(&binding), subscriber(&binding));
            if self.liar != Some(at) && !self.truth.exempt.contains(&key) {
                let given = self.truth.give(self.now, key, who);
                let error = given.err().or_else(|| self.others_use(key, who));
                self.error = self.error.take().or(error);
            }
        }
    }
}
