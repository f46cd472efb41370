// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop before there is a service: it waits for conditions that only the network, or another program, can bring.

use std::fmt::Display;

use crate::translator::{Answer, Condition, Control, Request, State};
use diolkos_kernel::net::Event;
use diolkos_service::failure::Failure;

use super::settle::Settling;
use super::Host;

/// Calls `look` again at each change of links, addresses and routes until it succeeds; its inner error says why it does not.
/// `what` names the waiting program for the service manager. Returns `None` if a signal came.
pub async fn wait_for<T, W: Display>(
    host: &mut Host,
    control: &mut Control,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Result<T, W>, Failure>,
) -> Result<Option<T>, Failure> {
    let beat = host.watch.beat("the service");
    let mut said = String::new();
    let mut looks = Settling::default();
    let mut is_due = true;
    loop {
        if std::mem::take(&mut is_due) {
            looks.clear();
            match look().await {
                Ok(Ok(found)) => return Ok(Some(found)),
                Ok(Err(why)) => {
                    let why = why.to_string();
                    if said != why {
                        tracing::warn!("waiting: {why}");
                        said = why;
                    }
                }
                Err(failure) if failure.is_transient() => {
                    tracing::warn!("{failure}: retrying");
                    looks.touch_later();
                }
                Err(failure) => return Err(failure),
            }
            control.publish(Condition {
                state: State::Waiting,
                obstacles: vec![said.clone()],
                ..Condition::default()
            });
            host.manager
                .status(&format!("{what}: waiting; wrong: {said}"));
            host.manager.ready();
        }
        beat.beat();
        tokio::select! {
            () = beat.due() => {}
            () = looks.settled() => is_due = true,
            () = host.signals.reload() => tracing::warn!("not reloaded: {said}"),
            () = host.signals.any() => {
                tracing::info!("stopped by a signal");
                host.manager.stopping();
                return Ok(None);
            }
            failure = host.alarm.rung() => return Err(failure),
            event = host.news.next() => {
                if !matches!(event, Event::SettingsForgotten(_)) {
                    looks.touch();
                }
            }
            question = control.next() => {
                let answer = match question.request {
                    Request::Counters => Answer::Counters(Vec::new()),
                    Request::Reload => Answer::Failed(format!("there is nothing to reload yet: {said}")),
                    _ => Answer::NotSupported(format!("the translator is not built yet: {said}")),
                };
                question.answer(answer);
            }
        }
    }
}
