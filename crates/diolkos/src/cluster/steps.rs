// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the worker does, without its thread, sockets and clock: what comes goes to the node under the lock of the tables, and what the
//! node orders comes out behind that, in its order.

use std::time::Duration;

use diolkos_node::gateway::Order;
use diolkos_node::{Event, Report};

/// Between two times that the node hears of time.
const TICK: Duration = Duration::from_millis(20);

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
                _ => {}
            }
        }
    }
}
