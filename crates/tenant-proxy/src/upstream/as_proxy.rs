//! Requests of the proxy, with its own token.

use std::{fmt, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use axum::body::Body;
use http::{
    HeaderName, HeaderValue, Request, Response,
    header::{ACCEPT, AUTHORIZATION, USER_AGENT},
    uri::PathAndQuery,
};
use kube::config::AuthInfo;
use operator_runtime::reload::FileReloader;
use secrecy::ExposeSecret;

use super::{
    UpstreamError,
    as_user::{send, uri},
    kept_body::KeptBody,
    pool::Pool,
};
use crate::view::View;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("ensemble-proxy/", env!("CARGO_PKG_VERSION")));
/// The API server writes it into its audit log.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Token of the proxy's ServiceAccount.
pub struct Token(Source);

enum Source {
    File(FileReloader<HeaderValue>),
    Fixed(HeaderValue),
}

impl Token {
    /// Returns the token of a configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration has no token, another credential beside it, or a file that
    /// cannot be read.
    pub fn of(auth: &AuthInfo) -> Result<Self> {
        ensure!(
            auth.client_certificate.is_none() && auth.client_certificate_data.is_none(),
            "the proxy needs a token of a ServiceAccount, and no client certificate"
        );
        if let Some(file) = &auth.token_file {
            let parse = |contents: &[Vec<u8>]| header(&contents.concat());
            return Ok(Self(Source::File(FileReloader::new("the token", vec![PathBuf::from(file)], parse)?)));
        }
        let Some(token) = &auth.token else {
            bail!("the proxy needs a token of a ServiceAccount; its configuration of the cluster has none")
        };
        header(token.expose_secret().as_bytes()).map(|value| Self(Source::Fixed(value)))
    }

    pub(super) fn header(&self) -> HeaderValue {
        match &self.0 {
            Source::File(reloaded) => (*reloaded.current()).clone(),
            Source::Fixed(value) => value.clone(),
        }
    }
}

/// Returns the header with a token.
fn header(token: &[u8]) -> Result<HeaderValue> {
    let token = token.trim_ascii();
    ensure!(!token.is_empty(), "the token of the proxy is empty");
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .context("the token of the proxy has characters that a header cannot have")?;
    value.set_sensitive(true);
    Ok(value)
}

/// What the proxy reads with its own token: paths that it writes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The objects of a view.
    View(View),
    /// The kinds of a group and version.
    Kinds {
        /// API group. Empty for the core group.
        group: String,
        /// Version.
        version: String,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View(view) => write!(f, "{view}"),
            Self::Kinds { group, version } if group.is_empty() => write!(f, "/api/{version}"),
            Self::Kinds { group, version } => write!(f, "/apis/{group}/{version}"),
        }
    }
}

/// A request of the proxy: a GET of a path that it knows, with a query that it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRequest {
    /// What is read.
    pub target: Target,
    /// Query, as written by [`ListOptions::query`](crate::list_options::ListOptions::query).
    pub query: String,
    /// Content types, as returned by [`accept`](crate::accept::accept).
    pub accept: HeaderValue,
}

/// Sends the requests of views, with the token of the proxy.
pub struct AsProxy {
    pool: Arc<Pool>,
    token: Arc<Token>,
}

impl AsProxy {
    /// Returns a sender on these connections.
    pub fn new(pool: Arc<Pool>, token: Arc<Token>) -> Self {
        Self { pool, token }
    }

    /// Sends a request of the proxy. Returns the response, and the identifier of the request in the audit log
    /// of the API server.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or if the response does not begin.
    pub async fn send(&self, request: ProxyRequest) -> Result<(Response<Body>, String), UpstreamError> {
        let ProxyRequest { target, query, accept } = request;
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let target = format!("{target}{query}");
        let target =
            PathAndQuery::try_from(target).map_err(|error| UpstreamError::Connect(error.to_string()))?;
        let audit_id = format!("{:032x}", fastrand::u128(..));
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri(&self.pool, target);
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.token.header());
        headers.insert(ACCEPT, accept);
        headers.insert(USER_AGENT, AGENT);
        if let Ok(value) = HeaderValue::from_str(&audit_id) {
            headers.insert(AUDIT_ID, value);
        }
        let response = send(&self.pool, request, Some(&KeptBody::empty())).await?;
        Ok((response, audit_id))
    }
}
