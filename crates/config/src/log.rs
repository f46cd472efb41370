// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[log]`: the program's own log, and the binding logs (RFC 6888 section 4).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::section;
use super::objections::Objection;
use super::{Mode, Settings};

/// The shortest queue of a collector, records: more than are listed under one hold of the tables' lock.
const LEAST_QUEUE: u32 = 4096;
/// The longest queue, records: 640 MiB.
const LARGEST_QUEUE: u32 = 8 << 20;
/// The most collectors; each has a thread.
const MOST: usize = 16;

section! {
    /// What is logged.
    pub struct Log {
        /// The least important messages that are logged.
        level: Level = Level::Info, Restart;
        /// What records of bindings call this translator; empty: the name of its device.
        instance: String = String::new(), Live;
        /// Who is told of bindings.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        bindings: Vec<Collector> = Vec::new(), Live;
    }
}

/// From quiet to talkative.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Errors that end the program.
    Error,
    /// Problems that an operator should look at.
    Warn,
    /// Choices and changes.
    Info,
    /// Each step, and the drops that RFC 7915 wants to be logged.
    Debug,
    /// Each dropped packet.
    Trace,
}

/// Who is told of bindings, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collector {
    /// In which form, and where to.
    pub to: Destination,
    /// Counters and the program's own log call it so; empty: `to`.
    #[serde(default)]
    pub name: String,
    /// Where a collector of `syslog` or `ipfix` listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// How it is reached; UDP if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// With `syslog`: of which facility; `local0` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facility: Option<Facility>,
    /// With `ipfix`: the observation domain; 1 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// With `file`: the file to which lines are appended. With `journal`: its socket, if it is not systemd's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Also tell of each session, with its destination (RFC 6888 REQ-12 says when not to).
    #[serde(default)]
    pub sessions: bool,
    /// Records that wait for it at the most; 80 bytes each.
    #[serde(default = "default_queue")]
    pub queue: u32,
}

fn default_queue() -> u32 {
    65_536
}

impl Collector {
    /// The name in counters and in the program's own log.
    pub fn name(&self) -> &str {
        match (self.name.as_str(), self.to) {
            ("", to) => to.name(),
            (name, _) => name,
        }
    }
}

/// The form of records, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// The journal of systemd, by its native protocol.
    Journal,
    /// A collector of syslog (RFC 5424).
    Syslog,
    /// A collector of IPFIX (RFC 7011, RFC 8158).
    Ipfix,
    /// A file, one JSON object a line.
    File,
}

impl Destination {
    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Destination::Journal => "journal",
            Destination::Syslog => "syslog",
            Destination::Ipfix => "ipfix",
            Destination::File => "file",
        }
    }
}

/// How a collector is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Datagrams: what gets lost on the way is lost.
    Udp,
    /// A connection.
    Tcp,
}

/// A facility of syslog (RFC 5424 section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(
    missing_docs,
    reason = "these are the names that every syslog daemon has"
)]
pub enum Facility {
    User = 1,
    Daemon = 3,
    Auth = 4,
    Authpriv = 10,
    Local0 = 16,
    Local1 = 17,
    Local2 = 18,
    Local3 = 19,
    Local4 = 20,
    Local5 = 21,
    Local6 = 22,
    Local7 = 23,
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || ".:@_-".contains(c)
}

impl Settings {
    /// The name of this translator in binding records. It needs no escape in any format of a record.
    pub fn log_instance(&self) -> String {
        let name = match self.log.instance.as_str() {
            "" => &self.translator.device,
            name => name,
        };
        // The kernel allows nearly any name for a device.
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        name.chars().map(plain).collect()
    }

    /// Checks the rules of `[log]`.
    pub(super) fn object_to_log(&self, found: &mut Vec<Objection>) {
        let log = &self.log;
        if self.translator.mode != Mode::Nat64 && !log.bindings.is_empty() {
            let message = "only a NAT64 has bindings to log: remove this section";
            found.push(Objection::new("log.bindings[0]", message));
            return;
        }
        if log.instance.len() > 48 || !log.instance.chars().all(is_plain) {
            let message = format!(
                "{:?} is not up to 48 letters, digits and characters of `.:@_-`",
                log.instance
            );
            found.push(Objection::new("log.instance", message));
        }
        if log.bindings.len() > MOST {
            let message = format!("{} collectors are more than {MOST}", log.bindings.len());
            found.push(Objection::new(&format!("log.bindings[{MOST}]"), message));
        }
        let mut names = BTreeSet::new();
        for (at, collector) in log.bindings.iter().enumerate() {
            let name = collector.name();
            let is_word = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
            if name.len() > 32 || !name.bytes().all(is_word) {
                let message =
                    format!("{name:?} is not up to 32 letters, digits, hyphens and underscores");
                found.push(Objection::new(&format!("log.bindings[{at}].name"), message));
            }
            if !names.insert(name) {
                let message =
                    format!("another collector is called \"{name}\": give this one another `name`");
                found.push(Objection::new(&format!("log.bindings[{at}]"), message));
            }
            collector.object(at, found);
        }
    }
}

impl Collector {
    /// Each kind of collector has keys of its own.
    fn object(&self, at: usize, found: &mut Vec<Objection>) {
        let to = self.to;
        let mut object = |key: &str, message: String| {
            let key = match key {
                "" => format!("log.bindings[{at}]"),
                key => format!("log.bindings[{at}].{key}"),
            };
            found.push(Objection { key, message });
        };
        let is_remote = matches!(to, Destination::Syslog | Destination::Ipfix);
        let keys = [
            ("address", self.address.is_some(), is_remote),
            ("transport", self.transport.is_some(), is_remote),
            (
                "facility",
                self.facility.is_some(),
                to == Destination::Syslog,
            ),
            ("domain", self.domain.is_some(), to == Destination::Ipfix),
            (
                "path",
                self.path.is_some(),
                matches!(to, Destination::File | Destination::Journal),
            ),
        ];
        for (key, is_given, is_known) in keys {
            if is_given && !is_known {
                object(key, format!("`to = \"{}\"` has no such key", to.name()));
            }
        }
        match self.address {
            None if is_remote => object(
                "",
                format!(
                    "`to = \"{}\"` needs the key `address`, as \"192.0.2.7:{}\"",
                    to.name(),
                    if to == Destination::Syslog { 514 } else { 4739 }
                ),
            ),
            Some(address) if address.ip().is_unspecified() || address.ip().is_multicast() => {
                object(
                    "address",
                    format!("\"{address}\" cannot be the address of a collector"),
                )
            }
            Some(address) if address.port() == 0 => {
                object("address", format!("\"{address}\" has port 0"));
            }
            _ => {}
        }
        match &self.path {
            None if to == Destination::File => object(
                "",
                "`to = \"file\"` needs the key `path`, as \"/var/log/diolkos-bindings.json\""
                    .to_owned(),
            ),
            Some(path) if !path.is_absolute() || path.file_name().is_none() => object(
                "path",
                format!("{path:?} is not the absolute path of a file"),
            ),
            _ => {}
        }
        if self.domain == Some(0) {
            object(
                "domain",
                "0 means no observation domain: write another number".to_owned(),
            );
        }
        if !(LEAST_QUEUE..=LARGEST_QUEUE).contains(&self.queue) {
            object(
                "queue",
                format!(
                    "{} is not between {LEAST_QUEUE} and {LARGEST_QUEUE} records",
                    self.queue
                ),
            );
        }
    }
}
