// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Certificates: this node's own, the authority's, and the node that a certificate names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diolkos_node::NodeId;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::refusal::Refusal;
use crate::settings::{Fault, Settings};

/// The protocol inside of TLS (ALPN). A certificate of the same authority for another purpose cannot be used here by
/// accident.
pub(crate) const PROTOCOL: &[u8] = b"diolkos-mesh/1";

/// Files in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// This node's certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates of the authority; two while it is replaced.
    pub authority: PathBuf,
}

/// The checked content of the files.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) connector: TlsConnector,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are omitted.
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or do not fit each other, or a certificate that does not name exactly this node.
    pub fn read(files: &Files, settings: &Settings) -> Result<Credentials, Fault> {
        let own = settings.check()?;
        let chain = certificates(&files.certificate)?;
        let first = chain.first();
        if first.and_then(|first| named(settings, first).ok()) != Some(settings.me) {
            return Err(Fault::Identity(own.name.clone()));
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
        let key = key.map_err(|error| unreadable(&files.key, error))?;

        let mut roots = RootCertStore::empty();
        for root in certificates(&files.authority)? {
            let added = roots.add(root);
            added.map_err(|error| Fault::Authority(error.to_string()))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        Ok(Credentials {
            acceptor: acceptor(&provider, &roots, chain.clone(), key.clone_key())?,
            connector: connector(&provider, &roots, chain, key)?,
        })
    }
}

/// There is no session resumption: each connection authenticates again.
fn acceptor(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, Fault> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(|error| Fault::Authority(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(Fault::Pair)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(Fault::Pair)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config).into())
}

fn connector(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsConnector, Fault> {
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(|error| Fault::Authority(error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(Fault::Pair)?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(chain, key)
        .map_err(Fault::Pair)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config).into())
}

/// Returns the one node that a certificate names. Other names in it do not matter. A pattern (`*.example`) names no
/// node.
///
/// # Errors
///
/// It names none, or several.
pub(crate) fn named(
    settings: &Settings,
    certificate: &CertificateDer<'_>,
) -> Result<NodeId, Refusal> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| Refusal::Certificate)?;
    let names: Vec<&str> = parsed.valid_dns_names().collect();
    let mut nodes = (0..).zip(&settings.nodes).filter(|(_, place)| {
        let is_its = |name: &&str| name.eq_ignore_ascii_case(&place.name);
        names.iter().any(is_its)
    });
    match (nodes.next(), nodes.next()) {
        (Some((at, _)), None) => Ok(NodeId(at)),
        (None, _) => Err(Refusal::Unknown),
        _ => Err(Refusal::Several),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|error| unreadable(path, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let pem = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(unreadable(path, "it has no certificate")),
        all => all.map_err(|error| unreadable(path, error)),
    }
}

fn unreadable(path: &Path, why: impl ToString) -> Fault {
    Fault::File(path.display().to_string(), why.to_string())
}
