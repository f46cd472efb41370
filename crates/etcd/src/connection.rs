// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection to one member: TCP, TLS, HTTP/1.1, the member's version, and a token if there is a user.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::settings::{Login, Server, Settings, Tls};
use crate::version;

/// Maximum length of an answer in bytes: a record of 64 nodes has a kilobyte.
const LONGEST: usize = 64 << 10;
/// Maximum length of a member's error message that is shown.
const SHOWN: usize = 200;

/// An established connection, which is closed when this is dropped.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    runs: JoinHandle<()>,
    server: Server,
    token: Option<String>,
    pub(crate) settings: Arc<Settings>,
    /// The member's version.
    pub(crate) version: String,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

/// The body of a refusal by etcd. Its JSON gateway has used both names.
#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
    message: Option<String>,
}

impl Connection {
    /// Connects, within the deadline. The error is a sentence that begins with the member.
    pub(crate) async fn open(
        server: &Server,
        settings: &Arc<Settings>,
    ) -> Result<Connection, String> {
        let (stream, shown) = (connect(server, settings), &server.shown);
        let stream = within(settings.deadline, stream).await;
        let stream = stream.map_err(|error| format!("{shown} {error}"))?;
        let made = Self::begin(stream, server, settings);
        let made = within(settings.deadline, made).await;
        made.map_err(|error| format!("{shown} {error}"))
    }

    async fn begin(
        stream: Box<dyn Stream>,
        server: &Server,
        settings: &Arc<Settings>,
    ) -> Result<Connection, String> {
        let http = Builder::new()
            .max_buf_size(LONGEST)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, runs) = http.map_err(|error| format!("does not speak HTTP: {error}"))?;
        let mut connection = Connection {
            sender,
            // An error is reported by the pending request.
            runs: tokio::spawn(async { _ = runs.await }),
            server: server.clone(),
            token: None,
            settings: settings.clone(),
            version: String::new(),
        };
        let body = connection.exchange("GET", "/version", None).await?;
        connection.version = version::judge(&body)?;
        if let Some(login) = &settings.login {
            connection.token = Some(connection.authenticate(login).await?);
        }
        Ok(connection)
    }

    async fn authenticate(&mut self, login: &Login) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Answer {
            token: String,
        }
        let body = json!({"name": login.user, "password": login.password});
        let body = self.exchange("POST", "/v3/auth/authenticate", Some(body));
        let answer = serde_json::from_slice::<Answer>(&body.await?);
        let token = answer.map_err(|_| "gives no token for the user")?.token;
        Ok(token)
    }

    /// Sends a request, within the deadline. The error is a sentence that begins with the member. After an error, the
    /// request may have taken effect nevertheless.
    pub(crate) async fn ask(&mut self, path: &str, body: Value) -> Result<Bytes, String> {
        let shown = self.server.shown.clone();
        let answer = within(
            self.settings.deadline,
            self.exchange("POST", path, Some(body)),
        )
        .await;
        answer.map_err(|error| format!("{shown} {error}"))
    }

    /// Returns true if a request can be sent: the member has not closed the connection.
    pub(crate) fn is_open(&self) -> bool {
        self.sender.is_ready()
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Bytes, String> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.server.shown)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|_| "gave a token that cannot be sent")?;
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|error| format!("gives no answer in HTTP: {error}"))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body
            .map_err(|error| format!("gives no whole answer: {error}"))?
            .to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(refused(status, &body, self.settings.login.as_ref())),
        }
    }
}

/// Describes a refusal by a member, with the user, on one line.
fn refused(status: StatusCode, body: &[u8], login: Option<&Login>) -> String {
    if status == StatusCode::NOT_FOUND {
        return "has no gateway to JSON; set enable-grpc-gateway: true".into();
    }
    let said = serde_json::from_slice::<Refusal>(body).ok();
    let said = said.and_then(|said| said.message.or(said.error));
    // Refusals that do not come from etcd's JSON gateway are plain text.
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let said: String = said
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect();
    let whom = login.map(|login| format!(" the user {:?}", login.user));
    let whom = whom.unwrap_or_default();
    format!("refuses{whom} ({}): {said}", status.as_u16())
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn connect(server: &Server, settings: &Settings) -> Result<Box<dyn Stream>, String> {
    let tls = settings.tls.as_ref().map(encryption).transpose()?;
    let stream = TcpStream::connect((&*server.host, server.port)).await;
    let stream = stream.map_err(|error| format!("cannot be reached: {error}"))?;
    _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| "has a name that no certificate can have")?;
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream = stream.map_err(|error| format!("fails in TLS: {error}"))?;
    Ok(Box::new(stream))
}

fn encryption(tls: &Tls) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| unreadable(&tls.ca, &error))?;
    }
    let chain = certificates(&tls.certificate)?;
    let key =
        PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unreadable(&tls.key, &error))?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot be reached with TLS: {error}"))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| unreadable(&tls.key, &error))?;
    Ok(Arc::new(config))
}

/// Reads one or more certificates.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unreadable(path, &error))?;
    match all.is_empty() {
        true => Err(unreadable(path, &"it has no certificate")),
        false => Ok(all),
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> String {
    let path = path.display();
    format!("cannot be reached: {path} cannot be used: {error}")
}

async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || Err(format!("does not answer within {deadline:?}"));
    let done = tokio::time::timeout(deadline, work).await;
    done.unwrap_or_else(|_| late())
}
