// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a log of bindings tells of one address and port, or of one node, until a certain time. Only that is kept, so memory
//! does not grow with the log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_core::config::nat64::{Figures, Mapping};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::Deserialize;

use diolkos_service::failure::Failure;

/// Entries that are kept at the most.
const MOST: usize = 1 << 16;
/// Prefixes of sources in a mapping at the most.
const MOST_PREFIXES: usize = 1 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// Whose this address and port are.
    Owner(Ipv4Addr, u16),
    /// What this node has.
    Ports(Ipv6Addr),
}

/// Ports that somebody had, by a record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// A block is of a source, a binding of one node.
    pub source: Ipv6Net,
    /// The node's own port, of a binding.
    pub source_port: Option<u16>,
    /// Since when, as far as the log says; RFC 3339.
    pub since: String,
    /// The log has begun again since, and has not said yet whether it is still so.
    is_pending: bool,
}

/// Protocol, of a binding; address, first and last port.
pub type Key = (Option<String>, Ipv4Addr, u16, u16);

/// What is known at the time.
pub struct History {
    question: Question,
    instance: String,
    /// RFC 3339 with milliseconds, in which all records have it.
    until: String,
    pub held: HashMap<Key, Held>,
    /// And since when.
    pub mapping: Option<(Mapping, String)>,
    coming: Option<Coming>,
    is_listing: bool,
    is_mapping_listed: bool,
    /// Since when records are missing that may matter.
    pub lost: Option<String>,
    /// The last record before the time, if there is any.
    pub last: Option<(String, String)>,
    /// Lines that are no records.
    pub unread: u64,
    /// Records of other translators.
    pub others: u64,
}

/// A mapping of which not every prefix has come.
struct Coming {
    figures: Figures,
    sources: Vec<Ipv6Net>,
    addresses: Vec<Ipv4Net>,
    counts: [usize; 2],
    since: String,
}

/// A line of the log.
#[derive(Deserialize)]
struct Line {
    time: String,
    instance: String,
    event: String,
    protocol: Option<String>,
    source: Option<Ipv6Addr>,
    source_port: Option<u16>,
    source_prefix_len: Option<u8>,
    address: Option<Ipv4Addr>,
    port: Option<u16>,
    first_port: Option<u16>,
    last_port: Option<u16>,
    since: Option<String>,
    prefix_len: Option<u8>,
    ports_per_source: Option<u16>,
    sources_per_address: Option<u16>,
    overflow_last_port: Option<u16>,
    source_prefixes: Option<usize>,
    address_prefixes: Option<usize>,
}

impl History {
    /// Before the first line. `until`: a time of RFC 3339 with milliseconds, UTC.
    pub fn new(question: Question, instance: String, until: String) -> History {
        History {
            question,
            instance,
            until,
            held: HashMap::new(),
            mapping: None,
            coming: None,
            is_listing: false,
            is_mapping_listed: false,
            lost: None,
            last: None,
            unread: 0,
            others: 0,
        }
    }

