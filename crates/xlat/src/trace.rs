// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would become of a packet, and why.
//!
//! A trace goes the way of the packet itself: the same stages, the same verdict. No token of the limit of ICMP errors is used.
//! On its way the packet tells its steps ([`Step`]) through [`Outbox::step`], which costs nothing where nobody listens.

use crate::icmp::Tokens;
use crate::packet::{Env, Offload, Outbox, Packet, HEADROOM};
use crate::step::Step;
use crate::translate::Translator;
use crate::verdict::{Reason, Verdict};
use std::cell::RefCell;

/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// What would become of a packet. `S`: its steps, which a stateful translator has more of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace<S = Step> {
    /// In their order.
    pub steps: Vec<S>,
    /// As [`Translator::translate`] says it.
    pub verdict: Verdict,
    /// What would leave, translated: one packet, or several fragments; and behind a first fragment those that waited for it.
    pub sent: Vec<Vec<u8>>,
    /// Packets that were held before and would be dropped now, each with the reason.
    pub dropped: Vec<Reason>,
    /// The ICMP error that its sender would get.
    pub answer: Option<Vec<u8>>,
}

impl Trace {
    /// The same, with the steps of another translator.
    pub fn into_steps<S: From<Step>>(self) -> Trace<S> {
        Trace {
            steps: self.steps.into_iter().map(S::from).collect(),
            verdict: self.verdict,
            sent: self.sent,
            dropped: self.dropped,
            answer: self.answer,
        }
    }
}

impl Translator {
    /// What would become of a packet that came now. No error is counted.
    pub fn trace(&self, packet: &[u8], env: &mut impl Env) -> Trace {
        let record = RefCell::default();
        record_packet(packet, &record, |packet| {
            self.translate_with(packet, env, &mut Recorder(&record), Tokens::Look)
        })
    }
}

/// Has a copy of the packet translated, and takes down what it became. `translate` gives what happens to recorders of
/// `record`.
pub fn record_packet<S>(
    bytes: &[u8],
    record: &RefCell<Record<S>>,
    translate: impl FnOnce(&mut Packet<'_>) -> Verdict,
) -> Trace<S> {
    let end = HEADROOM + bytes.len();
    let mut buffer = vec![0; end + BACK];
    buffer[HEADROOM..end].copy_from_slice(bytes);
    let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
    let verdict = translate(&mut packet);
    let mut record = record.take();
    if verdict == Verdict::Forward {
        record.sent.push(packet.bytes().to_vec());
    }
    Trace {
        steps: record.steps,
        verdict,
        sent: record.sent,
        dropped: record.dropped,
        answer: record.answer,
    }
}

/// What a packet has told so far.
#[derive(Debug)]
pub struct Record<S> {
    steps: Vec<S>,
    sent: Vec<Vec<u8>>,
    dropped: Vec<Reason>,
    answer: Option<Vec<u8>>,
    is_refused: bool,
}

impl<S> Default for Record<S> {
    fn default() -> Record<S> {
        Record {
            steps: Vec::new(),
            sent: Vec::new(),
            dropped: Vec::new(),
            answer: None,
            is_refused: false,
        }
    }
}

impl<S> Record<S> {
    /// Takes down a step.
    pub fn step(&mut self, step: S) {
        self.steps.push(step);
    }

    /// Takes down that a packet that was held is dropped.
    pub fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

/// Writes what a packet tells into its record.
#[derive(Debug)]
pub struct Recorder<'a, S>(pub &'a RefCell<Record<S>>);

impl<S: From<Step>> Outbox for Recorder<'_, S> {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        let mut record = self.0.borrow_mut();
        match record.is_refused {
            true => record.answer = Some(packet.to_vec()),
            false => record.sent.push(packet.to_vec()),
        }
    }

    fn refused(&mut self, _: Reason, _: &[u8]) {
        self.0.borrow_mut().is_refused = true;
    }

    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.0.borrow_mut().steps.push(step().into());
    }
}
