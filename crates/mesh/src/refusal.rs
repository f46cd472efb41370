// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why connections are closed before they count, their counters, and the rate limit of
//! their reports.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use diolkos_node::NodeId;
use rustls::{CertificateError, Error};

/// One kind of refusal is reported once in this time.
const QUIET: Duration = Duration::from_secs(10);

/// The reason why a connection does not count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// It comes from an address that no node has.
    Stranger,
    /// It was replaced by newer ones from the same address.
    Crowded,
    /// The handshake took too long.
    Slow,
    /// It ended during the handshake.
    Broken,
    /// The received bytes are not TLS 1.3 of a gateway.
    Protocol,
    /// The other side has no certificate.
    NoCertificate,
    /// The certificate is not signed by an authority of the cluster.
    Untrusted,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet, or this node's clock is behind.
    NotYet,
    /// The certificate may not be used for this, or cannot be read.
    Certificate,
    /// The certificate names no node of the cluster.
    Unknown,
    /// The certificate names several nodes.
    Several,
    /// The certificate names this node.
    Myself,
    /// The certificate's node is not the one at this address.
    Elsewhere,
    /// The other side refuses this node's certificate.
    ByPeer,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Refusal; 15] = [
        Refusal::Stranger,
        Refusal::Crowded,
        Refusal::Slow,
        Refusal::Broken,
        Refusal::Protocol,
        Refusal::NoCertificate,
        Refusal::Untrusted,
        Refusal::Expired,
        Refusal::NotYet,
        Refusal::Certificate,
        Refusal::Unknown,
        Refusal::Several,
        Refusal::Myself,
        Refusal::Elsewhere,
        Refusal::ByPeer,
    ];

    /// Returns the name for a label or a log.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Stranger => "stranger",
            Refusal::Crowded => "crowded",
            Refusal::Slow => "slow",
            Refusal::Broken => "broken",
            Refusal::Protocol => "protocol",
            Refusal::NoCertificate => "no_certificate",
            Refusal::Untrusted => "untrusted",
            Refusal::Expired => "expired",
            Refusal::NotYet => "not_yet",
            Refusal::Certificate => "certificate",
            Refusal::Unknown => "unknown",
            Refusal::Several => "several",
            Refusal::Myself => "myself",
            Refusal::Elsewhere => "elsewhere",
            Refusal::ByPeer => "by_peer",
        }
    }

    /// Returns the reason for an error of a handshake.
    pub(crate) fn of(error: &std::io::Error) -> Refusal {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            None => Refusal::Broken,
            Some(Error::NoCertificatesPresented) => Refusal::NoCertificate,
            Some(Error::AlertReceived(_)) => Refusal::ByPeer,
            Some(Error::InvalidCertificate(why)) => match why {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Refusal::Untrusted
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Refusal::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Refusal::NotYet
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Refusal::Elsewhere,
                _ => Refusal::Certificate,
            },
            Some(_) => Refusal::Protocol,
        }
    }
}

/// A refusal to report to the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reason.
    pub why: Refusal,
    /// The address of the other side.
    pub address: IpAddr,
    /// The node at that address, if there is one; the first of several.
    pub peer: Option<NodeId>,
    /// Number of refusals of this kind since the last report.
    pub times: u64,
}

/// Counts refusals.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<(Refusal, Option<NodeId>), Kind>>);

/// The refusals of one kind and node: there are few.
#[derive(Debug, Default)]
struct Kind {
    times: u64,
    told: u64,
    since: Option<Instant>,
    /// True if the worker has not handled the last report yet.
    waits: bool,
}

impl Refusals {
    /// Counts a refusal, and returns a report if one is due.
    pub fn count(&self, why: Refusal, address: IpAddr, peer: Option<NodeId>) -> Option<Refused> {
        let mut kinds = self.0.lock().ok()?;
        let kind = kinds.entry((why, peer)).or_default();
        kind.times += 1;
        let is_loud = kind.since.is_some_and(|since| since.elapsed() < QUIET);
        if is_loud || kind.waits {
            return None;
        }
        let times = kind.times - kind.told;
        (kind.told, kind.since) = (kind.times, Some(Instant::now()));
        kind.waits = true;
        Some(Refused {
            why,
            address,
            peer,
            times,
        })
    }

    /// Notes that the worker has handled a report.
    pub fn handled(&self, refused: &Refused) {
        let Ok(mut kinds) = self.0.lock() else { return };
        let kind = kinds.get_mut(&(refused.why, refused.peer));
        kind.into_iter().for_each(|kind| kind.waits = false);
    }

    /// Returns the number of refusals of a kind.
    pub fn times(&self, why: Refusal) -> u64 {
        let Ok(kinds) = self.0.lock() else { return 0 };
        let of_kind = kinds.iter().filter(|((kind, _), _)| *kind == why);
        of_kind.map(|(_, kind)| kind.times).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn one_of_each_kind_is_told_until_it_is_handled() {
        let refusals = Refusals::default();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let count = |why, peer| refusals.count(why, address, peer);
        let first = count(Refusal::Slow, None).expect("the first");
        assert_eq!((first.why, first.times), (Refusal::Slow, 1));
        assert!((0..1000).all(|_| count(Refusal::Slow, None).is_none()));
        assert!(count(Refusal::Slow, Some(NodeId(1))).is_some());
        assert!(count(Refusal::Expired, None).is_some());
        assert_eq!(refusals.times(Refusal::Slow), 1002);
        let age = |by| {
            let mut kinds = refusals.0.lock().expect("nobody panics");
            let kind = kinds.get_mut(&(Refusal::Slow, None)).expect("it is known");
            kind.since = Instant::now().checked_sub(by);
        };
        age(QUIET);
        assert!(count(Refusal::Slow, None).is_none());
        refusals.handled(&first);
        age(QUIET);
        assert_eq!(
            count(Refusal::Slow, None).map(|told| told.times),
            Some(1002)
        );
    }
}
