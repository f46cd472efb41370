// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The status of a program, as it reports it to followers.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use diolkos_figures::figures::Alarm;
use diolkos_figures::finding::{Finding, Kind, Reason};
use diolkos_service::confinement::{self, Confinement};

/// The state of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The translator is not built yet.
    #[default]
    Starting,
    /// Packets can pass.
    Ready,
    /// Some or all packets cannot pass; the obstacles say why.
    Waiting,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Ready => "ready",
            State::Waiting => "waiting",
        }
    }
}

/// The IPv6 address of a CLAT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address6 {
    /// The address.
    pub address: Ipv6Addr,
    /// Its origin, and whether the program answers neighbours for it, as a text for people.
    pub origin: String,
}

/// The part of the status that changes with the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The state; with an obstacle, packets cannot pass.
    pub state: State,
    /// Reasons why some or all packets have no path: links, routes, forwarding, the prefix.
    pub obstacles: Vec<String>,
    /// Other obstacles and problems.
    pub findings: Vec<Finding>,
    /// Resources of a NAT64 that are nearly used up.
    pub alarms: Vec<Alarm>,
    /// Translation prefixes in force.
    pub prefixes: Vec<String>,
    /// The IPv6 address of a CLAT; `None` before there is one, and with all other translators.
    pub address6: Option<Address6>,
    /// The datapath in use; `None` before it is built.
    pub datapath: Option<String>,
    /// The reason why packets lose marks and priorities on the slow path; `None` if they keep them.
    pub marks_trouble: Option<String>,
}

impl Condition {
    /// Adds obstacles of every kind to both lists, and corrects a state that contradicts them.
    fn complete(mut self) -> Condition {
        let ways = self.obstacles.iter();
        let ways = ways.map(|text| Finding::obstacle(Reason::Way, text.clone()));
        let (mut all, troubles): (Vec<Finding>, Vec<Finding>) = ways
            .chain(std::mem::take(&mut self.findings))
            .partition(|finding| finding.kind == Kind::Obstacle);
        self.obstacles = all.iter().map(|finding| finding.text.clone()).collect();
        all.extend(troubles);
        self.findings = all;
        if self.state == State::Ready && !self.obstacles.is_empty() {
            self.state = State::Waiting;
        }
        self
    }
}

/// The whole status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Process number.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// `clat`, `siit`, `nat64` or `dns64`.
    pub mode: String,
    /// Name of the TUN device, or of a DNS64.
    pub device: String,
    /// The state of the service.
    pub state: State,
    /// Reasons why some or all packets cannot pass: the texts of the obstacles among the findings.
    pub obstacles: Vec<String>,
    /// Everything that is wrong, obstacles first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Translation prefixes in force.
    pub prefixes: Vec<String>,
    /// The IPv6 address of a CLAT; `None` before there is one, and with all other translators.
    pub address6: Option<Address6>,
    /// The datapath in use; `None` before it is built.
    pub datapath: Option<String>,
    /// The reason why packets lose marks and priorities on the slow path; `None` if they keep them.
    #[serde(default)]
    pub marks_trouble: Option<String>,
    /// Resources of a NAT64 that are nearly used up.
    #[serde(default)]
    pub alarms: Vec<Alarm>,
    /// The number of times that another configuration came into force.
    pub reloads: u64,
    /// The treatment of system calls that are not part of a thread's work; `None` if the program does not report it.
    #[serde(default)]
    pub seccomp: Option<String>,
    /// The reason why `seccomp` differs from the request; `None` if it does not.
    #[serde(default)]
    pub seccomp_trouble: Option<String>,
}

