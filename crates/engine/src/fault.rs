// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a connection as one sentence for the operator.

use std::error::Error;
use std::io;

use async_nats::{ConnectError, ConnectErrorKind};
use rustls::{AlertDescription, CertificateError};

use crate::settings::Server;
use crate::Settings;

/// Why a server cannot be used, beginning with the server.
pub(crate) fn of_connecting(error: &ConnectError, server: &Server, settings: &Settings) -> String {
    let shown = &server.shown;
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => match &settings.login {
            Some(login) => format!(
                "{shown} refuses user \"{}\": unknown, or the password is wrong",
                login.user
            ),
            None => format!("{shown} wants a user and a password, or another certificate"),
        },
        ConnectErrorKind::TimedOut => format!("{shown} does not answer"),
        ConnectErrorKind::Dns => format!(
            "{shown}: its address cannot be found ({})",
            innermost(error)
        ),
        _ => match (find::<rustls::Error>(error), settings.plaintext) {
            (Some(_), true) => format!("{shown} wants TLS, but the settings say plaintext"),
            (Some(cause), false) => format!("{shown} {}", of_tls(cause, settings)),
            (None, _) => of_io(error, shown, settings),
        },
    }
}

fn of_tls(error: &rustls::Error, settings: &Settings) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            let ca = settings
                .tls
                .as_ref()
                .map_or_else(String::new, |tls| format!(" in {}", tls.ca.display()));
            format!("shows a certificate that no authority{ca} has issued")
        }
        E::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "shows a certificate for another name".into(),
        E::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "shows an expired certificate; or the clock here is wrong".into(),
        E::InvalidCertificate(cause) => format!("shows an invalid certificate: {cause}"),
        E::AlertReceived(alert) => of_alert(*alert, settings),
        E::InvalidMessage(_) => "does not speak TLS".into(),
        other => format!("and this node agree on no TLS: {other}"),
    }
}

/// Servers differ in what they say about a certificate that they do not like.
fn of_alert(alert: AlertDescription, settings: &Settings) -> String {
    use AlertDescription as A;
    match alert {
        A::BadCertificate
        | A::CertificateRequired
        | A::CertificateUnknown
        | A::CertificateExpired
        | A::CertificateRevoked
        | A::UnsupportedCertificate
        | A::UnknownCA
        | A::AccessDenied => refuses_certificate(settings),
        other => format!("ended the TLS handshake: {other:?}"),
    }
}

fn refuses_certificate(settings: &Settings) -> String {
    match settings.tls.as_ref().and_then(|tls| tls.identity.as_ref()) {
        Some(identity) => format!(
            "refuses this node's certificate {}",
            identity.certificate.display()
        ),
        None => "wants a certificate of this node, and none is set".into(),
    }
}

fn of_io(error: &ConnectError, shown: &str, settings: &Settings) -> String {
    use io::ErrorKind as K;
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(K::ConnectionRefused) => format!("{shown} cannot be reached: nothing listens there"),
        // The reason that a server sends before it closes may be lost with the connection.
        Some(K::ConnectionReset | K::BrokenPipe | K::UnexpectedEof) if settings.tls.is_some() => {
            format!(
                "{shown} closed the connection; probably it {}",
                refuses_certificate(settings)
            )
        }
        Some(_) => format!("{shown} cannot be reached: {}", innermost(error)),
        None if settings.tls.is_some() && innermost(error) == "broken pipe" => {
            format!(
                "{shown} closed the connection; probably it {}",
                refuses_certificate(settings)
            )
        }
        None => format!(
            "{shown} does not speak NATS as expected: {}",
            innermost(error)
        ),
    }
}

/// The first error of this kind in the chain of causes.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = cause(error);
    }
    None
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(error) = cause(last) {
        last = error;
    }
    last.to_string()
}

/// `io::Error::source` leaves out the error inside.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(inner) => Some(inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
