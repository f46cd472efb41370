// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The current text of each page: metrics, readiness and health. A text is made when a client asks for it, at most four times a
//! second, however many clients ask.

use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::error::Elapsed;
use tokio::time::{timeout, Instant};

use super::family::{Family, Format};
use super::names::families;
use crate::translator::{self, Answer, Asker, Request};
use diolkos_figures::counters::Counter;

/// A text is served for this time.
const FRESH: Duration = Duration::from_millis(250);
/// Time limit for an answer. A program that loads another configuration may be busy, but a client does not wait without end.
const PATIENCE: Duration = Duration::from_secs(9);

/// Asks the program for its figures, and caches them.
pub struct Latest {
    asker: Asker,
    /// The name of the DNS64 beside the translator; its control socket is asked.
    dns64: Option<String>,
    made: Mutex<Option<Made>>,
    /// The time of the program's last answer.
    lived: Mutex<Option<Instant>>,
}

/// The cached answer.
struct Made {
    at: Instant,
    families: Vec<Family>,
    /// The text in each format, made when a client asks for it.
    texts: [Option<Bytes>; 2],
}

impl Made {
    fn text(&mut self, format: Format) -> Bytes {
        let families = &self.families;
        let text = &mut self.texts[format as usize];
        text.get_or_insert_with(|| Bytes::from(format.text(families)))
            .clone()
    }
}

impl Latest {
    pub fn new(asker: Asker, dns64: Option<String>) -> Latest {
        Latest {
            asker,
            dns64,
            made: Mutex::new(None),
            lived: Mutex::new(None),
        }
    }

    /// The text in this format, or the reason why there is none.
    pub async fn text(&self, format: Format) -> Result<Bytes, String> {
        timeout(PATIENCE, self.fresh(format)).await.map_err(busy)?
    }

    /// Ready, or the reasons why packets cannot pass. The result is available while the program is busy.
    pub fn readiness(&self) -> Result<(), String> {
        let status = self.asker.status();
        match (status.is_ready(), &status.obstacles[..]) {
            (true, _) => Ok(()),
            (false, []) => Err("it is starting".to_owned()),
            (false, obstacles) => Err(obstacles.join("\n")),
        }
    }

    /// Healthy if the program's loop answers in time.
    pub async fn health(&self) -> Result<(), String> {
        timeout(PATIENCE, self.lives()).await.map_err(busy)?
    }

    async fn lives(&self) -> Result<(), String> {
        let mut lived = self.lived.lock().await;
        if lived.is_some_and(|when| when.elapsed() < FRESH) {
            return Ok(());
        }
        // The cheapest request. Whether this kind of translator supports it does not matter.
        match self.asker.ask(Request::Prefix).await {
            Some(_) => *lived = Some(Instant::now()),
            None => return Err(ending()),
        }
        Ok(())
    }

    async fn fresh(&self, format: Format) -> Result<Bytes, String> {
        // Other clients wait here, and are served the same text.
        let mut made = self.made.lock().await;
        if let Some(made) = made.as_mut().filter(|made| made.at.elapsed() < FRESH) {
            return Ok(made.text(format));
        }
        let mut figures = match self.asker.ask(Request::Figures).await {
            Some(Answer::Figures(figures)) => figures,
            Some(Answer::Failed(why)) => return Err(why),
            Some(_) | None => return Err(ending()),
        };
        let beside = match self.dns64.clone() {
            Some(name) => Some(beside(name).await),
            None => None,
        };
        let is_up = beside.as_ref().map(Option::is_some);
        figures
            .counters
            .extend(beside.flatten().unwrap_or_default());
        let new = Made {
            at: Instant::now(),
            families: families(&figures, is_up, &self.asker.status()),
            texts: [None, None],
        };
        Ok(made.insert(new).text(format))
    }
}

fn busy(_: Elapsed) -> String {
    "diolkos is busy: try again".to_owned()
}

fn ending() -> String {
    "diolkos ends".to_owned()
}

/// The counters of the DNS64 beside the translator, which has its own thread and control socket.
async fn beside(name: String) -> Option<Vec<Counter>> {
    let asked = spawn_blocking(move || translator::ask(&name, Request::Counters));
    match asked.await.ok()? {
        Ok(Answer::Counters(counters)) => Some(counters),
        Ok(_) => None,
        Err(failure) => {
            tracing::debug!("the DNS64 does not return its counters: {failure}");
            None
        }
    }
}
