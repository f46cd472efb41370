// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a reader that has nothing to read looks again before it sleeps.
//!
//! Whoever wakes it for each packet pays more for that than for the packet, and packets that come one by one cannot be
//! joined. So while packets come closely, the reader gives its CPU to whoever wants it, and looks again. All that it has read
//! has left by then.

use std::time::{Duration, Instant};

/// Packets that come at greater distances are no rush: the reader sleeps at once.
const CLOSE: Duration = Duration::from_micros(50);
/// How long it looks again after the last packet.
const PATIENCE: Duration = Duration::from_micros(50);

/// Of one reader.
#[derive(Debug, Default)]
pub struct Linger {
    /// Something was read since there was nothing to read.
    read: bool,
    /// When that ended last.
    ended: Option<Instant>,
    is_rush: bool,
}

impl Linger {
    /// Something was read.
    pub fn read(&mut self) {
        self.read = true;
    }

    /// There is nothing to read. Whether to look again.
    pub fn looks_again(&mut self, now: Instant) -> bool {
        let since = self.ended.map(|ended| now.duration_since(ended));
        if self.read {
            self.read = false;
            self.ended = Some(now);
            self.is_rush = since.is_some_and(|since| since < CLOSE);
            return self.is_rush;
        }
        self.is_rush &= since.is_some_and(|since| since < PATIENCE);
        self.is_rush
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(Instant::now) + Duration::from_micros(micros)
    }

    /// A packet is read, and at this time there is nothing more.
    fn read(linger: &mut Linger, micros: u64) -> bool {
        linger.read();
        linger.looks_again(at(micros))
    }

    #[test]
    fn a_lone_packet_keeps_nobody_awake() {
        let mut linger = Linger::default();
        for millis in 0..5 {
            assert!(!read(&mut linger, 1000 * millis));
        }
    }

    #[test]
    fn in_a_rush_it_looks_again_for_a_moment() {
        let mut linger = Linger::default();
        assert!(!read(&mut linger, 1000));
        assert!(read(&mut linger, 1020));
        assert!(linger.looks_again(at(1040)));
        assert!(read(&mut linger, 1060));
        assert!(linger.looks_again(at(1109)));
        assert!(!linger.looks_again(at(1110)));
        // Whoever has given up sleeps until there is a packet.
        assert!(!linger.looks_again(at(1111)));
        assert!(!read(&mut linger, 2000));
    }
}
