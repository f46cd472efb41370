// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: connections and their events.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use diolkos_mesh::{Credentials, Event, Fault, Files, Mesh, NodeAddress, Refusal, Settings};
use diolkos_node::{Event as NodeEvent, NodeId};

/// An expected event comes within this time, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(60);

pub fn name(number: usize) -> String {
    format!("gw{number}.lan.example")
}

/// Returns the loopback addresses of a test, which are unique to it: one for each gateway, then others.
pub fn network() -> impl Fn(u8) -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id().to_be_bytes();
    move |host| IpAddr::V4(Ipv4Addr::new(127, process[3].max(1), number, host + 1))
}

/// Returns settings with free ports at these addresses.
pub fn settings(addresses: &[IpAddr]) -> Settings {
    let free: Vec<TcpListener> = addresses
        .iter()
        .map(|address| TcpListener::bind((*address, 0)).expect("a port"))
        .collect();
    let place = |(number, listener): (usize, &TcpListener)| NodeAddress {
        name: name(number),
        address: listener.local_addr().expect("an address"),
    };
    Settings {
        me: NodeId(0),
        nodes: free.iter().enumerate().map(place).collect(),
    }
}

/// A received event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Came {
    Connected(NodeId, u64),
    Message(NodeId, u64, Vec<u8>),
    Room(NodeId, u64, usize),
    Lost(NodeId, u64),
}

pub struct Gateway {
    pub mesh: Mesh,
    pub events: Receiver<Event>,
}

impl Gateway {
    pub fn start(settings: &Settings, me: u8, files: &Files) -> Gateway {
        let me = NodeId(me);
        let settings = Settings {
            me,
            ..settings.clone()
        };
        let credentials = Credentials::read(files, &settings).expect("good files");
        let (sender, events) = channel();
        let end = Instant::now() + LONG;
        let mesh = loop {
            match Mesh::start(settings.clone(), credentials.clone(), sender.clone()) {
                Ok(mesh) => break mesh,
                // A test beside this one starts `openssl`: between fork and exec, that process has all sockets of this
                // one.
                Err(Fault::Listen(_, error)) if error.kind() == ErrorKind::AddrInUse => {
                    assert!(Instant::now() < end, "{error}");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(fault) => panic!("{fault}"),
            }
        };
        Gateway { mesh, events }
    }

    /// Returns the next event for the node within a time.
    pub fn next_within(&mut self, time: Duration) -> Option<Came> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = match self.events.recv_timeout(left) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("the thread has ended"),
            };
            let mut came = None;
            self.mesh.note(event, |event| {
                came = Some(match event {
                    NodeEvent::Connected {
                        peer,
                        connection,
                        room,
                    } => {
                        assert_eq!(room, diolkos_mesh::ROOM);
                        Came::Connected(peer, connection)
                    }
                    NodeEvent::Message {
                        peer,
                        connection,
                        bytes,
                    } => Came::Message(peer, connection, bytes.to_vec()),
                    NodeEvent::Room {
                        peer,
                        connection,
                        room,
                    } => Came::Room(peer, connection, room),
                    NodeEvent::Lost { peer, connection } => Came::Lost(peer, connection),
                    other => panic!("{other:?}"),
                });
            });
            if came.is_some() {
                return came;
            }
        }
    }

    /// Returns the next event, except for room.
    pub fn next(&mut self) -> Came {
        loop {
            match self.next_within(LONG).expect("an event") {
                Came::Room(..) => {}
                came => return came,
            }
        }
    }

    /// Waits for a connection with a node. Returns its number.
    pub fn connected(&mut self, with: u8) -> u64 {
        loop {
            if let Came::Connected(NodeId(peer), connection) = self.next() {
                if peer == with {
                    return connection;
                }
            }
        }
    }

    /// Waits until a connection has ended and there is another one with the same node, in either order.
    pub fn follows(&mut self, with: u8, before: u64) -> u64 {
        let (mut lost, mut now) = (false, None);
        loop {
            match self.next() {
                Came::Lost(NodeId(peer), connection) if peer == with => {
                    lost |= connection == before
                }
                Came::Connected(NodeId(peer), connection) if peer == with => now = Some(connection),
                _ => {}
            }
            if let (true, Some(now)) = (lost, now) {
                assert!(now > before);
                return now;
            }
        }
    }

    pub fn lost(&mut self) -> (NodeId, u64) {
        loop {
            if let Came::Lost(peer, connection) = self.next() {
                return (peer, connection);
            }
        }
    }

    pub fn message(&mut self) -> (NodeId, u64, Vec<u8>) {
        loop {
            if let Came::Message(peer, connection, bytes) = self.next() {
                return (peer, connection, bytes);
            }
        }
    }

    /// Waits until a refusal of a kind was counted; no connection may count meanwhile.
    pub fn refuses(&mut self, why: Refusal, times: u64) {
        let end = Instant::now() + LONG;
        while self.mesh.refused(why) < times {
            let all = Refusal::ALL.map(|why| (why, self.mesh.refused(why)));
            assert!(Instant::now() < end, "{why:?}: {all:?}");
            let came = self.next_within(Duration::from_millis(5));
            assert_eq!(came, None, "{why:?}");
        }
    }
}

pub fn at(settings: &Settings, node: usize) -> SocketAddr {
    settings.nodes[node].address
}
