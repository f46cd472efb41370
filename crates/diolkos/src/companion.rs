// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS64 beside a translator takes another configuration when the translator has taken it.
//!
//! file → [`Companion::offer`] → the translator reloads → [`Companion::take`] → [`Change`] → the DNS64. What the translator
//! refuses never reaches the DNS64.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::config::Settings;

/// A reload waits so long for the DNS64 at most; it goes on without.
const PATIENCE: Duration = Duration::from_secs(5);

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
}

impl Companion {
    /// One, and where it hears of changes.
    pub fn pair() -> (Companion, mpsc::Receiver<Change>) {
        let (changes, heard) = mpsc::channel(1);
        let read = Mutex::default();
        (Companion(Some(Arc::new(Inner { read, changes }))), heard)
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
        assert!(heard.try_recv().is_err(), "nothing is taken yet");
        let taken = companion.take();
        let hears = async {
            let change = heard.recv().await.expect("a change");
            change.done.send(()).expect("somebody waits");
            change.settings
        };
        let ((), changed) = tokio::join!(taken, hears);
        assert_eq!(changed, settings);
        companion.take().await;
        assert!(heard.try_recv().is_err(), "it was taken once");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        Companion::default().take().await;
        let (companion, _heard) = Companion::pair();
        companion.offer(&Settings::default());
        companion.take().await;
    }
}
