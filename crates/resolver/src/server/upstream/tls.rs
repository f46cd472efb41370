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
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diolkos_dns64::exchange::write_padded;
use diolkos_dns64::Ask;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{timeout_at, Instant};
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

use crate::dns_over_tcp::framed;
use crate::error::ResolverError;
use crate::server::tally::{Fate, QueryCounters};
use diolkos_service::supervise::Watch;

use super::connection::Connection;
use super::ids::Ids;

/// Connections that one question tries: the server may close one at the moment at which it is asked (RFC 7766 section 6.2.3), or
/// after each answer.
const CONNECTIONS_TRIED: usize = 3;
/// For this time after a connection that gave no answer, none is opened. It bounds the handshakes that a server costs us, and we it.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection takes no further questions after this time, so that an expired certificate is not trusted for ever.
const AGE: Duration = Duration::from_secs(3600);
/// The most characters of an error that the log repeats; parts of it are the server's.
const SHOWN: usize = 300;

/// The most connections to one resolver: one, and its predecessor that still has questions in flight.
pub const CONNECTIONS: usize = 2;

/// A resolver that is asked by TLS.
pub struct TlsResolver {
    server: Rc<Server>,
    connection: RefCell<Rc<Connection>>,
    ids: Rc<Ids>,
    watch: Watch,
}

/// What the connections to one resolver share.
pub struct Server {
    address: SocketAddr,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    /// The time limit of a question. A server that says nothing for so long, although it is asked, is not there any more.
    pub patience: Duration,
    /// The counters.
    pub tally: Rc<QueryCounters>,
    /// No connection is opened before this time, and why.
    pause: RefCell<Option<(Instant, String)>>,
}

impl TlsResolver {
    /// Prepares to ask; the first question opens a connection.
    pub fn new(
        (address, name): (SocketAddr, ServerName<'static>),
        config: Arc<ClientConfig>,
        patience: Duration,
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
        if let Some((until, why)) = &*self.server.pause.borrow() {
            if *until > Instant::now() {
                return Err(io::Error::other(why.clone()));
            }
        }
        let (connection, questions) = Connection::new();
        *slot = Rc::new(connection);
        let work = slot.clone().run(self.server.clone(), questions);
        self.watch.local("a connection to upstream", work);
        Ok(slot.clone())
    }
}

impl Server {
    /// Connects, and proves the server's name.
    pub async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(self.config.clone());
        let done = connector.connect(self.name.clone(), stream).await;
        self.tally.count(match &done {
            Ok(_) => Fate::UpstreamTlsConnected,
            Err(error) if is_distrust(error) => Fate::UpstreamTlsUntrusted,
            Err(_) => Fate::UpstreamTlsFailed,
        });
        done
    }

    /// Opens no connection for a while.
    pub fn pause(&self, why: &str) {
        *self.pause.borrow_mut() = Some((Instant::now() + PAUSE, why.to_owned()));
    }
}

/// An error as it may stand in the log: what a server has put in its certificate breaks no line.
pub fn shown(error: &io::Error) -> String {
    let text = error.to_string();
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Returns true if the server has not proved its name.
fn is_distrust(error: &io::Error) -> bool {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// The settings of all connections: TLS 1.3, and the authorities in a file.
pub fn config(authorities: &Path) -> Result<Arc<ClientConfig>, ResolverError> {
    let unusable = |why: String| ResolverError::Authorities {
        path: authorities.display().to_string(),
        why,
    };
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // A system's file may have a few that are not understood here.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(unusable("it has no certificate that can be read".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused() {
        let folder = std::env::temp_dir().join(format!("diolkos-ca-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let empty = folder.join("empty.pem");
        std::fs::write(&empty, "no certificate\n").expect("a file");
        for path in [folder.join("absent.pem"), empty, folder.clone()] {
            let error = config(&path).expect_err("nothing would be trusted");
            let place = path.display().to_string();
            assert!(error.to_string().contains(&place), "{error}");
        }
        std::fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn what_a_server_says_breaks_no_line() {
        let error = io::Error::other(format!("not valid for \"a\r\nERROR x\" {}", "y".repeat(SHOWN)));
        let text = shown(&error);
        assert!(!text.contains('\n') && !text.contains('\r'));
        assert_eq!(text.chars().count(), SHOWN);
    }
}
