//! Sends calls. Redirects are not followed, and of an answer nothing but its status is looked at.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use operator_core::error::chain;
use tokio::time::timeout;

use super::request::CannotCall;

/// Trusts the certificate authorities that this machine trusts.
pub(super) struct HttpClient {
    /// Without authorities there is no TLS; the rest of the manager does without.
    client: Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, String>,
}

impl HttpClient {
    pub(super) fn new() -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let roots = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
        let client = roots.map_err(|error| error.to_string()).map(|builder| {
            let connector = builder.https_or_http().enable_http1().build();
            // A connection for each call: they are rare, and none is to be kept open for the next.
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector)
        });
        Self { client }
    }

    /// Sends a call, and returns the status of its answer if that is a success.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>, seconds: i32) -> Result<u16, CannotCall> {
        let client = self.client.as_ref().map_err(|error| CannotCall::NoAuthorities(error.clone()))?;
        let seconds = u64::try_from(seconds).unwrap_or_default().max(1);
        let answer = timeout(Duration::from_secs(seconds), client.request(request)).await;
        let answer = answer.map_err(|_elapsed| CannotCall::NoAnswer { seconds })?;
        let status = answer.map_err(|error| CannotCall::Unreachable(chain(&error)))?.status();
        if status.is_success() {
            return Ok(status.as_u16());
        }
        Err(if status.is_redirection() {
            CannotCall::Redirects(status.as_u16())
        } else {
            CannotCall::Refuses(status.as_u16())
        })
    }
}
