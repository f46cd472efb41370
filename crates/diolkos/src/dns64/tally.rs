// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every fate of a question by its name, in one list.

use std::cell::Cell;

use diolkos_dns64::Origin;

use diolkos_figures::counters::Counter;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A datagram of a client's.
    QueryUdp,
    /// A message of a client's by TCP.
    QueryTcp,
    /// It is no query that a resolver answers.
    RefusedForm,
    /// Its sender is not among `clients`.
    RefusedClient,
    /// It does not want recursion, and others' questions are nobody's business.
    RefusedNotRecursive,
    /// Its sender asks too much; nothing is sent.
    LimitedDropped,
    /// The same; it is told to come by TCP.
    LimitedTruncated,
    /// By TCP, its sender asks too much; it waits.
    LimitedDelayed,
    /// Given up with SERVFAIL: its client has too many questions that wait for upstream.
    BusyClient,
    /// The same: a /56, /48 or /24 around its client has.
    BusyNetwork,
    /// The same: there are `max_outstanding`, and no network has more of them than its client's.
    BusyFull,
    /// The same: its host waits for this answer many times already.
    BusyEqual,
    /// The same: too many wait for this answer.
    BusyQuestion,
    /// Answered from the cache.
    CacheHit,
    /// Not in the cache.
    CacheMiss,
    /// The same question is on its way already.
    Coalesced,
    /// Resolved: passed on as it came.
    Passed,
    /// Resolved: AAAA records left out.
    Filtered,
    /// Resolved: synthetic.
    Synthesised,
    /// Resolved: ipv4only.arpa and its reverse names.
    Local,
    /// Resolved: SERVFAIL of our own.
    Failed,
    /// The answer was too long for its datagram.
    Truncated,
    /// The kernel did not take an answer.
    SendFailed,
    /// A connection was closed to make room for others: there are `max_tcp`, a quarter of them were its client's, or its client
    /// does not read its answers.
    TcpEvicted,
    /// A connection was not read from, since too many of its questions were under way.
    TcpPaused,
    /// An address could not be listened on, or not any more; it is tried again.
    ListenFailed,
    /// Sent to upstream by UDP.
    UpstreamUdp,
    /// Sent to upstream by TCP, since the answer was too long.
    UpstreamTcp,
    /// No answer of upstream's in time.
    UpstreamTimeout,
    /// Upstream could not be reached, or closed the connection.
    UpstreamUnreachable,
    /// Upstream answered with an error, and another one was asked.
    UpstreamError,
    /// A datagram from upstream that answers nothing: wrong identification, or wrong question.
    UpstreamUnexpected,
    /// An answer of upstream's to a question that is over.
    UpstreamLate,
    /// A port towards upstream was given up since too many unexpected datagrams came to it.
    UpstreamPortSuspect,
    /// A port towards upstream was given up since it was old, or nobody used it.
    UpstreamPortAged,
    /// The process of a DNS64 beside a translator ended, or could not be started; another start follows.
    Restarted,
}

/// How many fates there are.
pub const NUMBER: usize = 36;

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
    "upstream.timeout",
    "upstream.unreachable",
    "upstream.error",
    "upstream.unexpected",
    "upstream.late",
    "upstream.port_suspect",
    "upstream.port_aged",
    "restarted",
];

/// How often each of it happened.
#[derive(Debug)]
pub struct Tally([Cell<u64>; NUMBER]);

impl Default for Tally {
    fn default() -> Tally {
        Tally([const { Cell::new(0) }; NUMBER])
    }
}

impl Tally {
    /// It happened.
    pub fn count(&self, fate: Fate) {
        let cell = &self.0[fate as usize];
        cell.set(cell.get() + 1);
    }

    /// A question was resolved.
    pub fn resolved(&self, origin: Origin) {
        self.count(match origin {
            Origin::Passed => Fate::Passed,
            Origin::Filtered => Fate::Filtered,
            Origin::Synthesised => Fate::Synthesised,
            Origin::Local => Fate::Local,
            Origin::Failed => Fate::Failed,
        });
    }

    /// All of them, for `diolkos show counters`.
    pub fn counters(&self) -> Vec<Counter> {
        counters(&self.counts())
    }

    /// Of each fate, in the order of [`Fate`].
    pub fn counts(&self) -> [u64; NUMBER] {
        self.0.each_ref().map(Cell::get)
    }
}

/// Counts by their names.
pub fn counters(counts: &[u64; NUMBER]) -> Vec<Counter> {
    let counter = |(name, count): (&&str, &u64)| Counter {
        name: format!("dns64.{name}"),
        packets: *count,
        bytes: None,
    };
    NAMES.iter().zip(counts).map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_has_its_name() {
        let tally = Tally::default();
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
