// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages by HTTP/1.1: metrics, readiness (`/readyz`) and health (`/healthz`) of the program.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, ACCEPT, ALLOW, CONTENT_TYPE, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::family::Format;
use super::latest::Latest;

/// The paths of the pages.
const METRICS: &str = "/metrics";
const READY: &str = "/readyz";
const HEALTHY: &str = "/healthz";
/// Time limit for receiving a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Lifetime of a connection, whatever it does. A monitoring system connects again.
const LIFETIME: Duration = Duration::from_secs(120);
/// Length of the request head, bytes; the limit of the HTTP library cannot be set lower.
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
    let path = request.uri().path();
    if ![METRICS, READY, HEALTHY].contains(&path) {
        let there = format!("there are {METRICS}, {READY} and {HEALTHY}\n");
        return plain_text(StatusCode::NOT_FOUND, there);
    }
    if request.method() != Method::GET {
        let mut refusal = plain_text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered\n".to_owned(),
        );
        refusal
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET"));
        return refusal;
    }
    let well = match path {
        READY => latest.readiness().map(|()| "ready\n"),
        HEALTHY => latest.health().await.map(|()| "healthy\n"),
        _ => {
            let format = Format::wanted(request.headers().get_all(ACCEPT).iter());
            return match latest.text(format).await {
                Ok(text) => metrics(format, text),
                Err(why) => unavailable(&why),
            };
        }
    };
    match well {
        Ok(text) => plain_text(StatusCode::OK, text.to_owned()),
        Err(why) => unavailable(&why),
    }
}

/// The metrics page, whose format depends on the client's `Accept`.
fn metrics(format: Format, text: Bytes) -> Response<Full<Bytes>> {
    let mut page = response(StatusCode::OK, format.content_type(), text);
    page.headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    page
}

fn unavailable(why: &str) -> Response<Full<Bytes>> {
    plain_text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

fn plain_text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", Bytes::from(text))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
