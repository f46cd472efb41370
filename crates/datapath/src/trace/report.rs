// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of a packet that has not come: for people, and for programs. The names in JSON are a promise to scripts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A step of the packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// What it is about: `arrival`, `destination`, `source`, `hairpin`, `binding`, `session`, `filtering`, `block`,
    /// `share`.
    pub step: String,
    /// A sentence.
    pub text: String,
}

/// A packet that would leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// In words.
    pub text: String,
    /// As `diolkos translate --json` has packets; without a port or an identifier that would be random.
    pub packet: Value,
    /// Of an ICMP error about the size of a packet, the MTU in bytes that it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Of an ICMP error, the packet that it quotes, as `diolkos translate --json` has packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Value>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The packet, as it was asked about.
    pub packet: String,
    /// The kernel leads such a packet to the translator.
    pub arrives: bool,
    /// In their order.
    pub steps: Vec<StepRow>,
    /// `forward`, `emitted` (in fragments), `held` or `drop`: what the translator says once it has the packet.
    pub verdict: String,
    /// The name of the reason; `show counters` has the same.
    pub reason: Option<String>,
    /// What that means.
    pub meaning: Option<String>,
    /// What would leave, translated.
    pub sent: Vec<Leaving>,
    /// The ICMP error that the sender would get.
    pub answer: Option<Leaving>,
    /// Where the kernel would send what leaves.
    pub route: Option<String>,
    /// `fast`, `slow` or `either`: what would translate the packet.
    pub path: String,
    /// Why.
    pub path_because: String,
}

impl Report {
    /// One more step.
    pub fn step(&mut self, step: &str, text: String) {
        self.steps.push(StepRow {
            step: step.to_owned(),
            text,
        });
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("packet       {}", self.packet)];
        let steps = self.steps.iter();
        lines.extend(steps.map(|row| format!("{:12} {}", row.step, row.text)));
        let verdict = match (&self.reason, &self.meaning) {
            (Some(reason), Some(meaning)) => format!("{} ({reason}): {meaning}", self.verdict),
            _ => self.verdict.clone(),
        };
        lines.push(format!("verdict      {verdict}"));
        lines.extend(
            self.sent
                .iter()
                .map(|sent| format!("sent         {}", sent.text)),
        );
        let answer = self.answer.as_ref();
        lines.extend(answer.map(|answer| format!("answer       {}", answer.text)));
        lines.extend(
            self.route
                .as_ref()
                .map(|route| format!("route        {route}")),
        );
        lines.push(format!("path         {}: {}", self.path, self.path_because));
        lines.join("\n") + "\n"
    }
}
