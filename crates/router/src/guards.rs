// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules of this host of whose changes the kernel sends no notification, and which packets bypass that a program sends by itself: the
//! tables of iptables-legacy, strict reverse-path filters, and tc filters of other programs. They are read every two seconds.

use std::io;
use std::time::Duration;

use tokio::time::{interval, Interval, MissedTickBehavior};

use diolkos_fastpath::has_others_filters;
use diolkos_kernel::forwarding::has_strict_filter;
use diolkos_kernel::net::LegacyTables;
use diolkos_sys::namespace::interface_index;
use diolkos_sys::tc::Direction;

/// Interval between two readings.
const LOOK: Duration = Duration::from_secs(2);

/// The rules at these interfaces, as last read.
pub struct Guards {
    interfaces: Vec<String>,
    /// Sentences without an end, in a fixed order.
    now: Vec<String>,
    timer: Interval,
}

impl Guards {
    /// Reads them.
    pub fn begin(interfaces: &[String]) -> Guards {
        let mut timer = interval(LOOK);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Guards {
            interfaces: interfaces.to_vec(),
            now: look(interfaces),
            timer,
        }
    }

    /// What they were at the last reading: a sentence each, which "and … bypass them" can follow.
    pub fn now(&self) -> &[String] {
        &self.now
    }

    /// Waits until they are others. May be dropped and called again.
    pub async fn changed(&mut self) {
        loop {
            self.timer.tick().await;
            let now = look(&self.interfaces);
            if now != self.now {
                self.now = now;
                return;
            }
        }
    }
}

/// What cannot be read counts as a rule.
fn look(interfaces: &[String]) -> Vec<String> {
    let legacy = match LegacyTables::now() {
        Ok(tables) => tables.are_some().then(|| tables.to_string()),
        Err(error) => Some(unknown("the tables of iptables-legacy", &error)),
    };
    let at = interfaces.iter().flat_map(|name| {
        let strict = has_strict_filter(name)
            .then(|| format!("{name} has a strict reverse-path filter (rp_filter = 1)"));
        strict.into_iter().chain(filters(name))
    });
    legacy.into_iter().chain(at).collect()
}

/// An interface that is gone has none.
fn filters(name: &str) -> Option<String> {
    match has_others_filters(interface_index(name)?, Direction::Ingress) {
        Ok(has) => has.then(|| format!("{name} has tc filters of another program at its ingress")),
        Err(error) if interface_index(name).is_some() => {
            Some(unknown(&format!("the tc filters of {name}"), &error))
        }
        Err(_) => None,
    }
}

fn unknown(what: &str, error: &io::Error) -> String {
    format!("{what} cannot be read ({error})")
}
