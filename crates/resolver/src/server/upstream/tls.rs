// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions to a resolver by DNS over TLS (RFC 7858), on one connection that is kept: it has many questions in flight, whose
//! answers may come in any order.
//!
//! question ─► connection (opened if there is none) ─► TLS ─► answer, found by its identification and its question
//!
//! **What must never happen: a question leaves this host unencrypted, or to a server that has not proved its name** (RFC 8310, strict
//! privacy profile). So a question is written only after the handshake, whose end means that a certificate of the authorities in
//! `upstream_ca` has the name; nothing here sends otherwise, and what fails is an error.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diolkos_dns64::exchange::write_padded;
use diolkos_dns64::Ask;
use rustls::pki_types::ServerName;
use rustls::ClientConfig;
use tokio::time::{timeout_at, Instant};

use crate::dns_over_tcp::framed;
use crate::server::tally::{Fate, QueryCounters};
use diolkos_service::supervise::Watch;

use super::connection::Connection;
use super::ids::Ids;
use super::tls_server::Server;

/// Connections that one question tries: the server may close one at the moment at which it is asked (RFC 7766 section 6.2.3), or
/// after each answer.
const CONNECTIONS_TRIED: usize = 3;
/// A connection takes no further questions after this time, so that an expired certificate is not trusted for ever.
const AGE: Duration = Duration::from_secs(3600);
/// The most connections to one resolver: one, and its predecessor that still has questions in flight.
pub const CONNECTIONS: usize = 2;

/// A resolver that is asked by TLS.
pub struct TlsResolver {
    server: Rc<Server>,
    connection: RefCell<Rc<Connection>>,
    places: usize,
    ids: Rc<Ids>,
    watch: Watch,
}

impl Drop for TlsResolver {
    /// No question is left when the configuration has no such resolver any more.
    fn drop(&mut self) {
        self.connection.borrow().end("is not asked any more");
    }
}

impl TlsResolver {
    /// Prepares to ask so many questions at once; the first opens a connection.
    pub fn new(
        (address, name): (SocketAddr, ServerName<'static>),
        config: Arc<ClientConfig>,
        (patience, places): (Duration, usize),
        (ids, tally, watch): (Rc<Ids>, Rc<QueryCounters>, Watch),
    ) -> TlsResolver {
        let pause = RefCell::default();
        TlsResolver {
            server: Rc::new(Server {
                address,
                name,
                config,
                patience,
                tally,
                pause,
            }),
            connection: RefCell::new(Rc::new(Connection::ended())),
            places,
            ids,
            watch,
        }
    }

    /// Asks and waits for the answer, within the time limit.
    pub async fn exchange(&self, ask: &Ask, udp_size: u16) -> io::Result<Vec<u8>> {
        let end = Instant::now() + self.server.patience;
        let mut why = String::new();
        for _ in 0..CONNECTIONS_TRIED {
            let connection = self.connection()?;
            let question = |id| {
                let mut query = Vec::new();
                write_padded(ask, id, udp_size, &mut query);
                framed(&query)
            };
            self.server.tally.count(Fate::UpstreamTls);
            let asked = connection.ask(ask, &self.ids, question);
            match timeout_at(end, asked).await {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => why = connection.why(),
                Err(_) => {
                    connection.end_if_silent(self.server.patience / 2);
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            // A server that has answered a question may answer this one, too.
            if !connection.has_answered() {
                break;
            }
        }
        Err(io::Error::other(why))
    }

    /// The connection, which may be a new one.
    fn connection(&self) -> io::Result<Rc<Connection>> {
        let mut slot = self.connection.borrow_mut();
        if slot.takes_questions(AGE) {
            return Ok(slot.clone());
        }
        if let Some(why) = self.server.rests() {
            return Err(io::Error::other(why));
        }
        let (connection, questions) = Connection::new(self.places);
        *slot = Rc::new(connection);
        let work = slot.clone().run(self.server.clone(), questions);
        self.watch.local("a connection to upstream", work);
        Ok(slot.clone())
    }
}
