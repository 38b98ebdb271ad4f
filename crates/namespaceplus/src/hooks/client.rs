//! The HTTP client. It does not follow redirects, and reads only the status of a response.

use http::Uri;
use hyper::client::conn::http1::handshake;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use operator_core::error::chain;
use tokio::{pin, select};
use tower::ServiceExt;

use super::{
    request::{CallError, OutgoingRequest},
    trust::{Trust, certificate_error},
};

/// Sends calls. Each call uses its own connection, because calls are rare.
pub(super) struct HttpClient {
    trust: Trust,
}

impl HttpClient {
    pub(super) fn new(trust: Trust) -> Self {
        Self { trust }
    }

    /// Sends a call and returns the status of a successful response.
    ///
    /// Returns `None` without sending if `may_send` is false right before the request is sent.
    pub(super) async fn send(
        &self,
        OutgoingRequest { to, request }: OutgoingRequest,
        may_send: impl Fn() -> bool,
    ) -> Result<Option<u16>, CallError> {
        let stream = self.connector(&to).await?.oneshot(to).await;
        let stream = stream.map_err(|error| {
            certificate_error(error.as_ref())
                .map_or_else(|| unreachable(error.as_ref()), CallError::Certificate)
        })?;
        let (mut sender, connection) = handshake(stream).await.map_err(|error| unreachable(&error))?;
        // Connecting takes time, and the process may have been paused meanwhile.
        if !may_send() {
            return Ok(None);
        }
        let answer = sender.send_request(request);
        pin!(answer, connection);
        let answer = select! {
            answer = &mut answer => answer,
            // The response contains the cause.
            _ = &mut connection => answer.await,
        };
        let status = answer.map_err(|error| unreachable(&error))?.status();
        match status.as_u16() {
            code if status.is_success() => Ok(Some(code)),
            code if status.is_redirection() => Err(CallError::Redirects(code)),
            code => Err(CallError::Refuses(code)),
        }
    }

    async fn connector(&self, to: &Uri) -> Result<HttpsConnector<HttpConnector>, CallError> {
        let tls = self.trust.of(to).await?;
        Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build())
    }
}

fn unreachable(error: &(dyn std::error::Error + 'static)) -> CallError {
    CallError::Unreachable(chain(error))
}
