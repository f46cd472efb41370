// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reaches a process, and the orders that it gives.

use diolkos_node::gateway::Order;
use diolkos_node::message::Message;
use diolkos_node::{Event, Report};

use super::*;
use crate::tables::Hands;

impl World {
    pub(super) fn tell(&mut self, at: usize, number: u64, inner: Inner) {
        let machine = &self.machines[at];
        if machine.process.as_ref().is_none_or(|p| p.number != number) {
            return;
        }
        if machine.frozen_until > self.now || !self.inboxes[at].is_empty() {
            self.inboxes[at].push_back(inner);
        } else {
            self.handle(at, inner);
        }
    }

    pub(super) fn handle(&mut self, at: usize, inner: Inner) {
        match inner {
            Inner::Connected(peer, connection) => self.event(
                at,
                Event::Connected {
                    peer: NodeId(peer as u8),
                    connection,
                    room: 70,
                },
            ),
            Inner::Lost(peer, connection) => self.event(
                at,
                Event::Lost {
                    peer: NodeId(peer as u8),
                    connection,
                },
            ),
            Inner::Bytes(peer, connection, bytes) => {
                let bytes = self.machines[at].runs.version.message(bytes);
                let message = Message::decode(&bytes);
                self.given_back += usize::from(matches!(message, Some(Message::Given(_))));
                let event = Event::Message {
                    peer: NodeId(peer as u8),
                    connection,
                    bytes: &bytes,
                };
                self.event(at, event);
                self.is_refused(at, peer, connection);
            }
            Inner::Answer(token, answer) => {
                let answer = self.machines[at].runs.version.answer(answer);
                self.event(at, Event::Answer { token, answer });
            }
        }
    }

    pub fn event(&mut self, at: usize, event: Event<'_>) {
        let (now, machine) = (self.now, &mut self.machines[at]);
        let clock = machine.clock(now);
        let Some(process) = &mut machine.process else {
            return;
        };
        let mut orders = Vec::new();
        let mut hands = Hands {
            state: &mut process.state,
            program: &mut machine.program,
            clock,
            is_tight: self.is_tight,
            changes: Vec::new(),
            heard: 0,
            error: None,
        };
        let gateway = &mut process.gateway;
        gateway.handle(clock, event, &mut hands, &mut orders);
        let changes = hands.changes;
        if let Some(error) = hands.error.filter(|_| !machine.lies) {
            self.error = Some(format!("node {at}: {error}"));
        }
        self.given(at, &changes);
        for order in orders {
            self.follow(at, order);
        }
    }

    fn follow(&mut self, at: usize, order: Order) {
        let Some(process) = &mut self.machines[at].process else {
            return;
        };
        let number = process.number;
        match order {
            Order::Send {
                connection, bytes, ..
            } => self.send(at, connection, bytes),
            Order::Close { connection, .. } => {
                let of = self.net.connections.get(&connection);
                let end = of.and_then(|c| (0..2).find(|&end| c.ends[end] == (at, number)));
                end.into_iter().for_each(|end| self.close(connection, end));
            }
            Order::Ask { token, request } => {
                let request = self.machines[at].runs.version.request(request);
                let mut after = self.delay();
                if self.requests_are_late && self.random.chance(0.1) {
                    after += (self.random.unit() * 9.0 * SECOND as f64) as u64;
                }
                self.post(after, What::Request(at, number, token, request));
            }
            Order::Left => process.has_left = true,
            Order::Report(Report::Void(_)) => self.voids += 1,
            Order::Report(Report::Strange(peer)) => {
                if self.liar.is_none() {
                    self.error = Some(format!("node {at} calls {peer:?} strange"));
                }
            }
            Order::Report(Report::Differs(_, part)) => self.differs(part),
            Order::GoOver(file) => self.go_over(at, file),
            // Ticks come anyway.
            Order::Attract(_) | Order::Again | Order::Report(_) => {}
        }
    }
}
