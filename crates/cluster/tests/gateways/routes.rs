// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routes of a gateway, which follow its node as in the program: when the task is woken, and every second.

use std::future::ready;

use futures_util::FutureExt;

use diolkos_cluster::turn::turn;

/// Interval between two checks in nanoseconds, as in `crates/router/src/serving.rs`.
const LOOK: u64 = 1_000_000_000;

/// Routes, and the kernel that accepts their changes.
#[derive(Debug)]
pub struct Routes {
    pub yields: bool,
    /// What the node has said last.
    pub attracts: bool,
    /// What it had said when the routes last followed.
    followed: bool,
    is_woken: bool,
    look: u64,
    /// The kernel refuses changes until then.
    pub broken_until: u64,
    /// Number of changes, and of failed changes.
    pub changed: u64,
    pub failed: u64,
}

impl Routes {
    /// Returns the routes at the start of a process.
    pub fn new(now: u64) -> Routes {
        Routes {
            yields: true,
            attracts: false,
            followed: false,
            is_woken: false,
            look: now,
            broken_until: 0,
            changed: 0,
            failed: 0,
        }
    }

    /// Notes what the node says.
    pub fn attract(&mut self, attracts: bool) {
        (self.attracts, self.is_woken) = (attracts, true);
    }

    /// Runs the task that maintains the routes.
    pub fn follow(&mut self, now: u64) {
        if !std::mem::take(&mut self.is_woken) && now < self.look {
            return;
        }
        self.look = now + LOOK;
        let (before, is_broken) = (self.yields, now < self.broken_until);
        let change = || ready(if is_broken { Err(()) } else { Ok(()) });
        let done = turn(&mut self.yields, !self.attracts, change);
        match done.now_or_never().expect("nothing is waited for") {
            Ok(()) => self.followed = self.attracts,
            Err(()) => self.failed += 1,
        }
        self.changed += u64::from(self.yields != before);
    }

    /// Checks that the routes are as the node had said when they last followed.
    pub fn check(&self) -> Result<(), String> {
        match self.yields != self.followed {
            true => Ok(()),
            false => Err(format!("the routes do not follow the node: {self:?}")),
        }
    }
}

#[test]
fn a_change_of_routes_that_fails_is_tried_again() {
    let mut routes = Routes::new(0);
    routes.broken_until = 5 * LOOK;
    routes.attract(true);
    for now in 0..5 {
        routes.follow(now * LOOK);
        assert!(routes.yields, "all is as it was");
    }
    assert_eq!(routes.failed, 5);
    routes.follow(5 * LOOK);
    assert!(!routes.yields, "it attracts without being told again");

    routes.broken_until = 8 * LOOK;
    routes.attract(false);
    routes.follow(6 * LOOK);
    assert!(!routes.yields);
    // A newer decision of the node counts, and nothing is left to do.
    routes.attract(true);
    routes.follow(7 * LOOK);
    assert_eq!((routes.yields, routes.failed), (false, 6));
}
