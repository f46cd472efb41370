// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets on which clients ask. The keeper opens them, and has them as long as it runs: what comes while there is no
//! process waits in them for the next one.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::Socket;
use tokio::time::Instant;

use super::message::Transport;
use crate::dns64::listen::{self, FIRST_PAUSE, LONGEST_PAUSE};
use crate::dns64::tally::{Fate, Tally};
use diolkos_service::failure::{Failure, Kind};

/// All of them.
pub struct Sockets(Vec<Place>);

struct Place {
    address: SocketAddr,
    transport: Transport,
    socket: Option<Socket>,
    /// Why there is none.
    why: Option<String>,
    retry: Instant,
    pause: Duration,
}

impl Sockets {
    /// Opens them. One whose port another program holds is tried again; with any other fault, only the operator can help.
    pub fn open(addresses: &[SocketAddr], tally: &Tally) -> Result<Sockets, Failure> {
        let mut places = Vec::new();
        for &address in addresses {
            for transport in [Transport::Udp, Transport::Tcp] {
                let (socket, why) = match bind(address, transport) {
                    Ok(socket) => (Some(socket), None),
                    Err(failure) if failure.kind == Kind::RunTime => {
                        tally.count(Fate::ListenFailed);
                        tracing::warn!("dns64: {failure}; diolkos retries until it succeeds");
                        (None, Some(failure.to_string()))
                    }
                    Err(failure) => return Err(failure),
                };
                places.push(Place {
                    address,
                    transport,
                    socket,
                    why,
                    retry: Instant::now() + FIRST_PAUSE,
                    pause: FIRST_PAUSE,
                });
            }
        }
        Ok(Sockets(places))
    }

    /// Tries again what is due: those that could be opened now.
    pub fn retry(&mut self, tally: &Tally) -> Vec<(Transport, BorrowedFd<'_>)> {
        let now = Instant::now();
        let mut opened = Vec::new();
        for place in &mut self.0 {
            if place.socket.is_some() || place.retry > now {
                continue;
            }
            let by = match place.transport {
                Transport::Udp => "UDP",
                Transport::Tcp => "TCP",
            };
            match bind(place.address, place.transport) {
                Ok(socket) => {
                    tracing::info!("dns64: serving {} by {by} now", place.address);
                    place.why = None;
                    let socket: &Socket = place.socket.insert(socket);
                    opened.push((place.transport, socket.as_fd()));
                }
                Err(failure) => {
                    tally.count(Fate::ListenFailed);
                    tracing::debug!("dns64: {failure}");
                    place.why = Some(failure.to_string());
                    place.pause = (place.pause * 2).min(LONGEST_PAUSE);
                    place.retry = now + place.pause;
                }
            }
        }
        opened
    }

    /// Closes all of them, to be opened again: one is broken.
    pub fn close(&mut self) {
        for place in &mut self.0 {
            place.socket = None;
            place.retry = Instant::now();
            place.pause = FIRST_PAUSE;
        }
    }

    /// Those that are open.
    pub fn all(&self) -> impl Iterator<Item = (Transport, BorrowedFd<'_>)> {
        let places = self.0.iter();
        places.filter_map(|place| Some((place.transport, place.socket.as_ref()?.as_fd())))
    }

    /// Why those that are not open could not be opened.
    pub fn troubles(&self) -> Vec<String> {
        self.0
            .iter()
            .filter_map(|place| place.why.clone())
            .collect()
    }
}

fn bind(address: SocketAddr, transport: Transport) -> Result<Socket, Failure> {
    match transport {
        Transport::Udp => listen::for_datagrams(address),
        Transport::Tcp => listen::for_connections(address),
    }
}
