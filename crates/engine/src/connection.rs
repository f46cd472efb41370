// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection to one server, made once and not again.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{Client, ConnectOptions};
use tokio::sync::Notify;

use crate::fault;
use crate::settings::Server;
use crate::Settings;

/// A batch of the reader, its heartbeats and what the caller may have in flight fit into it.
const UNREAD: usize = 2048;

/// A connection that is up, or was.
pub(crate) struct Connection {
    pub(crate) client: Client,
    watched: Arc<Watched>,
}

/// What the connection's own task tells.
#[derive(Default)]
struct Watched {
    ended: Notify,
    /// The last thing that the server complained of: a missing permission, for one.
    complaint: Mutex<Option<String>>,
}

impl Connection {
    /// Connects. The error is a sentence that names the server.
    pub(crate) async fn open(server: &Server, settings: &Settings) -> Result<Self, String> {
        let watched = Arc::new(Watched::default());
        let options = options(settings, watched.clone())?;
        match options.connect(server.address.clone()).await {
            Ok(client) => Ok(Self { client, watched }),
            Err(error) => Err(fault::of_connecting(&error, server, settings)),
        }
    }

    /// Returns when the server has closed the connection, or left pings without an answer.
    pub(crate) async fn ended(&self) -> String {
        self.watched.ended.notified().await;
        "closed the connection, or does not answer".into()
    }

    /// The fault, and what the server complained of, if it did.
    pub(crate) fn explain(&self, fault: String) -> String {
        let complaint = self
            .watched
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match complaint {
            Some(complaint) => format!("{fault}; it says: {complaint}"),
            None => fault,
        }
    }
}

fn options(settings: &Settings, watched: Arc<Watched>) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new()
        .name(&settings.client_name)
        // Several answers: to the first packet, of TLS, to the login.
        .connection_timeout(settings.silence * 2)
        // The client counts a connection as lost when the third ping is due and two have no answer.
        .ping_interval(settings.silence / 3)
        .request_timeout(Some(settings.silence))
        .subscription_capacity(UNREAD)
        .ignore_discovered_servers()
        .event_callback(move |event| {
            watched.hear(&event);
            async {}
        });
    if let Some(login) = &settings.login {
        options = options.user_and_password(login.user.clone(), login.password.clone());
    }
    if let Some(tls) = &settings.tls {
        // Another crate may have brought a second one, and then neither is the default. An error says that one is set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        readable(&tls.ca)?;
        options = options
            .require_tls(true)
            .add_root_certificates(tls.ca.clone());
        if let Some(identity) = &tls.identity {
            readable(&identity.certificate)?;
            readable(&identity.key)?;
            options =
                options.add_client_certificate(identity.certificate.clone(), identity.key.clone());
        }
    }
    Ok(options)
}

/// The client's own message would not say which file.
fn readable(path: &Path) -> Result<(), String> {
    File::open(path)
        .map(|_| ())
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

impl Watched {
    fn hear(&self, event: &async_nats::Event) {
        match event {
            async_nats::Event::Disconnected | async_nats::Event::Closed => self.ended.notify_one(),
            async_nats::Event::ServerError(error) => {
                // At most a line of the protocol, but from the network.
                let text = error
                    .to_string()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect();
                *self
                    .complaint
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Some(text);
            }
            _ => {}
        }
    }
}
