// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One page by HTTP/1.1.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::family;
use super::latest::Latest;

/// Where the page is.
const PATH: &str = "/metrics";
/// How long a request may take to come.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection may last, whatever it does. A monitoring system connects again.
const LIFETIME: Duration = Duration::from_secs(120);
/// Lines of a request, bytes; no other library's limit is lower.
const LONGEST_HEAD: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// Serves one connection to its end.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, latest: Arc<Latest>) {
    let answer = service_fn(move |request| {
        let latest = latest.clone();
        async move { Ok::<_, Infallible>(answer(&request, &latest).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), answer);
    if let Ok(Err(error)) = timeout(LIFETIME, served).await {
        tracing::debug!("a client of the metrics failed: {error}");
    }
}

async fn answer(request: &Request<Incoming>, latest: &Latest) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return plain_text(
            StatusCode::NOT_FOUND,
            format!("the metrics are at {PATH}\n"),
        );
    }
    if request.method() != Method::GET {
        let mut refusal = plain_text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered\n".to_owned(),
        );
        refusal
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
        return refusal;
    }
    match latest.text().await {
        Ok(text) => response(StatusCode::OK, family::CONTENT_TYPE, text),
        Err(why) => plain_text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn plain_text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", Bytes::from(text))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
