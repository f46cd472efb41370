// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The query log: a line of the program's own log for each answer, with as much about the client as the configuration allows.
//!
//! What must never happen: a name breaks its line or its field, a flood of questions displaces the rest of the log or delays
//! answers, or the log says more of a client than `query_log` allows.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;

use diolkos_dns64::names::printable;
use diolkos_dns64::{Answer, Origin, Query};
use ipnet::Ipv6Net;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use diolkos_config::{Dns64, QueryLog};

use super::tally::{Fate, QueryCounters};
use super::waiter::Transport;

/// Lines have a target of their own, so that they do not depend on `log.level`.
pub const TARGET: &str = "query_log";
/// The part of an IPv6 address that `prefixes` leaves: that of a site, which has many hosts.
const SITE: u8 = 48;

/// Writes the query log.
pub struct QueryLogger {
    says: Cell<QueryLog>,
    /// Lines in a second.
    rate: Cell<u32>,
    /// The current second, and the lines left in it.
    left: Cell<(u64, u32)>,
    /// Answers without a line since the last line.
    lost: Cell<u64>,
}

impl QueryLogger {
    /// As the configuration says.
    pub fn new(dns64: &Dns64) -> QueryLogger {
        let logger = QueryLogger {
            says: Cell::default(),
            rate: Cell::default(),
            left: Cell::default(),
            lost: Cell::default(),
        };
        logger.configure(dns64);
        logger
    }

    /// From now on as another configuration says.
    pub fn configure(&self, dns64: &Dns64) {
        self.says.set(dns64.query_log);
        self.rate.set(dns64.query_log_rate);
        // No second: the next line begins one.
        self.left.set((u64::MAX, 0));
    }

    /// Writes a line about an answer, or counts it.
    pub fn note(
        &self,
        (client, by): (IpAddr, Transport),
        query: &Query,
        answer: &Answer,
        now_s: u64,
        tally: &QueryCounters,
    ) {
        if self.says.get() == QueryLog::Off {
            return;
        }
        if !self.takes(now_s) || !is_read() {
            tally.count(Fate::QueryLogDropped);
            self.lost.set(self.lost.get() + 1);
            return;
        }
        tally.count(Fate::QueryLogWritten);
        let line = line(self.says.get(), (client, by), query, answer);
        match self.lost.replace(0) {
            0 => tracing::info!(target: TARGET, "{line}"),
            lost => tracing::info!(target: TARGET, "{line} lost={lost}"),
        }
    }

    /// Takes one of the lines of this second, if one is left.
    fn takes(&self, now_s: u64) -> bool {
        let left = match self.left.get() {
            (second, left) if second == now_s => left,
            _ => self.rate.get(),
        };
        self.left.set((now_s, left.saturating_sub(1)));
        left > 0
    }
}

/// Returns true if the log takes a line at once: answers do not wait for a reader of the log. One that is gone takes none.
fn is_read() -> bool {
    let stderr = io::stderr();
    let mut one = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut one, Some(&Timespec::default())) == Ok(1) && one[0].revents() == PollFlags::OUT
}

/// A line: `query` and fields, none of which contains a blank.
fn line(
    says: QueryLog,
    (client, by): (IpAddr, Transport),
    query: &Query,
    answer: &Answer,
) -> String {
    let (rtype, code) = (query.rtype(), answer.code);
    let name = printable(query.question_bytes());
    let by = match by {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    };
    let origin = match answer.origin {
        Origin::Passed => "passed",
        Origin::Filtered => "filtered",
        Origin::Synthesised => "synthesised",
        Origin::Local => "local",
        Origin::Failed => "failed",
    };
    let from = match (says, client) {
        (QueryLog::Full, client) => format!(" client={client}"),
        (QueryLog::Prefixes, IpAddr::V6(client)) => Ipv6Net::new(client, SITE)
            .map_or_else(|_| String::new(), |net| format!(" client={}", net.trunc())),
        _ => String::new(),
    };
    format!("query name={name} type={rtype} by={by} code={code} answer={origin}{from}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_dns64::wire::OptRcode;

    /// A question about the AAAA record of a name in wire format.
    fn query(name: &[u8]) -> Query {
        let head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let message = [&head[..], name, &[0, 28, 0, 1]].concat();
        Query::parse(&message).expect("a query")
    }

    fn said(says: QueryLog, client: &str, name: &[u8]) -> String {
        let client: IpAddr = client.parse().expect("an address");
        let answer = Answer::empty(OptRcode::NXDOMAIN, Origin::Passed, 0);
        line(says, (client, Transport::Udp), &query(name), &answer)
    }

    #[test]
    fn no_more_of_the_client_than_is_allowed() {
        const V6: &str = "2001:db8:1:2:3:4:5:6";
        const REST: &str = "query name=a type=AAAA by=udp code=NXDOMAIN answer=passed";
        for (says, client, expected) in [
            (QueryLog::Names, V6, ""),
            (QueryLog::Names, "192.0.2.1", ""),
            (QueryLog::Prefixes, V6, " client=2001:db8:1::/48"),
            (QueryLog::Prefixes, "192.0.2.1", ""),
            (QueryLog::Full, V6, " client=2001:db8:1:2:3:4:5:6"),
            (QueryLog::Full, "192.0.2.1", " client=192.0.2.1"),
        ] {
            assert_eq!(
                said(says, client, b"\x01a\0"),
                format!("{REST}{expected}"),
                "{says:?}"
            );
        }
    }

    #[test]
    fn a_name_forges_neither_a_field_nor_a_line() {
        let line = said(QueryLog::Names, "::1", b"\x0da client=::2\n\0");
        assert_eq!(
            line,
            "query name=a\\032client\\061\\058\\0582\\010 type=AAAA by=udp code=NXDOMAIN answer=passed"
        );
    }

    #[test]
    fn a_second_has_so_many_lines() {
        let logger = QueryLogger::new(&Dns64 {
            query_log_rate: 3,
            ..Dns64::default()
        });
        let takes = |now_s, times| (0..times).filter(|_| logger.takes(now_s)).count();
        assert_eq!(takes(0, 9), 3);
        assert_eq!(takes(1, 2), 2);
        assert_eq!(takes(9, 9), 3);
    }
}
