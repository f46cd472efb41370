// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects prefixes of the uplink that belong to a network that the host has left.
//!
//! An uplink without carrier keeps its addresses, for minutes or hours. If it comes up in another network, that network
//! gives it further ones (RFC 4862 section 5.5.3), and nothing there answers to those of the old prefixes (RFC 6059
//! section 2).

use std::time::Duration;

use ipnet::Ipv6Net;
use tokio::time::Instant;

use super::Clat;
use diolkos_service::failure::Failure;

/// Time in which routers have to confirm a prefix, as for translation prefixes.
const PATIENCE: Duration = Duration::from_secs(15);

/// Created when the uplink has got a carrier again.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// The time by which a router must have confirmed prefixes that belong here.
    until: Option<Instant>,
    /// True if that check is still due.
    is_awaited: bool,
    /// The prefixes from autoconfiguration at that time, each with the time of its last confirmation.
    before: Vec<(Ipv6Net, u32)>,
}

impl Arrival {
    /// Returns the time of the next action.
    pub(super) fn waits(&self) -> Option<Instant> {
        self.until.filter(|_| self.is_awaited)
    }

    /// Notes that the check is done.
    pub(super) fn rest(&mut self) {
        self.is_awaited = false;
    }
}

/// Returns the current prefixes that have not been confirmed, if another /64 has been confirmed.
fn left(before: &[(Ipv6Net, u32)], now: Vec<(Ipv6Net, u32)>) -> Vec<Ipv6Net> {
    let (stale, fresh): (Vec<_>, Vec<_>) = now.into_iter().partition(|one| before.contains(one));
    match fresh.iter().any(|(prefix, _)| prefix.prefix_len() == 64) {
        true => stale.into_iter().map(|(prefix, _)| prefix).collect(),
        false => Vec::new(),
    }
}

impl Clat {
    /// Notes the prefixes of the uplink on its arrival in a network that may be another one.
    pub(super) async fn arrive(&mut self) -> Result<(), Failure> {
        let before = self.site.net.confirmations(self.site.uplink.index).await?;
        self.arrival = Arrival {
            until: Some(Instant::now() + PATIENCE),
            is_awaited: true,
            before,
        };
        Ok(())
    }

    /// Determines which of them the routers here do not know.
    pub(super) async fn look_at_left(&mut self) -> Result<(), Failure> {
        self.site.left.clear();
        if self.arrival.until.is_some_and(|at| at <= Instant::now()) {
            let now = self.site.net.confirmations(self.site.uplink.index).await?;
            self.site.left = left(&self.arrival.before, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(prefix: &str, time: u32) -> (Ipv6Net, u32) {
        (prefix.parse().expect("a prefix"), time)
    }

    #[test]
    fn a_prefix_is_left_when_only_another_is_confirmed() {
        let before = [at("2001:db8:1::/64", 100)];
        let old = before[0];
        let new = at("2001:db8:2::/64", 500);
        assert_eq!(left(&before, vec![old, new]), [old.0]);
        // Confirmed too, or nothing else is.
        assert!(left(&before, vec![at("2001:db8:1::/64", 400), new]).is_empty());
        assert!(left(&before, vec![old]).is_empty());
        assert!(left(&before, vec![old, at("2001:db8:2::5/128", 500)]).is_empty());
    }
}
