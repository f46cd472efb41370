// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text that is served: made when somebody asks, and not more often than four times a second, however many ask.

use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{timeout, Instant};

use super::family::text;
use super::names::families;
use crate::control::{self, Answer, Asker, Request};
use crate::counters::Counter;

/// A text is served for so long.
const FRESH: Duration = Duration::from_millis(250);
/// A program that takes another configuration may be busy, but a reader does not wait for ever.
const PATIENCE: Duration = Duration::from_secs(9);

/// Asks the program, and keeps what it has answered.
pub struct Latest {
    asker: Asker,
    /// The name of the DNS64 beside, whose control socket is asked.
    dns64: Option<String>,
    made: Mutex<Option<(Instant, Bytes)>>,
}

impl Latest {
    pub fn new(asker: Asker, dns64: Option<String>) -> Latest {
        Latest {
            asker,
            dns64,
            made: Mutex::new(None),
        }
    }

    /// The text, or why there is none.
    pub async fn text(&self) -> Result<Bytes, String> {
        let busy = |_| "diolkos is busy: try again".to_owned();
        timeout(PATIENCE, self.fresh()).await.map_err(busy)?
    }

    async fn fresh(&self) -> Result<Bytes, String> {
        // Others wait here, and are served the same.
        let mut made = self.made.lock().await;
        if let Some((when, text)) = &*made {
            if when.elapsed() < FRESH {
                return Ok(text.clone());
            }
        }
        let mut figures = match self.asker.ask(Request::Figures).await {
            Some(Answer::Figures(figures)) => figures,
            Some(Answer::Failed(why)) => return Err(why),
            Some(_) | None => return Err("diolkos ends".to_owned()),
        };
        let beside = match self.dns64.clone() {
            Some(name) => Some(beside(name).await),
            None => None,
        };
        let is_up = beside.as_ref().map(Option::is_some);
        figures
            .counters
            .extend(beside.flatten().unwrap_or_default());
        let text = Bytes::from(text(families(&figures, is_up)));
        *made = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// What the DNS64 beside has counted; it has a thread, and a control socket, of its own.
async fn beside(name: String) -> Option<Vec<Counter>> {
    let asked = spawn_blocking(move || control::ask(&name, Request::Counters));
    match asked.await.ok()? {
        Ok(Answer::Counters(counters)) => Some(counters),
        Ok(_) => None,
        Err(failure) => {
            tracing::debug!("the DNS64 does not return its counters: {failure}");
            None
        }
    }
}
