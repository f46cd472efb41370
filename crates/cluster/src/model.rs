// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cluster needs of its engine and of each node's memory, as formulas.
//!
//! * Each node writes one renewal every [`Timing::renew_every`], and every node reads all of them: deliveries grow with the
//!   square of the nodes.
//! * Each node tells its new bindings once, and all of them again every [`CYCLE_S`]; every node reads all of that. So what the engine
//!   sends grows with the square of the nodes, too.
//! * Each node keeps the bindings of all others.
//!
//! For 10, 100 and 1000 gateways with 100 000 bindings each, of which 2000 a second are new, see the table in docs/cluster.md, which a
//! test compares with this.

use crate::message::{MAX_CHANGE, MAX_HEAD};
use crate::timing::Timing;

/// Seconds in which all bindings are repeated.
pub const CYCLE_S: f64 = 60.0;
/// Seconds for which the stream keeps a message.
pub const KEPT_S: f64 = 150.0;
/// Messages of new bindings of one slice, at the most, in a second: one every 20 ms.
const MESSAGES_PER_SLICE: f64 = 50.0;
/// Bytes that the engine adds to a message: subject, sequence, acknowledgement's subject.
const ENVELOPE: f64 = 66.0;
/// Bytes of a renewal with its envelope and headers.
const RENEWAL: f64 = 200.0;
/// Bytes of a binding in a standby store, at the most.
const STANDBY: f64 = 99.0;

/// A cluster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Gateways.
    pub nodes: f64,
    /// Slices of each.
    pub slices: f64,
    /// Bindings of each.
    pub bindings: f64,
    /// Of them, new ones a second.
    pub new: f64,
}

/// What it needs. Bytes a second are those of one copy: with three replicas, two servers receive each message from the third.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Needs {
    /// Writes of entries a second.
    pub writes: f64,
    /// Entries that the engine delivers to all nodes a second.
    pub deliveries: f64,
    /// Messages of the stream a second.
    pub messages: f64,
    /// Bytes a second that the engine receives.
    pub received: f64,
    /// Bytes a second that it sends.
    pub sent: f64,
    /// Bytes that the stream keeps.
    pub kept: f64,
    /// Bytes of each node's standby store.
    pub standby: f64,
}

impl Load {
    /// At the worst: every source is in another /64, and no message is fuller than it has to be.
    pub fn needs(&self, timing: &Timing) -> Needs {
        let renewals = self.nodes / timing.renew_every.as_secs_f64();
        let repeated = self.bindings / CYCLE_S;
        // A slice without new bindings has no messages of them. A portion is repeated once a second, a message for each slice.
        let of_changes = (self.slices * MESSAGES_PER_SLICE).min(self.new);
        let messages = of_changes + self.slices.min(repeated);
        let bytes =
            (self.new + repeated) * MAX_CHANGE as f64 + messages * (MAX_HEAD as f64 + ENVELOPE);
        let stream = self.nodes * bytes;
        Needs {
            writes: renewals,
            deliveries: renewals * self.nodes,
            messages: self.nodes * messages,
            received: stream + renewals * RENEWAL,
            sent: (stream + renewals * RENEWAL) * self.nodes,
            kept: stream * KEPT_S,
            standby: self.nodes * self.bindings * STANDBY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(nodes: f64) -> Load {
        Load {
            nodes,
            slices: 16.0,
            bindings: 100_000.0,
            new: 2000.0,
        }
    }

    fn timing() -> Timing {
        Timing::with_lease(std::time::Duration::from_secs(12))
    }

    /// One node: 2000 new and 1667 repeated bindings of 21 bytes are 77 000 bytes; 816 messages of 104 are 84 864.
    #[test]
    fn one_node_by_hand() {
        let needs = load(1.0).needs(&timing());
        assert_eq!(
            (needs.writes, needs.deliveries, needs.messages),
            (1.0, 1.0, 816.0)
        );
        assert!((needs.received - (77_000.0 + 84_864.0 + 200.0)).abs() < 1.0);
        assert_eq!(needs.received, needs.sent);
        assert_eq!(needs.standby, 9_900_000.0);
        assert!((needs.kept - 161_864.0 * 150.0).abs() < 150.0);
    }

    #[test]
    fn the_engine_sends_with_the_square_of_the_nodes() {
        let (ten, hundred) = (load(10.0).needs(&timing()), load(100.0).needs(&timing()));
        assert!((hundred.sent / ten.sent - 100.0).abs() < 1e-9);
        assert!((hundred.deliveries / ten.deliveries - 100.0).abs() < 1e-9);
        assert!((hundred.received / ten.received - 10.0).abs() < 1e-9);
    }

    /// A slice that opens one binding a second has one message a second, not fifty.
    #[test]
    fn quiet_slices_have_few_messages() {
        let quiet = Load {
            new: 3.0,
            bindings: 0.0,
            ..load(1.0)
        };
        assert_eq!(quiet.needs(&timing()).messages, 3.0);
    }

    #[test]
    fn the_page_has_these_figures() {
        let page = include_str!("../../../docs/cluster.md");
        for nodes in [10.0, 100.0, 1000.0] {
            let needs = load(nodes).needs(&timing());
            let mega = |bytes: f64| match bytes / 1e6 {
                mega if mega < 10.0 => format!("{mega:.1} MB"),
                mega if mega < 10_000.0 => format!("{mega:.0} MB"),
                mega => format!("{:.0} GB", mega / 1000.0),
            };
            let row = format!(
                "| {nodes} | {} | {} | {} | {}/s | {}/s | {} | {} |",
                needs.writes,
                needs.deliveries,
                needs.messages,
                mega(needs.received),
                mega(needs.sent),
                mega(needs.kept),
                mega(needs.standby)
            );
            assert!(page.contains(&row), "{row}");
        }
    }
}
