// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings and sessions as an operator reads them.

use std::thread;
use std::time::Duration;

use diolkos_nat64::session::{BindingView, SessionView};
use serde::{Deserialize, Serialize};

use super::{Controller, Selection};

/// Lines that one answer holds; whoever wants more asks a monitoring system.
const LINES: usize = 100_000;
/// Between two looks into the tables, in which packets pass.
const BREATH: Duration = Duration::from_micros(100);

/// An answer: entries, and how many there are in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entries<T> {
    /// As many as fit into an answer.
    pub entries: Vec<T>,
    /// Of all that there are and were asked for.
    pub total: u32,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingRow {
    protocol: String,
    v6: String,
    v4: String,
    sessions: u32,
    /// `configured`, `operator` or `dynamic`.
    origin: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    protocol: String,
    v6: String,
    v4: String,
    peer: String,
    state: String,
    /// Without another packet.
    expires_in_s: u64,
}

/// The bindings that are selected, in the order of their IPv4 addresses and ports.
pub fn bindings(controller: &Controller, selection: &Selection) -> Entries<BindingRow> {
    let part = |first| controller.bindings_from(first);
    let (mut found, total) = selected(selection, part, |view| selection.has_binding(view));
    found.sort_by_key(|b| (b.binding.protocol, b.binding.v4));
    Entries {
        entries: found.iter().map(BindingRow::from).collect(),
        total: total.unwrap_or_else(|| controller.counts().bindings),
    }
}

/// The sessions that are selected, in the order of their IPv4 addresses and ports.
pub fn sessions(controller: &Controller, selection: &Selection) -> Entries<SessionRow> {
    let part = |first| {
        if selection.is_all() {
            return controller.sessions_from(first, true);
        }
        // To ask the fast path takes most of the time, so it is asked only of parts that have what is selected.
        let (there, next) = controller.sessions_from(first, false);
        match there.iter().any(|view| selection.has_session(view)) {
            true => controller.sessions_from(first, true),
            false => (Vec::new(), next),
        }
    };
    let (mut found, total) = selected(selection, part, |view| selection.has_session(view));
    found.sort_by_key(|s| (s.binding.protocol, s.binding.v4, s.peer));
    Entries {
        entries: found.iter().map(SessionRow::from).collect(),
        total: total.unwrap_or_else(|| controller.counts().sessions),
    }
}

/// Goes through a table in parts. Returns as many entries as the answer has room for, and how many are selected; None: all
/// that there are.
fn selected<T>(
    selection: &Selection,
    part: impl Fn(u32) -> (Vec<T>, Option<u32>),
    has: impl Fn(&T) -> bool,
) -> (Vec<T>, Option<u32>) {
    let most = selection
        .limit
        .map_or(LINES, |limit| LINES.min(limit as usize));
    let (mut found, mut total, mut next) = (Vec::new(), 0, Some(0));
    while let Some(first) = next {
        let (there, after) = part(first);
        for entry in there.into_iter().filter(&has) {
            total += 1;
            if found.len() < most {
                found.push(entry);
            }
        }
        if selection.is_all() && found.len() >= most {
            break;
        }
        next = after;
        thread::sleep(BREATH);
    }
    (found, Some(total).filter(|_| !selection.is_all()))
}

impl From<&BindingView> for BindingRow {
    fn from(view: &BindingView) -> BindingRow {
        BindingRow {
            protocol: view.binding.protocol.name().to_owned(),
            v6: view.binding.v6.to_string(),
            v4: view.binding.v4.to_string(),
            sessions: view.sessions,
            origin: view.origin.name().to_owned(),
        }
    }
}

impl From<&SessionView> for SessionRow {
    fn from(view: &SessionView) -> SessionRow {
        SessionRow {
            protocol: view.binding.protocol.name().to_owned(),
            v6: view.binding.v6.to_string(),
            v4: view.binding.v4.to_string(),
            peer: view.peer.to_string(),
            state: view.state.name().to_owned(),
            expires_in_s: view.remaining.as_secs(),
        }
    }
}

/// An entry as a line of a table.
pub trait Row {
    /// Names of the columns.
    const HEADS: &'static [&'static str];
    /// What stands in them.
    fn cells(&self) -> Vec<String>;
}

impl Row for BindingRow {
    const HEADS: &'static [&'static str] = &["protocol", "v6", "v4", "sessions", "origin"];

    fn cells(&self) -> Vec<String> {
        let (protocol, v6, v4) = (self.protocol.clone(), self.v6.clone(), self.v4.clone());
        vec![
            protocol,
            v6,
            v4,
            self.sessions.to_string(),
            self.origin.clone(),
        ]
    }
}

impl Row for SessionRow {
    const HEADS: &'static [&'static str] =
        &["protocol", "v6", "v4", "peer", "state", "expires in s"];

    fn cells(&self) -> Vec<String> {
        let (protocol, v6, v4) = (self.protocol.clone(), self.v6.clone(), self.v4.clone());
        let (peer, state) = (self.peer.clone(), self.state.clone());
        vec![protocol, v6, v4, peer, state, self.expires_in_s.to_string()]
    }
}

impl<T: Row> Entries<T> {
    /// A table for people.
    pub fn table(&self) -> String {
        let heads = T::HEADS.iter().map(ToString::to_string).collect();
        let lines: Vec<Vec<String>> = std::iter::once(heads)
            .chain(self.entries.iter().map(T::cells))
            .collect();
        let width = |at: usize| lines.iter().map(|line| line[at].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..T::HEADS.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let padded = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            text += padded.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        if (self.total as usize) > self.entries.len() {
            text += &format!("{} of {}\n", self.entries.len(), self.total);
        }
        text
    }
}
