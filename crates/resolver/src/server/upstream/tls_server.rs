// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A resolver asked by TLS, as all connections to it share it: whom they believe, and when none is opened.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

use crate::error::ResolverError;
use crate::server::tally::{Fate, QueryCounters};

/// For this time after a connection that gave no answer, none is opened. It bounds the handshakes that a server costs us, and we it.
const PAUSE: Duration = Duration::from_secs(1);
/// The most characters of an error that the log repeats; parts of it are the server's.
const SHOWN: usize = 300;

/// What the connections to one resolver share.
pub struct Server {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name that it has to prove.
    pub name: ServerName<'static>,
    /// The authorities that are believed.
    pub config: Arc<ClientConfig>,
    /// The time limit of a question. A server that says nothing for so long, although it is asked, is not there any more.
    pub patience: Duration,
    /// The counters.
    pub tally: Rc<QueryCounters>,
    /// No connection is opened before this time, and why.
    pub pause: RefCell<Option<(Instant, String)>>,
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

    /// Why no connection may be opened now, if so.
    pub fn rests(&self) -> Option<String> {
        let pause = self.pause.borrow();
        let now = Instant::now();
        let (_, why) = pause.as_ref().filter(|(until, _)| *until > now)?;
        Some(why.clone())
    }

    /// Opens no connection for a while.
    pub fn pause(&self, why: &str) {
        *self.pause.borrow_mut() = Some((Instant::now() + PAUSE, why.to_owned()));
    }
}

/// An error as it may stand in the log: what a server has put in its certificate breaks no line.
pub fn shown(error: &io::Error) -> String {
    let text = error.to_string();
    text.chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect()
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
        return Err(unusable(
            "it has no certificate that can be read".to_owned(),
        ));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        // By name: another crate of the build may add older ones to the defaults.
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A resumed connection would not have its certificate checked again.
    config.resumption = Resumption::disabled();
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
        let error = io::Error::other(format!(
            "not valid for \"a\r\nERROR x\" {}",
            "y".repeat(SHOWN)
        ));
        let text = shown(&error);
        assert!(!text.contains('\n') && !text.contains('\r'));
        assert_eq!(text.chars().count(), SHOWN);
    }
}
