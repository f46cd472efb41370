// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line for each packet: its verdict, and what it became. The names in JSON are a promise to scripts.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use diolkos_core::config::nat64::Binding;
use diolkos_core::session::{Event, SessionView};
use diolkos_core::{Reason, Verdict};
use serde::Serialize;

use super::engine::Noted;
use crate::packet_summary::{verdict_name, PacketSummary};
use diolkos_service::failure::Failure;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What became of one packet, or what a moment brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A frame without an IP packet.
    Skipped,
    /// What the translator said.
    Judged(Verdict),
    /// No packet has come: a time was over.
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
    /// The place in the capture, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    packet: Option<u64>,
    /// Seconds since 1970, to the nanosecond: a string, for a number would be rounded.
    time: String,
    verdict: &'static str,
    /// The name of the reason; `show counters` has the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<&'static str>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    came: Option<PacketSummary>,
    /// All that left, in its order.
    out: &'a [PacketSummary],
    /// Packets that were held until now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_drops: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<Change>,
}

/// A change of the tables of a NAT64.
#[derive(Serialize)]
struct Change {
    event: &'static str,
    protocol: &'static str,
    v6: String,
    v4: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

impl Change {
    fn of(event: &Event) -> Option<Change> {
        Some(match event {
            Event::BindingOpened(binding) => Change::binding("binding-opened", binding),
            Event::BindingClosed(binding) => Change::binding("binding-closed", binding),
            Event::SessionOpened(session) => Change::session("session-opened", session),
            Event::SessionChanged(session, _) => Change::session("session-changed", session),
            Event::SessionClosed(session) => Change::session("session-closed", session),
            // A block changes no packet: the bindings in it say the ports.
            Event::BlockAllocated(_) | Event::BlockReleased(_) => return None,
            // Nobody shares the pool of a capture.
            Event::CopyMade(..) | Event::CopyEnded(..) => return None,
        })
    }

    fn binding(event: &'static str, binding: &Binding) -> Change {
        Change {
            event,
            protocol: binding.protocol.name(),
            v6: binding.v6.to_string(),
            v4: binding.v4.to_string(),
            peer: None,
            state: None,
        }
    }

    fn session(event: &'static str, session: &SessionView) -> Change {
        Change {
            peer: Some(session.peer.to_string()),
            state: Some(session.state.name()),
            ..Change::binding(event, &session.binding)
        }
    }
}

/// Writes lines to standard output, until nobody reads them any more.
pub struct Lines<W> {
    to: W,
    form: Form,
    is_closed: bool,
}

impl<W: Write> Lines<W> {
    /// Writes nothing yet.
    pub fn new(to: W, form: Form) -> Lines<W> {
        Lines {
            to,
            form,
            is_closed: false,
        }
    }

    /// One line. `packet`: its number and its bytes.
    pub fn write_packet(
        &mut self,
        time: Duration,
        fate: Fate,
        packet: Option<(u64, &[u8])>,
        out: &[PacketSummary],
        noted: &Noted,
    ) -> Result<(), Failure> {
        let came = packet.filter(|_| fate != Fate::Skipped);
        let line = Line {
            packet: packet.map(|(number, _)| number),
            time: format!("{}.{:09}", time.as_secs(), time.subsec_nanos()),
            verdict: fate.name(),
            drop: fate.reason().map(Reason::name),
            came: came.map(|(_, bytes)| PacketSummary::of(bytes)),
            out,
            held_drops: noted.dropped.iter().map(|reason| reason.name()).collect(),
            state: noted.events.iter().filter_map(Change::of).collect(),
        };
        let text = match self.form {
            Form::Json => serde_json::json!(line).to_string(),
            Form::Text => line.text(),
        };
        self.write(&text)
    }

    /// Lets nothing stay behind in a buffer.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let done = self.to.flush();
        self.judge(done)
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        if self.is_closed {
            return Ok(());
        }
        let done = writeln!(self.to, "{line}");
        self.judge(done)
    }

    /// Standard output may be a pipe that nobody reads any more; the capture is translated to its end all the same.
    fn judge(&mut self, done: io::Result<()>) -> Result<(), Failure> {
        match done {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            done => done.map_err(|e| Failure::run_time(format!("cannot write: {e}"))),
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
