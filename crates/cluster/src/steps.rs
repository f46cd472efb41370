// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the worker does, without its thread, sockets and clock: what comes goes to the node under the lock of the tables, and what the
//! node orders comes out behind that, in its order.

use std::time::Duration;

use diolkos_node::gateway::Order;
use diolkos_node::{Event, Report};

/// Between two times that the node hears of time.
const TICK: Duration = Duration::from_millis(20);
/// Bytes that the node hears and says before the worker pauses for packets: one turn of the node or a few.
const PIECE: usize = 64 * 1024;
/// How long it pauses. The lock of the tables is not a fair one: who waits for it gets it only if the worker is off for a while.
pub const BREATH: Duration = Duration::from_micros(100);

/// The node with its tables, under their lock.
pub trait Tables {
    /// Something happens among the gateways. What follows comes behind `orders`.
    fn hear(&mut self, event: Event<'_>, orders: &mut Vec<Order>);
    /// Free ports are short.
    fn lacks_ports(&self) -> bool;
}

/// Why the worker ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The others know that this node stops.
    Left,
    /// Another process has this node's name.
    Superseded,
}

/// The worker's state.
#[derive(Debug, Default)]
pub struct Steps {
    /// When the node has to hear of time, by the caller's clock.
    tick: Duration,
    end: Option<End>,
    /// What the node has heard and said since the last pause.
    bytes: usize,
}

impl Steps {
    /// When to come again, if nothing happens before.
    pub fn due(&self) -> Duration {
        self.tick
    }

    /// It has to end, when all orders up to now are carried out.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The tables were locked for long: packets have to get the lock before the next step. Once for each pause.
    pub fn is_pause_due(&mut self) -> bool {
        let is_due = self.bytes >= PIECE;
        if is_due {
            self.bytes = 0;
        }
        is_due
    }

    /// Something happens, or time alone passes. What has to be done outside comes behind `orders`, and is to be done in that order.
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
            // Not the last time and TICK: after a standstill, one tick is enough.
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

    /// Tables whose node has more to do as often as this says.
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
            // Something else does not bring the next turn.
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
