// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report on an imaginary packet, for people and for programs. The names in JSON are a promise to scripts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A step of the packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// What it is about: `arrival`, `destination`, `source`, `hairpin`, `binding`, `session`, `filtering`, `block`,
    /// `share`, `mss`.
    pub step: String,
    /// A sentence.
    pub text: String,
}

/// A packet that would leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// In words.
    pub text: String,
    /// In the form of `diolkos translate --json`; without a port or an identifier that would be random.
    pub packet: Value,
    /// For an ICMP error about the size of a packet: its MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// For an ICMP error: the packet that it quotes, in the form of `diolkos translate --json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Value>,
}

/// The complete report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The packet, as given in the request.
    pub packet: String,
    /// True if the kernel leads such a packet to the translator.
    pub arrives: bool,
    /// The steps, in order.
    pub steps: Vec<StepRow>,
    /// The translator's verdict once it has the packet: `forward`, `emitted` (in fragments), `held` or `drop`.
    pub verdict: String,
    /// The name of the reason, as in `show counters`.
    pub reason: Option<String>,
    /// The meaning of the reason.
    pub meaning: Option<String>,
    /// The translated packets that would leave.
    pub sent: Vec<Leaving>,
    /// The ICMP error that the sender would get.
    pub answer: Option<Leaving>,
    /// Where the kernel would send what leaves.
    pub route: Option<String>,
    /// What would translate the packet: `fast`, `slow` or `either`.
    pub path: String,
    /// The reason for the path.
    pub path_because: String,
}

impl Report {
    /// Adds a step.
    pub fn step(&mut self, step: &str, text: String) {
        self.steps.push(StepRow {
            step: step.to_owned(),
            text,
        });
    }

    /// Formats the report for people.
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
