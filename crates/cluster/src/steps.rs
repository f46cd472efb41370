// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worker's steps, without its thread, sockets and clock: each event is given to the node under the lock of the
//! tables, and the node's orders are then carried out in their order.

use std::time::Duration;

use diolkos_node::gateway::Order;
use diolkos_node::{Event, Report};

/// Interval between two time events for the node.
const TICK: Duration = Duration::from_millis(20);
/// Number of bytes that the node receives and sends before the worker pauses for packets: one turn of the node, or a
/// few.
const PIECE: usize = 64 * 1024;
/// Duration of a pause. The lock of the tables is not fair: waiting threads get it only if the worker sleeps for a
/// while.
pub const BREATH: Duration = Duration::from_micros(100);

/// The node with its tables, under their lock.
pub trait Tables {
    /// Handles an event among the gateways. The node's orders are appended to `orders`.
    fn hear(&mut self, event: Event<'_>, orders: &mut Vec<Order>);
    /// Returns true if there are too few free ports.
    fn lacks_ports(&self) -> bool;
}

/// The reason why the worker ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The other gateways know that this one stops.
    Left,
    /// Another process has this gateway's name.
    Superseded,
}

/// The worker's state.
#[derive(Debug, Default)]
pub struct Steps {
    /// The time of the next time event, by the caller's clock.
    tick: Duration,
    end: Option<End>,
    /// Number of bytes that the node has received and sent since the last pause.
    bytes: usize,
}

impl Steps {
    /// Returns when to take the next step if nothing happens before.
    pub fn due(&self) -> Duration {
        self.tick
    }

    /// Returns the reason to end, once all orders up to now are carried out.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns true, once for each pause, if the tables were locked for long: packets have to get the lock before the
    /// next step.
    pub fn is_pause_due(&mut self) -> bool {
        let is_due = self.bytes >= PIECE;
        if is_due {
            self.bytes = 0;
        }
        is_due
    }

    /// Handles an event, or the mere passing of time. The resulting orders are appended to `orders`, and must be
    /// carried out in that order.
    pub fn step(
        &mut self,
        now: Duration,
        event: Option<Event<'_>>,
        tables: &mut impl Tables,
        orders: &mut Vec<Order>,
    ) {
        let first = orders.len();
        if let Some(event) = event {
            if let Event::Message { bytes, .. } = &event {
                self.bytes += bytes.len();
            }
            tables.hear(event, orders);
        }
        if now >= self.tick {
            // `now`, not the last time, plus TICK: after a standstill, one tick is enough.
            self.tick = now + TICK;
            if tables.lacks_ports() {
                tables.hear(Event::Short, orders);
            }
            tables.hear(Event::Tick, orders);
        }
        for order in &orders[first..] {
            match order {
                Order::Report(Report::Superseded) => self.end = Some(End::Superseded),
                Order::Left => self.end = self.end.or(Some(End::Left)),
                Order::Send { bytes, .. } => self.bytes += bytes.len(),
                Order::Again => (self.tick, self.bytes) = (now + BREATH, PIECE),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_node::NodeId;

    /// Tables whose node has more to do this many times.
    struct Busy(u32);

    impl Tables for Busy {
        fn hear(&mut self, _: Event<'_>, orders: &mut Vec<Order>) {
            if let Some(left) = self.0.checked_sub(1) {
                self.0 = left;
                orders.push(Order::Again);
            }
        }

        fn lacks_ports(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_worker_pauses_between_two_turns_of_a_node_that_has_more_to_do() {
        let (mut steps, mut orders, mut busy) = (Steps::default(), Vec::new(), Busy(3));
        for turn in 1..=3 {
            let now = steps.due();
            steps.step(now, None, &mut busy, &mut orders);
            assert_eq!(orders.len(), turn);
            assert!(steps.is_pause_due());
            assert_eq!(steps.due(), now + BREATH);
            // An event of another kind does not bring the next turn.
            steps.step(now, None, &mut busy, &mut orders);
            assert!(orders.len() == turn && !steps.is_pause_due());
        }
        let now = steps.due();
        steps.step(now, None, &mut busy, &mut orders);
        assert!(!steps.is_pause_due());
        assert_eq!(steps.due(), now + TICK);
    }

    #[test]
    fn the_worker_pauses_behind_each_piece_of_what_others_say() {
        let (mut steps, mut pauses) = (Steps::default(), 0);
        let bytes = [0; 16 * 1024];
        for _ in 0..40 {
            let message = Event::Message {
                peer: NodeId(1),
                connection: 1,
                bytes: &bytes,
            };
            steps.step(Duration::ZERO, Some(message), &mut Busy(0), &mut Vec::new());
            pauses += u32::from(steps.is_pause_due());
        }
        assert_eq!(pauses, 10);
    }
}
