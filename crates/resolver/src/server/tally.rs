// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every outcome of a question by name, in one list.

use std::cell::Cell;

use diolkos_dns64::Origin;

use diolkos_figures::counters::Counter;

/// An outcome of a question, or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A datagram of a client.
    QueryUdp,
    /// A message of a client by TCP.
    QueryTcp,
    /// The message is no query that a resolver answers.
    RefusedForm,
    /// The sender is not among `clients`.
    RefusedClient,
    /// The query does not want recursion. The cache is not open to it, since it would reveal the questions of others.
    RefusedNotRecursive,
    /// The sender exceeds the rate limit; nothing is sent.
    LimitedDropped,
    /// The sender exceeds the rate limit; a truncated answer tells it to use TCP.
    LimitedTruncated,
    /// The sender exceeds the rate limit by TCP; it waits.
    LimitedDelayed,
    /// Answered with SERVFAIL: the client has too many questions that wait for upstream.
    BusyClient,
    /// Answered with SERVFAIL: a /56, /48 or /24 around the client has too many.
    BusyNetwork,
    /// Answered with SERVFAIL: `max_outstanding` is reached, and no network has more questions than the client's.
    BusyFull,
    /// Answered with SERVFAIL: the host waits for this answer many times already.
    BusyEqual,
    /// Answered with SERVFAIL: too many clients wait for this answer.
    BusyQuestion,
    /// Answered from the cache.
    CacheHit,
    /// Not in the cache.
    CacheMiss,
    /// An equal question is being resolved already.
    Coalesced,
    /// Resolved: passed on unchanged.
    Passed,
    /// Resolved: AAAA records left out.
    Filtered,
    /// Resolved: synthetic.
    Synthesised,
    /// Resolved: ipv4only.arpa and its reverse names.
    Local,
    /// Resolved: SERVFAIL of the DNS64 itself.
    Failed,
    /// The answer was too long for its datagram.
    Truncated,
    /// The kernel did not accept an answer.
    SendFailed,
    /// A connection was closed to make room: there are `max_tcp`, or its client has a quarter of them, or its client does not
    /// read its answers.
    TcpEvicted,
    /// A connection was not read for a while, since too many of its questions were under way.
    TcpPaused,
    /// An address could not be bound, or its socket failed; it is retried.
    ListenFailed,
    /// Questions sent to upstream by UDP.
    UpstreamUdp,
    /// Questions sent to upstream by TCP, since the answer was too long.
    UpstreamTcp,
    /// Questions sent to upstream by TLS.
    UpstreamTls,
    /// A connection by TLS to a resolver that has proved its name.
    UpstreamTlsConnected,
    /// A resolver had no certificate that proves its name; it was asked nothing.
    UpstreamTlsUntrusted,
    /// TLS with a resolver failed for another reason; it was asked nothing.
    UpstreamTlsFailed,
    /// Upstream did not answer in time.
    UpstreamTimeout,
    /// Upstream could not be reached, or closed the connection.
    UpstreamUnreachable,
    /// Upstream answered with an error, and another one was asked.
    UpstreamError,
    /// A datagram from upstream that answers no question: wrong identification, or wrong question.
    UpstreamUnexpected,
    /// An answer of upstream to a question that is over.
    UpstreamLate,
    /// A port towards upstream was closed, since too many unexpected datagrams came to it.
    UpstreamPortSuspect,
    /// A port towards upstream was closed, since it was old or unused.
    UpstreamPortAged,
    /// A line of the query log.
    QueryLogWritten,
    /// An answer without a line in the query log: there were too many, or nobody read them.
    QueryLogDropped,
}

/// The number of fates.
const NUMBER: usize = 41;

/// The names, in the order of [`Fate`].
const NAMES: [&str; NUMBER] = [
    "query_udp",
    "query_tcp",
    "refused.form",
    "refused.client",
    "refused.not_recursive",
    "limited.dropped",
    "limited.truncated",
    "limited.delayed",
    "busy.client",
    "busy.network",
    "busy.full",
    "busy.equal",
    "busy.question",
    "cache_hit",
    "cache_miss",
    "coalesced",
    "answer.passed",
    "answer.filtered",
    "answer.synthesised",
    "answer.local",
    "answer.failed",
    "truncated",
    "send_failed",
    "tcp_evicted",
    "tcp_paused",
    "listen_failed",
    "upstream.udp",
    "upstream.tcp",
    "upstream.tls",
    "upstream.tls_connected",
    "upstream.tls_untrusted",
    "upstream.tls_failed",
    "upstream.timeout",
    "upstream.unreachable",
    "upstream.error",
    "upstream.unexpected",
    "upstream.late",
    "upstream.port_suspect",
    "upstream.port_aged",
    "query_log.written",
    "query_log.dropped",
];

/// The count of each fate.
#[derive(Debug)]
pub struct QueryCounters([Cell<u64>; NUMBER]);

impl Default for QueryCounters {
    fn default() -> QueryCounters {
        QueryCounters([const { Cell::new(0) }; NUMBER])
    }
}

impl QueryCounters {
    /// Counts a fate.
    pub fn count(&self, fate: Fate) {
        let cell = &self.0[fate as usize];
        cell.set(cell.get() + 1);
    }

    /// Counts the origin of a resolved answer.
    pub fn resolved(&self, origin: Origin) {
        self.count(match origin {
            Origin::Passed => Fate::Passed,
            Origin::Filtered => Fate::Filtered,
            Origin::Synthesised => Fate::Synthesised,
            Origin::Local => Fate::Local,
            Origin::Failed => Fate::Failed,
        });
    }

    /// All counters, for `diolkos show counters`.
    pub fn counters(&self) -> Vec<Counter> {
        let counter = |(name, count): (&&str, &Cell<u64>)| Counter {
            name: format!("dns64.{name}"),
            packets: count.get(),
            bytes: None,
        };
        NAMES.iter().zip(&self.0).map(counter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_has_its_name() {
        let tally = QueryCounters::default();
        tally.count(Fate::UpstreamPortAged);
        tally.count(Fate::CacheHit);
        tally.resolved(Origin::Synthesised);
        let happened: Vec<String> = tally
            .counters()
            .into_iter()
            .filter(|counter| counter.packets == 1)
            .map(|counter| counter.name)
            .collect();
        assert_eq!(
            happened,
            [
                "dns64.cache_hit",
                "dns64.answer.synthesised",
                "dns64.upstream.port_aged"
            ]
        );
    }
}
