// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heartbeats of supervised loops, and the messages that keep the service manager's watchdog from firing.
//!
//! loop → [`Heartbeat`] → [`Watchdog::keep`] → service manager. Every loop beats regularly, even when it has nothing to do. The
//! messages continue only while all loops beat: if one hangs, packets, sessions or queries are not served although the process
//! looks alive. Then the messages stop, and the service manager ends the process and restarts it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::manager::Manager;

/// Fraction of the watchdog's time after which a loop without a beat counts as hung.
const LATE: u32 = 2;
/// Fraction of the watchdog's time between two checks of all loops.
const LOOKS: u32 = 4;
/// Fraction of the watchdog's time after which an idle loop beats.
const BEATS: u32 = 8;

/// All heartbeats. Clones share them. The default has no service manager and ignores them.
#[derive(Clone, Default)]
pub struct Watchdog(Option<Arc<Inner>>);

struct Inner {
    manager: Manager,
    watchdog: Duration,
    hearts: Mutex<Vec<Arc<Heart>>>,
}

struct Heart {
    name: String,
    beats: AtomicU64,
    /// The loop has ended as intended.
    ended: AtomicBool,
}

/// The heartbeat of one loop. Dropping it means that the loop has ended; during a panic, that it has stopped.
pub struct Heartbeat(Option<(Arc<Heart>, Duration)>);

impl Watchdog {
    /// The watchdog of a service manager, which may have none.
    pub fn of(manager: &Manager) -> Watchdog {
        Watchdog(manager.watchdog().map(|watchdog| {
            Arc::new(Inner {
                manager: manager.clone(),
                watchdog,
                hearts: Mutex::default(),
            })
        }))
    }

    /// Registers a loop that begins; `name` is for the log.
    pub fn beat(&self, name: impl Into<String>) -> Heartbeat {
        Heartbeat(self.0.as_ref().map(|inner| {
            let heart = Arc::new(Heart {
                name: name.into(),
                beats: AtomicU64::new(0),
                ended: AtomicBool::new(false),
            });
            inner.hearts().push(heart.clone());
            (heart, inner.watchdog / BEATS)
        }))
    }

    /// Tells the service manager that the program is alive while all loops beat, until `pause` reports that the program ends.
    pub fn keep(&self, mut pause: impl FnMut(Duration) -> bool) {
        let Some(inner) = &self.0 else { return };
        let mut seen = Seen::default();
        loop {
            let late = seen.late(&mut inner.hearts(), Instant::now(), inner.watchdog / LATE);
            if late.is_empty() {
                inner.manager.alive();
            }
            for name in late {
                tracing::error!(
                    "the loop `{name}` hangs: unless it moves within {} s, the service manager kills this process and \
                     starts it again",
                    inner.watchdog.as_secs_f32()
                );
            }
            if !pause(inner.watchdog / LOOKS) {
                return;
            }
        }
    }
}

