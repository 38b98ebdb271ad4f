//! HTTP client of the object store, with rustls and without a pool of threads.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Uri, header::USER_AGENT};
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect},
    rt::{TokioExecutor, TokioTimer},
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
        HttpService,
    },
};
use tokio::time::timeout;

use super::{body::bounded, refusal::Refusal, tls, transport::TransportError};
use crate::settings::{ObjectStoreSettings, SettingsError};

/// Longest time to connect, with the handshake of TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection without requests stays open.
const IDLE: Duration = Duration::from_secs(30);
/// Most bytes of a page of a listing: 1000 keys of 1024 bytes, and what XML adds.
const MAX_PAGE: usize = 8 << 20;
/// Most bytes of an answer that is not successful.
const MAX_REFUSAL: usize = 64 << 10;
/// Most bytes of an object.
const MAX_OBJECT: usize = 5 << 30;

/// HTTP client that sends the requests of the crate `object_store`.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    client: Client<HttpsConnector<connect::HttpConnector>, HttpRequestBody>,
    request_timeout: Duration,
}

impl Connector {
    /// Returns a client for a server.
    ///
    /// # Errors
    /// Returns an error if the CA bundle is malformed.
    pub(super) fn new(settings: &ObjectStoreSettings) -> Result<Self, SettingsError> {
        let mut tcp = connect::HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls::config(settings.ca_bundle.as_deref())?);
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Ok(Self { client: builder.build(connector), request_timeout: settings.request_timeout })
    }

    async fn send(&self, request: HttpRequest) -> Result<http::Response<Incoming>, HttpError> {
        match timeout(self.request_timeout, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| TransportError::of(&error).into()),
            Err(_) => Err(TransportError::timeout(self.request_timeout).into()),
        }
    }

    /// Reads what the store says about a request that it does not perform.
    async fn refusal(&self, answer: http::Response<Incoming>) -> HttpError {
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_REFUSAL).collect();
        let body = timeout(self.request_timeout, body).await.ok().and_then(Result::ok);
        let body = body.map_or_else(Bytes::new, Collected::to_bytes);
        HttpError::new(HttpErrorKind::Unknown, Refusal::parse(status, &body))
    }
}

/// Each answer that is not successful is an error with a [`Refusal`], so that its status and its code
/// are known. The errors of `object_store` have neither.
#[async_trait]
impl HttpService for Connector {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let limit = if is_listing(request.uri()) { MAX_PAGE } else { MAX_OBJECT };
        let agent = HeaderValue::from_static(concat!("ensemble/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let (parts, body) = answer.into_parts();
        Ok(HttpResponse::from_parts(parts, bounded(body, limit, self.request_timeout)))
    }
}

fn is_listing(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "list-type=2"))
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}
