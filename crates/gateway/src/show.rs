// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings and sessions of the tables, as an operator asks for them.

use std::thread;
use std::time::Duration;

use diolkos_figures::entries::{BindingRow, Entries, SessionRow};
use diolkos_figures::selection::Selection;

use super::Controller;

/// Lines that one answer holds; whoever wants more asks a monitoring system.
const LINES: usize = 100_000;
/// Between two looks into the tables, in which packets pass.
const BREATH: Duration = Duration::from_micros(100);

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
