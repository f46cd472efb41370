// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS64 beside a translator takes another configuration when the translator has taken it.
//!
//! file → [`Companion::offer`] → the translator reloads → [`Companion::take`] → [`Change`] → the DNS64. What the translator
//! refuses never reaches the DNS64.

use std::sync::mpsc::{self as threads, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use diolkos_config::Settings;
use diolkos_service::manager::Manager;
use diolkos_service::supervise::{Alarm, Watch};

/// A reload waits so long for the DNS64 at most; it goes on without.
const PATIENCE: Duration = Duration::from_secs(5);
/// A start waits so long until the DNS64 has its name and has tried its ports.
const BEGIN: Duration = Duration::from_secs(10);

/// What a service is run under.
pub struct Supervision {
    /// Starts what is watched.
    pub watch: Watch,
    /// Rings when it fails.
    pub alarm: Alarm,
    /// Is told how it goes.
    pub manager: Manager,
    /// What runs beside it.
    pub companion: Companion,
}

/// Another configuration for the DNS64.
#[derive(Debug)]
pub struct Change {
    /// All of it.
    pub settings: Settings,
    /// Is told, or dropped, when it is in force.
    pub done: oneshot::Sender<()>,
}

/// What runs beside a translator; the default is nothing. Clones are the same.
#[derive(Clone, Default)]
pub struct Companion(Option<Arc<Inner>>);

struct Inner {
    read: Mutex<Option<Settings>>,
    changes: mpsc::Sender<Change>,
    begun: Mutex<threads::Receiver<()>>,
    troubles: Arc<Mutex<Vec<String>>>,
}

/// The other end, for what runs beside.
pub struct Post {
    /// Changes of the configuration.
    pub changes: mpsc::Receiver<Change>,
    begun: threads::Sender<()>,
    troubles: Arc<Mutex<Vec<String>>>,
}

impl Post {
    /// It has what it must have, or has said what it lacks. Without this, it ends.
    pub fn begun(&self) {
        let _ = self.begun.send(());
    }

    /// What is wrong with it now.
    pub fn tell(&self, troubles: &[String]) {
        let mut told = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != troubles {
            *told = troubles.to_vec();
        }
    }
}

impl Companion {
    /// One, and its other end.
    pub fn pair() -> (Companion, Post) {
        let (changes, heard) = mpsc::channel(1);
        let (begun, has_begun) = threads::channel();
        let troubles = Arc::<Mutex<Vec<String>>>::default();
        let inner = Inner {
            read: Mutex::default(),
            changes,
            begun: Mutex::new(has_begun),
            troubles: troubles.clone(),
        };
        let post = Post {
            changes: heard,
            begun,
            troubles,
        };
        (Companion(Some(Arc::new(inner))), post)
    }

    /// Waits until it has begun. False: it has ended instead, and the alarm says why.
    pub fn has_begun(&self) -> bool {
        let Some(inner) = &self.0 else { return true };
        let begun = inner.begun.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(
            begun.recv_timeout(BEGIN),
            Err(RecvTimeoutError::Disconnected)
        )
    }

    /// What is wrong with it.
    pub fn troubles(&self) -> Vec<String> {
        self.0.as_ref().map_or_else(Vec::new, |inner| {
            let troubles = inner.troubles.lock();
            troubles.unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    /// The file has been read again; the translator has not taken it yet.
    pub fn offer(&self, settings: &Settings) {
        if let Some(inner) = &self.0 {
            *inner.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
        }
    }

    /// The translator has taken what was offered. Returns when that is in force here too, or soon.
    pub async fn take(&self) {
        let Some(inner) = &self.0 else { return };
        let read = inner.read.lock();
        let Some(settings) = read.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let (done, is_done) = oneshot::channel();
        let change = Change { settings, done };
        let told = timeout(PATIENCE, async {
            let _ = inner.changes.send(change).await;
            let _ = is_done.await;
        });
        if told.await.is_err() {
            tracing::warn!("the DNS64 takes long to reload: its old configuration may be in force for some seconds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_taken_is_what_was_offered_last_and_once() {
        let (companion, mut heard) = Companion::pair();
        let mut settings = Settings::default();
        companion.offer(&settings);
        settings.translator.device = "nat0".to_owned();
        companion.offer(&settings);
        assert!(heard.changes.try_recv().is_err(), "nothing is taken yet");
        let taken = companion.take();
        let hears = async {
            let change = heard.changes.recv().await.expect("a change");
            change.done.send(()).expect("somebody waits");
            change.settings
        };
        let ((), changed) = tokio::join!(taken, hears);
        assert_eq!(changed, settings);
        companion.take().await;
        assert!(heard.changes.try_recv().is_err(), "it was taken once");
    }

    #[test]
    fn what_ends_before_it_begins_is_known() {
        assert!(Companion::default().has_begun());
        let (companion, post) = Companion::pair();
        post.begun();
        post.tell(&["[::1]:53 is taken".to_owned()]);
        assert!(companion.has_begun());
        drop(post);
        assert!(!companion.has_begun());
        assert_eq!(companion.troubles(), ["[::1]:53 is taken"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        Companion::default().take().await;
        let (companion, _heard) = Companion::pair();
        companion.offer(&Settings::default());
        companion.take().await;
    }
}
