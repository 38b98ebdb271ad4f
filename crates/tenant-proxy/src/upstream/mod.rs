//! Requests to the API server.
//!
//! There are two senders. [`AsUser`] sends the request of a user, with the credential of the user. Only if
//! client certificates are enabled, it can add the token of the proxy, to requests that impersonate the user
//! of a certificate. [`AsProxy`] sends the request of a view with the token of the proxy, and accepts nothing
//! that a user wrote.
//!
//! The connections have no client certificate: the API server would take its user for each request.

mod as_proxy;
mod as_user;
mod endpoint;
mod guarded_body;
mod kept_body;
mod pool;
mod without_trailers;

use std::time::Duration;

pub use as_proxy::{AsProxy, ProxyRequest, Target, Token};
pub use as_user::{AsUser, UserRequest};
pub use endpoint::Endpoint;
pub(crate) use guarded_body::GuardedBody;
pub use pool::Pool;

/// Why there is no response of the API server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection could be opened.
    #[error("cannot connect to the API server: {0}")]
    Connect(String),
    /// The connection broke before the response.
    #[error("the connection to the API server broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The response did not begin in time.
    #[error("the API server did not respond within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The user did not send the body of the request in time.
    #[error("the body of the request did not arrive within {} s", .0.as_secs())]
    SlowRequest(Duration),
    /// The body of the request broke off.
    #[error("cannot read the body of the request: {0}")]
    BrokenRequest(axum::Error),
    /// The response does not belong to the request.
    #[error("the API server switched to another protocol than it was asked for")]
    Protocol,
}
