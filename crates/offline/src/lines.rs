// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a line for each packet: its verdict, and the resulting packets. Scripts rely on the names in JSON.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use diolkos_nat64::config::Binding;
use diolkos_nat64::session::{Event, SessionView};
use diolkos_xlat::{Reason, Verdict};
use serde::Serialize;

use super::engine::Noted;
use crate::error::OfflineError;
use diolkos_datapath::packet_summary::{verdict_name, PacketSummary};

/// The format of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object on each line.
    Json,
}

/// The outcome of one packet, or of a point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A frame without an IP packet.
    Skipped,
    /// The verdict of the translator.
    Judged(Verdict),
    /// No packet: an entry has expired.
    Expired,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Skipped => "skipped",
            Fate::Judged(verdict) => verdict_name(verdict),
            Fate::Expired => "expired",
        }
    }

    fn reason(self) -> Option<Reason> {
        match self {
            Fate::Judged(Verdict::Drop(reason)) => Some(reason),
            _ => None,
        }
    }
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    /// The position in the capture, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    packet: Option<u64>,
    /// Seconds since 1970, to the nanosecond, as a string, since a number would be rounded.
    time: String,
    verdict: &'static str,
    /// The name of the reason, as in `show counters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<&'static str>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    came: Option<PacketSummary>,
    /// The resulting packets, in order.
    out: &'a [PacketSummary],
    /// The reasons for dropping packets that were held until now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_drops: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<TableEvent>,
}

/// A change of the tables of a NAT64.
#[derive(Serialize)]
struct TableEvent {
    event: &'static str,
    protocol: &'static str,
    v6: String,
    v4: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

impl TableEvent {
    fn of(event: &Event) -> Option<TableEvent> {
        Some(match event {
            Event::BindingOpened(binding) => TableEvent::binding("binding-opened", binding),
            Event::BindingClosed(binding) => TableEvent::binding("binding-closed", binding),
            Event::SessionOpened(session) => TableEvent::session("session-opened", session),
            Event::SessionChanged(session, _) => TableEvent::session("session-changed", session),
            Event::SessionClosed(session) => TableEvent::session("session-closed", session),
            // A block changes no packet; the bindings in it show the ports.
            Event::BlockAllocated(_) | Event::BlockReleased(_) => return None,
            // The pool of a capture is not shared in a cluster.
            Event::CopyMade(..) | Event::CopyEnded(..) => return None,
        })
    }

    fn binding(event: &'static str, binding: &Binding) -> TableEvent {
        TableEvent {
            event,
            protocol: binding.protocol.name(),
            v6: binding.v6.to_string(),
            v4: binding.v4.to_string(),
            peer: None,
            state: None,
        }
    }

    fn session(event: &'static str, session: &SessionView) -> TableEvent {
        TableEvent {
            peer: Some(session.peer.to_string()),
            state: Some(session.state.name()),
            ..TableEvent::binding(event, &session.binding)
        }
    }
}

/// Writes lines to standard output, until its reader has closed it.
pub struct Lines<W> {
    to: W,
    form: Form,
    is_closed: bool,
}

impl<W: Write> Lines<W> {
    /// Prepares to write.
    pub fn new(to: W, form: Form) -> Lines<W> {
        Lines {
            to,
            form,
            is_closed: false,
        }
    }

    /// Writes one line. `packet`: its number and its bytes.
    pub fn write_packet(
        &mut self,
        time: Duration,
        fate: Fate,
        packet: Option<(u64, &[u8])>,
        out: &[PacketSummary],
        noted: &Noted,
    ) -> Result<(), OfflineError> {
        let came = packet.filter(|_| fate != Fate::Skipped);
        let line = Line {
            packet: packet.map(|(number, _)| number),
            time: format!("{}.{:09}", time.as_secs(), time.subsec_nanos()),
            verdict: fate.name(),
            drop: fate.reason().map(Reason::name),
            came: came.map(|(_, bytes)| PacketSummary::of(bytes)),
            out,
            held_drops: noted.dropped.iter().map(|reason| reason.name()).collect(),
            state: noted.events.iter().filter_map(TableEvent::of).collect(),
        };
        let text = match self.form {
            Form::Json => serde_json::json!(line).to_string(),
            Form::Text => line.text(),
        };
        self.write(&text)
    }

    /// Flushes the buffer.
    pub fn finish(&mut self) -> Result<(), OfflineError> {
        let done = self.to.flush();
        self.judge(done)
    }

    fn write(&mut self, line: &str) -> Result<(), OfflineError> {
        if self.is_closed {
            return Ok(());
        }
        let done = writeln!(self.to, "{line}");
        self.judge(done)
    }

    /// If the reader of a pipe has closed it, the capture is still translated to its end.
    fn judge(&mut self, done: io::Result<()>) -> Result<(), OfflineError> {
        match done {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            done => done.map_err(OfflineError::Output),
        }
    }
}

impl Line<'_> {
    fn text(&self) -> String {
        let number = self.packet.map_or("-".to_owned(), |n| n.to_string());
        let mut text = format!("{number} {} {}", self.time, self.verdict);
        if let Some(drop) = self.drop {
            text += &format!(" {drop}");
        }
        if let Some(came) = &self.came {
            text += &format!(": {came}");
        }
        for out in self.out {
            text += &format!("\n    sent: {out}");
        }
        for drop in &self.held_drops {
            text += &format!("\n    dropped, was held: {drop}");
        }
        for change in &self.state {
            text += &format!(
                "\n    {}: {} {} {}",
                change.event, change.protocol, change.v6, change.v4
            );
            if let (Some(peer), Some(state)) = (&change.peer, change.state) {
                text += &format!(" peer {peer} {state}");
            }
        }
        text
    }
}
