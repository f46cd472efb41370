// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists bindings and sessions of the tables for the operator.

use std::thread;
use std::time::Duration;

use diolkos_figures::entries::{BindingRow, Entries, SessionRow};
use diolkos_figures::selection::Selection;

use super::Controller;

/// Maximum number of lines in one answer; for more, use a monitoring system.
const LINES: usize = 100_000;
/// Pause between two reads of the tables, in which packets pass.
const BREATH: Duration = Duration::from_micros(100);

/// Returns the selected bindings, in the order of their IPv4 addresses and ports.
pub fn bindings(controller: &Controller, selection: &Selection) -> Entries<BindingRow> {
    let part = |first| controller.bindings_from(first);
    let (mut found, total) = selected(selection, part, |view| selection.has_binding(view));
    found.sort_by_key(|b| (b.binding.protocol, b.binding.v4));
    Entries {
        entries: found.iter().map(BindingRow::from).collect(),
        total: total.unwrap_or_else(|| controller.counts().bindings),
    }
}

/// Returns the selected sessions, in the order of their IPv4 addresses and ports.
pub fn sessions(controller: &Controller, selection: &Selection) -> Entries<SessionRow> {
    let part = |first| {
        if selection.is_all() {
            return controller.sessions_from(first, true);
        }
        // The query of the fast path takes most of the time, so it is made only for parts that contain selected
        // sessions.
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

/// Scans a table in parts. Returns as many entries as the answer has room for, and the number of selected ones; None if
/// all are selected.
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
