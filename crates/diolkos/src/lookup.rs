// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks up the owner of an address and port, or the ports of a node, from the configuration alone (RFC 7422 section 2): from
//! its mapping and its static bindings. Tools that search text are for the binding logs.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use diolkos_nat64::config::{Binding, Endpoint4, Mappings, Pools};
use ipnet::Ipv6Net;
use serde::Serialize;

use crate::cli;
use crate::error;
use diolkos_config::{self as config, AutoValues, Mode, Settings};
use diolkos_service::failure::Failure;

/// The question.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// The owner of this address and port.
    Owner(Ipv4Addr, u16),
    /// The ports of this node.
    Ports(Ipv6Addr),
}

/// A node that owns ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
struct Owner {
    /// The source of this answer; a static binding takes precedence over the mapping.
    by: By,
    /// The protocol, if the answer is limited to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    address: Ipv4Addr,
    first_port: u16,
    last_port: u16,
    source: Ipv6Net,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_port: Option<u16>,
    /// The pool by source whose mapping it is, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
}

/// The source of an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum By {
    /// A static binding of the configuration.
    Static,
    /// The deterministic mapping.
    Mapping,
}

/// The output.
#[derive(Serialize)]
struct Answer {
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// The owners; the first one with the protocol in question counts.
    owners: Vec<Owner>,
    /// The reasons why the answer may be wrong.
    notes: Vec<String>,
}

/// Looks up the answer, and returns the text to print.
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
        return Err(error::usage(format!(
            "{name} is no configuration of a NAT64: only a NAT64 has bindings"
        )));
    }
    // The settings have been checked, so this cannot fail.
    let stateful = settings.stateful(AutoValues::ANYTHING);
    let pools = Arc::new(Pools::of(&stateful.pool4));
    let mappings = Mappings::of(&stateful, &pools)
        .ok()
        .flatten()
        .ok_or_else(|| {
            error::usage(format!(
                "{name} has no [nat64.deterministic], so only a log of bindings knows whose a port was: search it as \
                 docs/logging.md says"
            ))
        })?;

    let mut owners: Vec<Owner> = statics(&settings, question);
    owners.extend(fixed(&mappings, question));
    if let Some(protocol) = options.protocol {
        let wanted = protocol.name();
        owners.retain(|owner| owner.protocol.as_deref().is_none_or(|of| of == wanted));
    }
    owners.sort();
    let notes = notes(&mappings, question);
    let answer = Answer {
        address: options.address,
        port: options.port,
        owners,
        notes,
    };
    match options.json {
        true => serde_json::to_string(&answer)
            .map(|text| text + "\n")
            .map_err(|error| error::run_time(format!("the answer is no JSON: {error}"))),
        false => Ok(text(&answer)),
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
        pool: None,
    };
    asked.map(owner).collect()
}

fn notes(mappings: &Mappings, question: Question) -> Vec<String> {
    let Question::Owner(addr, port) = question else {
        return Vec::new();
    };
    let v4 = Endpoint4 { addr, port };
    let mut notes = Vec::new();
    if mappings.is_overflow(v4) {
        notes.push(
            "the port is one of the overflow: only a log of bindings knows whose it was".to_owned(),
        );
    }
    if let Some(source) = mappings.source_elsewhere(v4) {
        let pools = mappings.pools();
        let name = pools.name(pools.of_node(source.addr()));
        notes.push(format!(
            "no node gets this port: it would be that of {source}, whose nodes have the pool for {name}"
        ));
    }
    notes
}

fn fixed(mappings: &Mappings, question: Question) -> Option<Owner> {
    let node = match question {
        Question::Owner(addr, port) => mappings.source_of(Endpoint4 { addr, port })?.addr(),
        Question::Ports(node) => node,
    };
    let range = mappings.ports_of(node)?;
    let pools = mappings.pools();
    let pool = pools.of_node(node);
    let mapping = mappings.of_pool(pool)?;
    let source = Ipv6Net::new(node, mapping.figures().source_prefix_len).ok()?;
    Some(Owner {
        by: By::Mapping,
        protocol: None,
        address: range.addr,
        first_port: range.first,
        last_port: range.last,
        source: source.trunc(),
        source_port: None,
        pool: (pools.count() > 1).then(|| pools.name(pool)),
    })
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    let asked = match answer.port {
        Some(port) => format!("{}, port {port}", answer.address),
        None => answer.address.to_string(),
    };
    if answer.owners.is_empty() {
        let what = match answer.port {
            Some(_) => "belongs to no source",
            None => "has no fixed ports",
        };
        let _ = writeln!(text, "{asked} {what}.");
    } else {
        let _ = writeln!(text, "{asked}:");
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
        let by = match (owner.by, &owner.pool) {
            (By::Static, _) => "a static binding".to_owned(),
            (By::Mapping, None) => "the mapping".to_owned(),
            (By::Mapping, Some(pool)) => format!("the mapping of the pool for {pool}"),
        };
        let _ = writeln!(text, "  {node}: {protocol}, {address} {ports}, by {by}");
    }
    for note in &answer.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

impl Question {
    /// The question for these arguments: an IPv4 address needs a port, an IPv6 address must have none.
    fn of(address: IpAddr, port: Option<u16>) -> Result<Question, Failure> {
        match (address, port) {
            (IpAddr::V4(addr), Some(port)) => Ok(Question::Owner(addr, port)),
            (IpAddr::V6(node), None) => Ok(Question::Ports(node)),
            (IpAddr::V4(addr), None) => Err(error::usage(format!(
                "many sources share {addr}: name a port, as `diolkos lookup … {addr} 40000`"
            ))),
            (IpAddr::V6(node), Some(port)) => Err(error::usage(format!(
                "the ports of {node} are looked up without a port: remove {port}"
            ))),
        }
    }
}
