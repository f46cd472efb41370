// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides when an alarm is raised, when it is over, and when that is logged. The senders of packets decide how full a table
//! is, so neither the alarm nor the log may follow each of their moves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Consecutive checks below the lower threshold after which an alarm is over.
pub const CALM_LOOKS: u32 = 5;
/// Least time between a log line that an alarm is over and the next one that it is raised.
pub const QUIET: Duration = Duration::from_secs(60);

/// The level of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// At the threshold of the alarm, or above it.
    High,
    /// Between the two thresholds: the alarm keeps its state.
    Between,
    /// Below the lower threshold.
    Low,
}

impl Level {
    /// The level of a usage and its limit. The lower threshold is seven eighths of the upper one.
    pub fn of(used: u64, limit: u64, percent: u8) -> Level {
        let (used, line) = (
            u128::from(used) * 800,
            u128::from(limit) * u128::from(percent),
        );
        match () {
            () if used >= line * 8 => Level::High,
            () if used < line * 7 => Level::Low,
            () => Level::Between,
        }
    }
}

/// The line to log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The alarm is raised.
    Raised,
    /// The alarm is over.
    Over,
}

#[derive(Clone, Copy, Default, Debug)]
struct Alarm {
    is_raised: bool,
    calm: u32,
    /// The log has reported that it is raised.
    is_said: bool,
    /// The time at which the log last reported that it is over.
    over_at: Option<Instant>,
}

/// The alarms of all resources, by name.
#[derive(Default, Debug)]
pub struct Rule {
    alarms: BTreeMap<String, Alarm>,
}

impl Rule {
    /// Updates the alarm of a resource; returns the line to log.
    pub fn look(&mut self, name: &str, level: Level, now: Instant) -> Option<Line> {
        if level != Level::High && !self.alarms.contains_key(name) {
            return None;
        }
        let alarm = self.alarms.entry(name.to_owned()).or_default();
        alarm.calm = match level {
            Level::Low => alarm.calm + 1,
            Level::High | Level::Between => 0,
        };
        if level == Level::High {
            alarm.is_raised = true;
        } else if alarm.calm >= CALM_LOOKS {
            alarm.is_raised = false;
        }
        let is_quiet = alarm
            .over_at
            .is_some_and(|over| now.saturating_duration_since(over) < QUIET);
        match (alarm.is_raised, alarm.is_said) {
            (true, false) if !is_quiet => {
                alarm.is_said = true;
                Some(Line::Raised)
            }
            (false, true) => {
                alarm.is_said = false;
                alarm.over_at = Some(now);
                Some(Line::Over)
            }
            (false, false) if !is_quiet => {
                self.alarms.remove(name);
                None
            }
            _ => None,
        }
    }

    /// Returns true if the alarm of this resource is raised.
    pub fn is_raised(&self, name: &str) -> bool {
        self.alarms.get(name).is_some_and(|alarm| alarm.is_raised)
    }

    /// Forgets the resources for which `is_there` is false.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.alarms.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_lines_are_at_the_percentage_and_at_seven_eighths_of_it() {
        for (used, limit, percent, level) in [
            (0, 10, 80, Level::Low),
            (6, 10, 80, Level::Low),
            (7, 10, 80, Level::Between),
            (8, 10, 80, Level::High),
            (10, 10, 100, Level::High),
            (9, 10, 100, Level::Between),
            (0, 1, 1, Level::Low),
            (1, 3, 80, Level::Low),
            (3, 3, 80, Level::High),
            (u64::MAX, u64::MAX, 100, Level::High),
            (u64::MAX - 1, u64::MAX, 100, Level::Between),
        ] {
            let found = Level::of(used, limit, percent);
            assert_eq!(found, level, "{used} of {limit}, {percent} %");
        }
    }

    #[test]
    fn it_is_raised_at_once_and_over_after_a_while_below_the_lower_line() {
        let (mut rule, now) = (Rule::default(), Instant::now());
        assert_eq!(rule.look("a", Level::Between, now), None);
        assert_eq!(rule.look("a", Level::High, now), Some(Line::Raised));
        assert_eq!(rule.look("a", Level::High, now), None, "it is said once");
        for _ in 1..CALM_LOOKS {
            assert_eq!(rule.look("a", Level::Low, now), None);
        }
        assert_eq!(rule.look("a", Level::Between, now), None);
        assert!(rule.is_raised("a"), "it was not low for long enough");
        for _ in 1..CALM_LOOKS {
            assert_eq!(rule.look("a", Level::Low, now), None);
        }
        assert!(rule.is_raised("a") && !rule.is_raised("b"));
        assert_eq!(rule.look("a", Level::Low, now), Some(Line::Over));
        assert!(!rule.is_raised("a"));
    }

    #[test]
    fn a_level_that_goes_up_and_down_is_raised_each_time_and_said_once_a_minute() {
        let (mut rule, begin) = (Rule::default(), Instant::now());
        let mut said = 0;
        for at in 0..600 {
            let level = match at % 10 {
                0 => Level::High,
                _ => Level::Low,
            };
            said += u32::from(rule.look("a", level, begin + second(at)).is_some());
            assert_eq!(rule.is_raised("a"), at % 10 < u64::from(CALM_LOOKS));
        }
        assert!((2..=20).contains(&said), "{said} lines in ten minutes");
    }

    #[test]
    fn what_is_long_over_is_forgotten() {
        let (mut rule, begin) = (Rule::default(), Instant::now());
        rule.look("a", Level::High, begin);
        for at in 0..200 {
            rule.look("a", Level::Low, begin + second(at));
        }
        assert!(rule.alarms.is_empty());
    }

    /// Lines alternate for every sequence of levels, and an alarm that is over is not reported as raised.
    #[test]
    fn lines_alternate() {
        const LEVELS: [Level; 3] = [Level::High, Level::Between, Level::Low];
        const LOOKS: u32 = 10;
        for mut sequence in 0..3usize.pow(LOOKS) {
            let (mut rule, mut now) = (Rule::default(), Instant::now());
            let mut is_said = false;
            for _ in 0..LOOKS {
                let level = LEVELS[sequence % 3];
                sequence /= 3;
                now += QUIET / 4;
                if let Some(line) = rule.look("a", level, now) {
                    assert_eq!(line == Line::Raised, !is_said);
                    is_said = line == Line::Raised;
                }
                assert!(level != Level::High || rule.is_raised("a"));
                assert!(!is_said || rule.is_raised("a"));
            }
        }
    }
}
