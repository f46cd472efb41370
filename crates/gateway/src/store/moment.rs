// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A point in time that can be told apart from those of other runs of the program, or of the machine.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diolkos_sys::clock;

/// A time by the clock since boot, and by the wall clock, which may be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Identifies the boot of the machine; 0 if unknown.
    pub boot: u128,
    /// CLOCK_BOOTTIME: it counts while the machine is suspended, and cannot be set.
    pub since_boot: Duration,
    /// Time since 1970.
    pub wall: Duration,
}

impl Moment {
    /// Returns the current moment.
    pub fn now() -> Moment {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Moment {
            boot: u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or(0),
            since_boot: clock::boottime(),
            wall: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Returns how much time passes from this moment to a later one. Across a reboot only the wall clock can tell; if
    /// it was set back, the result is zero.
    pub fn until(&self, later: &Moment) -> Duration {
        let same_boot = self.boot != 0 && self.boot == later.boot;
        match same_boot {
            true => later.since_boot.saturating_sub(self.since_boot),
            false => later.wall.saturating_sub(self.wall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(boot: u128, since_boot: u64, wall: u64) -> Moment {
        Moment {
            boot,
            since_boot: Duration::from_secs(since_boot),
            wall: Duration::from_secs(wall),
        }
    }

    #[test]
    fn the_clock_that_nobody_sets_goes_first() {
        let before = moment(7, 1000, 50_000);
        for (later, passed) in [
            (moment(7, 1030, 50_030), 30),
            (moment(7, 1030, 0), 30),
            (moment(7, 1030, 9_999_999), 30),
            (moment(8, 5, 50_300), 300),
            (moment(8, 2000, 49_000), 0),
            (moment(0, 2000, 50_001), 1),
        ] {
            assert_eq!(
                before.until(&later),
                Duration::from_secs(passed),
                "{later:?}"
            );
        }
        let unknown = moment(0, 1000, 50_000);
        assert_eq!(unknown.until(&moment(0, 1, 50_002)), Duration::from_secs(2));
    }

    #[test]
    fn this_machine_knows_its_start() {
        let (first, second) = (Moment::now(), Moment::now());
        assert_ne!(first.boot, 0);
        assert!(first.until(&second) < Duration::from_secs(60));
    }
}