impl Inner {
    fn hearts(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Heart>>> {
        self.hearts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The count of each loop, and the time at which it last changed.
#[derive(Default)]
struct Seen(Vec<(Arc<Heart>, u64, Instant)>);

impl Seen {
    /// The loops that have not moved for `limit`.
    fn late(&mut self, hearts: &mut Vec<Arc<Heart>>, now: Instant, limit: Duration) -> Vec<String> {
        hearts.retain(|heart| !heart.ended.load(Ordering::Relaxed));
        self.0
            .retain(|(heart, ..)| hearts.iter().any(|other| Arc::ptr_eq(heart, other)));
        let mut late = Vec::new();
        for heart in hearts.iter() {
            let beats = heart.beats.load(Ordering::Relaxed);
            let known = self.0.iter_mut().find(|(h, ..)| Arc::ptr_eq(h, heart));
            match known {
                None => self.0.push((heart.clone(), beats, now)),
                Some((_, last, at)) if *last != beats => (*last, *at) = (beats, now),
                Some((_, _, at)) if now.duration_since(*at) >= limit => {
                    late.push(heart.name.clone());
                }
                Some(_) => {}
            }
        }
        late
    }
}

impl Heartbeat {
    /// Records that the loop has moved.
    pub fn beat(&self) {
        if let Some((heart, _)) = &self.0 {
            // There is one writer, so no locked instruction is needed.
            let next = heart.beats.load(Ordering::Relaxed).wrapping_add(1);
            heart.beats.store(next, Ordering::Relaxed);
        }
    }

    /// The longest time that the loop may wait for work. `None`: no limit.
    pub fn every(&self) -> Option<Duration> {
        self.0.as_ref().map(|(_, every)| *every)
    }

    /// Waits until it is time to beat.
    pub async fn due(&self) {
        match self.every() {
            Some(every) => tokio::time::sleep(every).await,
            None => std::future::pending().await,
        }
    }

    /// Beats while `work` is awaited, but for at most `most`. The work itself is never aborted.
    pub async fn through<T>(&self, most: Duration, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let begin = Instant::now();
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.beat();
                    return done;
                }
                () = self.due(), if begin.elapsed() < most => self.beat(),
            }
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let (Some((heart, _)), false) = (&self.0, std::thread::panicking()) {
            heart.ended.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const NONE: [&str; 0] = [];

    fn heart(name: &str) -> Heartbeat {
        let heart = Heart {
            name: name.to_owned(),
            beats: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        };
        Heartbeat(Some((Arc::new(heart), Duration::from_secs(1))))
    }

    fn of(beats: &[&Heartbeat]) -> Vec<Arc<Heart>> {
        let hearts = beats.iter().map(|beat| beat.0.as_ref().expect("it beats"));
        hearts.map(|(heart, _)| heart.clone()).collect()
    }

    #[test]
    fn one_loop_that_hangs_is_late_whatever_the_others_do() {
        let (reader, sweeper) = (heart("reader"), heart("sweeper"));
        let mut hearts = of(&[&reader, &sweeper]);
        let (mut seen, begin) = (Seen::default(), Instant::now());
        assert_eq!(seen.late(&mut hearts, begin, LIMIT), NONE);
        for second in 1..10 {
            reader.beat();
            let now = begin + Duration::from_secs(second);
            assert_eq!(seen.late(&mut hearts, now, LIMIT), NONE);
        }
        reader.beat();
        let late = seen.late(&mut hearts, begin + LIMIT, LIMIT);
        assert_eq!(late, ["sweeper"]);
        sweeper.beat();
        reader.beat();
        assert_eq!(seen.late(&mut hearts, begin + 2 * LIMIT, LIMIT), NONE);
    }

    #[test]
    fn a_loop_that_has_ended_is_not_waited_for() {
        let ends = heart("a reader");
        let mut hearts = of(&[&ends]);
        let (mut seen, begin) = (Seen::default(), Instant::now());
        assert_eq!(seen.late(&mut hearts, begin, LIMIT), NONE);
        drop(ends);
        assert_eq!(seen.late(&mut hearts, begin + LIMIT, LIMIT), NONE);
        assert!(hearts.is_empty() && seen.0.is_empty());
    }

    #[test]
    fn a_loop_that_panicked_has_stopped() {
        let panics = heart("a reader");
        let mut hearts = of(&[&panics]);
        let (mut seen, begin) = (Seen::default(), Instant::now());
        assert_eq!(seen.late(&mut hearts, begin, LIMIT), NONE);
        let panicked = std::thread::spawn(move || {
            panics.beat();
            panic!("in the middle of a packet");
        });
        assert!(panicked.join().is_err());
        assert_eq!(seen.late(&mut hearts, begin, LIMIT), NONE);
        assert!(seen.late(&mut hearts, begin + LIMIT, LIMIT).len() == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_beats_but_not_for_ever() {
        let beat = heart("service");
        let work = tokio::time::sleep(Duration::from_secs(3600));
        beat.through(Duration::from_secs(60), work).await;
        let (heart, _) = beat.0.as_ref().expect("it beats");
        let beats = heart.beats.load(Ordering::Relaxed);
        assert!(beats > 1, "{beats}");
    }

    #[test]
    fn nobody_listens_and_nothing_is_kept() {
        let watchdog = Watchdog::default();
        let beat = watchdog.beat("reader");
        beat.beat();
        assert!(beat.every().is_none());
        watchdog.keep(|_| panic!("there is nothing to keep"));
    }
}