impl Status {
    /// The status of this process while it starts.
    pub fn starting(mode: &str, device: &str) -> Status {
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.to_owned(),
            device: device.to_owned(),
            seccomp: Confinement::in_force().map(|confinement| confinement.name().to_owned()),
            seccomp_trouble: confinement::trouble(),
            ..Status::default()
        }
    }

    /// Returns true if all packets can pass, as far as the program knows.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready && self.obstacles.is_empty()
    }

    /// Replaces the condition. Returns false if nothing has changed.
    pub fn take(&mut self, now: Condition) -> bool {
        let now = now.complete();
        let before = Condition {
            state: self.state,
            obstacles: std::mem::take(&mut self.obstacles),
            findings: std::mem::take(&mut self.findings),
            alarms: std::mem::take(&mut self.alarms),
            prefixes: std::mem::take(&mut self.prefixes),
            address6: self.address6.take(),
            datapath: self.datapath.take(),
            marks_trouble: self.marks_trouble.take(),
        };
        let is_new = before != now;
        self.state = now.state;
        self.obstacles = now.obstacles;
        self.findings = now.findings;
        self.alarms = now.alarms;
        self.prefixes = now.prefixes;
        self.address6 = now.address6;
        self.datapath = now.datapath;
        self.marks_trouble = now.marks_trouble;
        is_new
    }

    /// The status as lines of text for people.
    pub fn table(&self) -> String {
        let list = |of: &[String]| match of.is_empty() {
            true => "none".to_owned(),
            false => of.join(", "),
        };
        let datapath = self.datapath.as_deref().unwrap_or("none");
        let mut text = format!(
            "{} is {} ({}, process {}, version {})\nprefixes  {}\ndatapath  {datapath}\nreloads   {}\n",
            self.device,
            self.state.name(),
            self.mode,
            self.pid,
            self.version,
            list(&self.prefixes),
            self.reloads
        );
        if let Some(Address6 { address, origin }) = &self.address6 {
            text += &format!("address6  {address}: {origin}\n");
        }
        if let Some(seccomp) = &self.seccomp {
            text += &format!("seccomp   {seccomp}\n");
        }
        if let Some(trouble) = &self.seccomp_trouble {
            text += &format!("trouble   {trouble}\n");
        }
        if let Some(why) = &self.marks_trouble {
            text += &format!("marks     lost on the slow path: {why}\n");
        }
        for obstacle in &self.obstacles {
            text += &format!("obstacle  {obstacle}\n");
        }
        let is_trouble = |finding: &&Finding| finding.kind == Kind::Trouble;
        for trouble in self.findings.iter().filter(is_trouble) {
            text += &format!("trouble   {}\n", trouble.text);
        }
        for Alarm {
            resource, text: of, ..
        } in &self.alarms
        {
            text += &format!("alarm     {resource}: {of}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_told() {
        let mut status = Status::starting("clat", "diolkos0");
        let waiting = Condition {
            state: State::Waiting,
            obstacles: vec!["eth0 has no carrier".to_owned()],
            ..Condition::default()
        };
        assert!(status.take(waiting.clone()));
        assert!(!status.take(waiting));
        assert!(status.table().contains("obstacle  eth0 has no carrier\n"));
        let ready = Condition {
            state: State::Ready,
            ..Condition::default()
        };
        assert!(status.take(ready));
        assert_eq!(status.obstacles, [""; 0]);
    }

    #[test]
    fn obstacles_end_readiness_and_troubles_do_not() {
        let mut status = Status::starting("nat64", "diolkos0");
        assert!(!status.is_ready(), "it starts");
        let trouble = Finding::trouble(Reason::StateFile, "the disk is full");
        let troubled = Condition {
            state: State::Ready,
            findings: vec![trouble.clone()],
            ..Condition::default()
        };
        assert!(status.take(troubled.clone()));
        assert!(status.is_ready() && status.state == State::Ready);
        assert!(status.table().contains("trouble   the disk is full\n"));
        let obstacle = Finding::obstacle(Reason::Unannounced, "nobody answers");
        let blocked = Condition {
            obstacles: vec!["eth0 is down".to_owned()],
            findings: vec![trouble, obstacle],
            ..troubled
        };
        assert!(status.take(blocked.clone()));
        assert!(!status.take(blocked));
        assert!(!status.is_ready() && status.state == State::Waiting);
        assert_eq!(status.obstacles, ["eth0 is down", "nobody answers"]);
        let reasons: Vec<Reason> = status.findings.iter().map(|its| its.reason).collect();
        assert_eq!(
            reasons,
            [Reason::Way, Reason::Unannounced, Reason::StateFile]
        );
    }
}
