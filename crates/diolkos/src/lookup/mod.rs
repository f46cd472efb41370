// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose an address and port were, and which ports a node had, without a running program (RFC 7422 section 2): by the mapping
//! of the configuration, and by logs of bindings.
//!
//! files → history ─┐
//! configuration ───┴─► owners → text, JSON

mod files;
mod history;

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diolkos_core::config::nat64::{Binding, Endpoint4, Mapping};
use ipnet::Ipv6Net;
use serde::Serialize;

use crate::cli;
use diolkos_config::{self as config, Found, Mode, Settings};
use diolkos_service::counted::{agreeing, counted};
use diolkos_service::failure::Failure;

use history::{History, Question};

/// Who had ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
struct Owner {
    /// How this is known; a binding counts before a block, and that before the mapping.
    by: By,
    /// The protocol, if only that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    address: Ipv4Addr,
    first_port: u16,
    last_port: u16,
    source: Ipv6Net,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_port: Option<u16>,
    /// Since when, as far as a log says.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

/// How it is known whose ports are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum By {
    /// A record of a binding.
    Binding,
    /// A static binding of the configuration.
    Static,
    /// A record of a block.
    Block,
    /// The deterministic mapping.
    Mapping,
}

/// What is printed.
#[derive(Serialize)]
struct Answer {
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    time: String,
    /// The first one that has the protocol in question counts.
    owners: Vec<Owner>,
    /// What makes the answer less than certain.
    notes: Vec<String>,
}

/// Looks it up. Returns what is to be printed.
pub fn look_up(options: &cli::Lookup) -> Result<String, Failure> {
    let question = Question::of(options.address, options.port)?;
    let settings = config::load(&options.config, |_| ())?;
    let node = match (&options.node, &settings.cluster, question) {
        (None, Some(cluster), Question::Owner(addr, _)) => cluster.node_of(addr),
        _ => None,
    };
    let node = node.map(|node| node.name.as_str());
    let settings = settings.as_node(options.node.as_deref().or(node))?;
    let name = options.config.display().to_string();
    if settings.translator.mode != Mode::Nat64 || settings.dns64_alone().is_some() {
        return Err(Failure::usage(format!(
            "{name} is no configuration of a NAT64: only a NAT64 has bindings"
        )));
    }
    let time = end_of_second(options.time.unwrap_or_else(SystemTime::now));
    let mut history = History::new(question, settings.log_instance(), time.clone());
    files::lines(&options.logs, |line| history.read(line))?;
    // The settings have been checked: there is no error.
    let of_config = Mapping::of(&settings.stateful(Found::ANYTHING))
        .ok()
        .flatten();
    if options.logs.is_empty() && of_config.is_none() {
        return Err(Failure::usage(format!(
            "{name} has no [nat64.deterministic], so only a log of bindings knows whose a port was: name it by --log FILE"
        )));
    }

    let mut notes = Vec::new();
    let mapping = match (history.mapping.take(), of_config) {
        (Some((mapping, since)), _) => Some((mapping, Some(since))),
        (None, Some(_)) if history.last.is_some() => {
            notes.push(format!(
                "by the log, no mapping was in force at {time}; that of {name} is not used"
            ));
            None
        }
        (None, Some(mapping)) => {
            let log = if options.logs.is_empty() {
                "without a log"
            } else {
                "the log has no record before that time"
            };
            notes.push(format!(
                "{log}: the mapping of {name} as it is now is taken for that of {time}"
            ));
            Some((mapping, None))
        }
        (None, None) => None,
    };
    note_doubts(&history, &options.logs, &mut notes);

    let mut owners: Vec<Owner> = history
        .held
        .drain()
        .map(|(key, held)| logged(key, held))
        .collect();
    owners.extend(statics(&settings, question));
    if let (Question::Owner(addr, port), Some((mapping, _)), true) =
        (question, &mapping, options.logs.is_empty())
    {
        if mapping.is_overflow(Endpoint4 { addr, port }) {
            notes.push("the port is one of the overflow: only a log knows whose it was; name it by --log FILE".to_owned());
        }
    }
    owners.extend(mapping.and_then(|(mapping, since)| fixed(&mapping, since, question)));
    if let Some(protocol) = options.protocol {
        let wanted = protocol.name();
        owners.retain(|owner| owner.protocol.as_deref().is_none_or(|of| of == wanted));
    }
    owners.sort();
    let answer = Answer {
        address: options.address,
        port: options.port,
        time,
        owners,
        notes,
    };
    match options.json {
        true => serde_json::to_string(&answer)
            .map(|text| text + "\n")
            .map_err(|error| Failure::run_time(format!("the answer is no JSON: {error}"))),
        false => Ok(text(&answer)),
    }
}