    /// The log has begun again shortly before the time, and has not said yet what was in force.
    pub fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// The next line of the log.
    pub fn read(&mut self, line: &[u8]) -> Result<(), Failure> {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            self.unread += 1;
            return Ok(());
        };
        if line.time > self.until {
            return Ok(());
        }
        if line.instance != self.instance {
            self.others += 1;
            return Ok(());
        }
        self.last = Some((line.time.clone(), line.event.clone()));
        match line.event.as_str() {
            "started" => {
                self.is_listing = true;
                self.held
                    .values_mut()
                    .for_each(|held| held.is_pending = true);
                self.coming = None;
                self.is_mapping_listed = false;
            }
            "listed" => {
                let has_ended = std::mem::take(&mut self.is_listing);
                if has_ended {
                    self.held.retain(|_, held| !held.is_pending);
                    self.mapping.take_if(|_| !self.is_mapping_listed);
                }
                self.lost = None;
            }
            "lost" => {
                self.lost.get_or_insert(line.since.unwrap_or(line.time));
            }
            "mapping" => self.coming = coming(&line),
            "mapping-sources" => self.add_sources(&line),
            "mapping-addresses" => self.add_addresses(&line),
            "binding-created" | "binding-in-force" | "block-allocated" | "block-in-force" => {
                self.hold(line)?
            }
            "binding-deleted" | "block-released" => {
                if let Some(key) = key(&line) {
                    self.held.remove(&key);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn hold(&mut self, line: Line) -> Result<(), Failure> {
        let (Some(key), Some(source)) = (key(&line), line.source) else {
            self.unread += 1;
            return Ok(());
        };
        let len = line.source_prefix_len.unwrap_or(128);
        let Ok(source) = Ipv6Net::new(source, len) else {
            self.unread += 1;
            return Ok(());
        };
        let is_asked = match self.question {
            Question::Owner(addr, port) => key.1 == addr && (key.2..=key.3).contains(&port),
            Question::Ports(node) => source.contains(&node),
        };
        if !is_asked {
            return Ok(());
        }
        let is_same = |held: &&Held| held.source == source && held.source_port == line.source_port;
        let known = self
            .held
            .get(&key)
            .filter(is_same)
            .filter(|_| line.event.ends_with("in-force"));
        let since = known.map_or(line.time, |known| known.since.clone());
        let held = Held {
            source,
            source_port: line.source_port,
            since,
            is_pending: false,
        };
        self.held.insert(key, held);
        match self.held.len() > MOST {
            true => Err(Failure::run_time(format!(
                "the log has more than {MOST} entries for this question"
            ))),
            false => Ok(()),
        }
    }

    fn add_sources(&mut self, line: &Line) {
        let net = line.source.zip(line.prefix_len);
        let net = net.and_then(|(addr, len)| Ipv6Net::new(addr, len).ok());
        if let (Some(coming), Some(net)) = (&mut self.coming, net) {
            if coming.sources.len() < coming.counts[0].min(MOST_PREFIXES) {
                coming.sources.push(net);
            }
        }
    }

    fn add_addresses(&mut self, line: &Line) {
        let net = line.address.zip(line.prefix_len);
        let net = net.and_then(|(addr, len)| Ipv4Net::new(addr, len).ok());
        let (Some(coming), Some(net)) = (&mut self.coming, net) else {
            return;
        };
        coming.addresses.push(net);
        if [coming.sources.len(), coming.addresses.len()] != coming.counts {
            return;
        }
        let Some(whole) = self.coming.take() else {
            return;
        };
        match Mapping::from_parts(whole.sources, whole.addresses, whole.figures) {
            Ok(mapping) => {
                self.is_mapping_listed = true;
                let known = self.mapping.take().filter(|(known, _)| *known == mapping);
                self.mapping = Some((mapping, known.map_or(whole.since, |(_, since)| since)));
            }
            Err(_) => self.unread += 1,
        }
    }
}

fn key(line: &Line) -> Option<Key> {
    let (first, last) = (
        line.first_port.or(line.port)?,
        line.last_port.or(line.port)?,
    );
    Some((line.protocol.clone(), line.address?, first, last))
}

fn coming(line: &Line) -> Option<Coming> {
    let figures = Figures {
        source_prefix_len: line.source_prefix_len?,
        first_port: line.first_port?,
        ports_per_source: line.ports_per_source?,
        sources_per_address: line.sources_per_address?,
        overflow_last: line.overflow_last_port?,
    };
    Some(Coming {
        figures,
        sources: Vec::new(),
        addresses: Vec::new(),
        counts: [line.source_prefixes?, line.address_prefixes?],
        since: line.time.clone(),
    })
}

impl Question {
    /// The question about an address, with a port if it is one of IPv4.
    pub fn of(address: IpAddr, port: Option<u16>) -> Result<Question, Failure> {
        match (address, port) {
            (IpAddr::V4(addr), Some(port)) => Ok(Question::Owner(addr, port)),
            (IpAddr::V6(node), None) => Ok(Question::Ports(node)),
            (IpAddr::V4(addr), None) => Err(Failure::usage(format!(
                "many sources share {addr}: name a port, as `diolkos lookup … {addr} 40000`"
            ))),
            (IpAddr::V6(node), Some(port)) => Err(Failure::usage(format!(
                "the ports of {node} are looked up without a port: remove {port}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[String]) -> History {
        let question = Question::Ports("2001:db8::1".parse().expect("an address"));
        let mut history = History::new(question, "x".into(), "2026-11-23T00:00:00.000Z".into());
        for line in lines {
            history.read(line.as_bytes()).expect("there are few");
        }
        assert_eq!(history.unread, 0);
        history
    }

    fn line(day: u8, event: &str, fields: &str) -> String {
        format!(
            r#"{{"time":"2026-11-{day:02}T00:00:00.000Z","instance":"x","event":"{event}"{fields}}}"#
        )
    }

    fn mapping(day: u8) -> [String; 3] {
        let figures = r#","source_prefix_len":64,"first_port":1024,"ports_per_source":512,"sources_per_address":2,
            "overflow_last_port":65535,"max_ports_per_source":768,"algorithm":"sequential","source_prefixes":1,
            "address_prefixes":1"#;
        let net = |key, addr, len| format!(r#","number":0,"{key}":"{addr}","prefix_len":{len}"#);
        [
            line(day, "mapping", &figures.replace('\n', " ")),
            line(day, "mapping-sources", &net("source", "2001:db8::", 63)),
            line(day, "mapping-addresses", &net("address", "192.0.2.1", 32)),
        ]
    }

    /// The records of a day say nothing new, but where older files are gone, they say everything.
    #[test]
    fn a_mapping_that_is_told_each_day_holds_since_the_first() {
        let mut lines = vec![line(1, "started", "")];
        lines.extend(mapping(1));
        lines.push(line(1, "listed", r#","bindings":0"#));
        lines.extend(mapping(2));
        lines.extend(mapping(3));
        for (gone, since) in [(0, 1), (5, 2), (6, 3)] {
            let history = read(&lines[gone..]);
            let (mapping, at) = history.mapping.expect("there is one");
            assert_eq!(at, format!("2026-11-{since:02}T00:00:00.000Z"));
            assert_eq!(mapping.source_count(), 2);
            assert!(!history.is_listing);
        }
    }
}
