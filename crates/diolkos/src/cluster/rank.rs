// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How good a node's routes are, compared with those of the others.

use std::time::Duration;

/// The better one comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// As good as those of every node that may open bindings.
    #[default]
    Preferred,
    /// For want of better ones: other nodes may have this one's slices by now. If the engine is gone for all nodes, all of
    /// them come to this rank within the time between two renewals, and share the traffic as before.
    Reserve,
    /// The node should get no packets.
    Withdrawn,
}

impl Rank {
    /// What is added to the metric of a route.
    pub fn penalty(self) -> u32 {
        self as u32
    }
}

/// For how long a node's lease has not been renewed. After a while other nodes may have taken over its slices, which the node
/// cannot learn without the engine. Nodes that lose the engine together come to
/// that moment within the time between two renewals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Absence {
    lease_ends: Option<Duration>,
    renewed: Duration,
    is_long: bool,
}

impl Absence {
    /// Time passes. `limit`: after which other nodes take over.
    pub fn look(&mut self, now: Duration, lease_ends: Option<Duration>, limit: Duration) {
        if lease_ends > self.lease_ends {
            (self.lease_ends, self.renewed) = (lease_ends, now);
        }
        self.is_long = self.lease_ends.is_some() && now >= self.renewed + limit;
    }

    /// Whether it has been as long as that.
    pub fn is_long(&self) -> bool {
        self.is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What the absence is at these moments, with leases that end then.
    fn looks(at_and_ends: &[(u64, Option<u64>)]) -> Vec<bool> {
        let mut absence = Absence::default();
        let look = |(now, ends): &(u64, Option<u64>)| {
            absence.look(at(*now), ends.map(at), at(13));
            absence.is_long()
        };
        at_and_ends.iter().map(look).collect()
    }

    #[test]
    fn it_is_long_until_the_lease_is_renewed() {
        let looked = looks(&[
            (100, Some(112)),
            (112, Some(112)),
            (113, Some(112)),
            // Connected again, or to a server that stores nothing.
            (114, None),
            (115, Some(127)),
        ]);
        assert_eq!(looked, [false, false, true, true, false]);
    }

    #[test]
    fn a_node_that_never_had_a_lease_has_lost_none() {
        assert_eq!(looks(&[(100, None), (200, None)]), [false, false]);
    }
}