fn logged((protocol, address, first_port, last_port): history::Key, held: history::Held) -> Owner {
    Owner {
        by: if protocol.is_some() {
            By::Binding
        } else {
            By::Block
        },
        protocol,
        address,
        first_port,
        last_port,
        source: held.source,
        source_port: held.source_port,
        since: Some(held.since),
    }
}

fn statics(settings: &Settings, question: Question) -> Vec<Owner> {
    let all = settings.nat64.bindings.iter();
    let asked = all.filter(|binding| match question {
        Question::Owner(addr, port) => binding.v4 == Endpoint4 { addr, port },
        Question::Ports(node) => binding.v6.addr == node,
    });
    let owner = |binding: &Binding| Owner {
        by: By::Static,
        protocol: Some(binding.protocol.name().to_owned()),
        address: binding.v4.addr,
        first_port: binding.v4.port,
        last_port: binding.v4.port,
        source: Ipv6Net::from(binding.v6.addr),
        source_port: Some(binding.v6.port),
        since: None,
    };
    asked.map(owner).collect()
}

fn fixed(mapping: &Mapping, since: Option<String>, question: Question) -> Option<Owner> {
    let node = match question {
        Question::Owner(addr, port) => mapping.source_of(Endpoint4 { addr, port })?.addr(),
        Question::Ports(node) => node,
    };
    let range = mapping.ports_of(node)?;
    let source = Ipv6Net::new(node, mapping.figures().source_prefix_len).ok()?;
    Some(Owner {
        by: By::Mapping,
        protocol: None,
        address: range.addr,
        first_port: range.first,
        last_port: range.last,
        source: source.trunc(),
        source_port: None,
        since,
    })
}

fn note_doubts(history: &History, logs: &[std::path::PathBuf], notes: &mut Vec<String>) {
    if let Some(since) = &history.lost {
        notes.push(format!("not certain: the log lacks records since {since}"));
    }
    if history.is_listing() {
        notes.push(
            "not certain: the log had just begun again, and had not listed yet what was in force"
                .to_owned(),
        );
    }
    match &history.last {
        Some((time, event)) if event == "stopped" => {
            notes.push(format!("the log ended at {time}; what came after that it does not know"));
        }
        None if !logs.is_empty() && history.others > 0 => notes.push(format!(
            "the log has {} of other translators: set log.instance as it was when they were written",
            counted(history.others, "record")
        )),
        _ => {}
    }
    if history.unread > 0 {
        notes.push(format!(
            "{} of the log {}",
            counted(history.unread, "line"),
            agreeing(
                history.unread,
                "is no record of a binding",
                "are no records of bindings"
            )
        ));
    }
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    let asked = match answer.port {
        Some(port) => format!("{}, port {port}", answer.address),
        None => answer.address.to_string(),
    };
    if answer.owners.is_empty() {
        let what = if answer.port.is_some() {
            "was nobody's"
        } else {
            "had no ports"
        };
        let _ = writeln!(text, "{asked} {what} at {}.", answer.time);
    } else {
        let _ = writeln!(text, "{asked}, at {}:", answer.time);
    }
    for owner in &answer.owners {
        let Owner {
            address,
            first_port,
            last_port,
            source,
            ..
        } = owner;
        let protocol = owner.protocol.as_deref().unwrap_or("all protocols");
        let node = match owner.source_port {
            Some(port) => format!("{}, port {port}", source.addr()),
            None => source.to_string(),
        };
        let ports = match first_port == last_port {
            true => format!("port {first_port}"),
            false => format!("ports {first_port}-{last_port}"),
        };
        let by = match owner.by {
            By::Binding => "a binding",
            By::Static => "a static binding",
            By::Block => "a block of the log",
            By::Mapping => "the mapping",
        };
        let since = owner
            .since
            .as_ref()
            .map_or(String::new(), |since| format!(", since {since}"));
        let _ = writeln!(
            text,
            "  {node}: {protocol}, {address} {ports}, by {by}{since}"
        );
    }
    for note in &answer.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// As records have it, which then compare as text. A time in whole seconds means all of its second.
fn end_of_second(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = match since.subsec_millis() {
        0 => 999,
        given => given,
    };
    let time =
        UNIX_EPOCH + Duration::from_secs(since.as_secs()) + Duration::from_millis(millis.into());
    humantime::format_rfc3339_millis(time).to_string()
}
