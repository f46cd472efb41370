// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings, sessions and prefixes for operators: rows, and tables of rows.

use diolkos_nat64::config::LevelKind;
use diolkos_nat64::session::{BindingView, Holding, QuotaUse, SessionView};
use serde::{Deserialize, Serialize};

/// An answer: entries, and their number in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entries<T> {
    /// As many entries as fit into an answer.
    pub entries: Vec<T>,
    /// The number of all entries that match the request.
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
    /// The remaining lifetime without another packet, seconds.
    expires_in_s: u64,
}

/// The sort order of prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// How many sessions there are
    #[default]
    Sessions,
    /// How many bindings there are
    Bindings,
    /// Percent of what it may have of anything
    Share,
}

impl Order {
    /// The number by which a prefix is sorted.
    pub fn of(self, holding: &Holding) -> u64 {
        match self {
            Order::Sessions => holding.sessions.has,
            Order::Bindings => holding.bindings.has,
            Order::Share => holding.percent(),
        }
    }
}

/// A prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    prefix: String,
    /// `site`, `source` or `host`.
    kind: String,
    /// Usage of the resource of which it has used the largest part of its share.
    percent: u64,
    sessions: u64,
    sessions_may: u64,
    /// Sessions opened from the IPv4 side.
    sessions_from_outside: u32,
    bindings: u64,
    bindings_may: u64,
    tcp_ports: u64,
    tcp_ports_may: u64,
    udp_ports: u64,
    udp_ports_may: u64,
    icmp_ids: u64,
    icmp_ids_may: u64,
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
    /// The contents of the columns.
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

impl From<&Holding> for TopRow {
    fn from(holding: &Holding) -> TopRow {
        let [tcp, udp, icmp] = holding.ports;
        let kind = match holding.kind {
            LevelKind::Site => "site",
            LevelKind::Source => "source",
            LevelKind::Host => "host",
        };
        TopRow {
            prefix: format!("{}/{}", holding.prefix, holding.prefix_len),
            kind: kind.to_owned(),
            percent: holding.percent(),
            sessions: holding.sessions.has,
            sessions_may: holding.sessions.may,
            sessions_from_outside: holding.outside,
            bindings: holding.bindings.has,
            bindings_may: holding.bindings.may,
            tcp_ports: tcp.has,
            tcp_ports_may: tcp.may,
            udp_ports: udp.has,
            udp_ports_may: udp.may,
            icmp_ids: icmp.has,
            icmp_ids_may: icmp.may,
        }
    }
}

impl Row for TopRow {
    const HEADS: &'static [&'static str] = &[
        "prefix",
        "kind",
        "most",
        "sessions",
        "from IPv4",
        "bindings",
        "TCP ports",
        "UDP ports",
        "ICMP",
    ];

    fn cells(&self) -> Vec<String> {
        let of = |has: u64, may: u64| match has {
            0 => "-".to_owned(),
            _ => format!("{has} ({} %)", QuotaUse { has, may }.percent()),
        };
        vec![
            self.prefix.clone(),
            self.kind.clone(),
            format!("{} %", self.percent),
            of(self.sessions, self.sessions_may),
            self.sessions_from_outside.to_string(),
            of(self.bindings, self.bindings_may),
            of(self.tcp_ports, self.tcp_ports_may),
            of(self.udp_ports, self.udp_ports_may),
            of(self.icmp_ids, self.icmp_ids_may),
        ]
    }
}
