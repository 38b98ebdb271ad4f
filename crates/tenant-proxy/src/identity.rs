//! Who a user is, as the API server says.
//!
//! The proxy does not read tokens. It asks the API server with the credential of the user, impersonation
//! included, and so needs no right for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::body::to_bytes;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use parking_lot::Mutex;
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout},
};

use crate::{
    authentication::Authentication,
    credential::Credential,
    upstream::{AsUser, UpstreamError, UserRequest},
};

/// Time for which a response is used. The API server caches reviews of tokens as long.
const LIFETIME: Duration = Duration::from_secs(10);
/// Time in which the API server must respond.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most responses that are cached.
const MAX_ENTRIES: usize = 10_000;
/// Most bytes of a response.
const MAX_BYTES: usize = 1 << 20;
/// User name of requests without a credential.
const ANONYMOUS: &str = "system:anonymous";

/// Why it is not known who a user is. There is no view then.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The API server refused the credential, or the impersonation.
    #[error("the API server returned {0} for a review of the user")]
    Refused(StatusCode),
    /// The response names nobody.
    #[error("the API server named nobody")]
    Nobody,
    /// The response cannot be read.
    #[error("the response of the API server about the user cannot be read: {0}")]
    Unreadable(String),
    /// There was no response.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// Asks the API server who users are, and caches its responses for ten seconds.
pub struct Identities {
    api_server: AsUser,
    entries: Mutex<HashMap<Credential, Entry>>,
}

#[derive(Clone)]
struct Entry {
    asked: Instant,
    /// Requests of one user that come at once share the question.
    user: Arc<OnceCell<Arc<UserInfo>>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.asked.elapsed() < LIFETIME
    }
}

impl Identities {
    /// Returns an empty cache.
    pub fn new(api_server: AsUser) -> Self {
        Self { api_server, entries: Mutex::default() }
    }

    /// Returns from whom a request is.
    ///
    /// # Errors
    /// Returns an error if the API server does not name a user. Errors are not kept.
    pub async fn of(&self, authentication: &Authentication) -> Result<Arc<UserInfo>, IdentityError> {
        let credential = authentication.credential();
        let user = self.entry(credential).user;
        let result = user.get_or_try_init(|| self.ask(authentication)).await.cloned();
        if result.is_err() {
            let mut entries = self.entries.lock();
            // Another request can have asked again meanwhile.
            if entries.get(&credential).is_some_and(|entry| Arc::ptr_eq(&entry.user, &user)) {
                entries.remove(&credential);
            }
        }
        result
    }

    fn entry(&self, credential: Credential) -> Entry {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&credential).filter(|entry| entry.is_fresh()) {
            return entry.clone();
        }
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| entry.is_fresh());
        }
        let entry = Entry { asked: Instant::now(), user: Arc::default() };
        if entries.len() < MAX_ENTRIES {
            entries.insert(credential, entry.clone());
        }
        entry
    }

    async fn ask(&self, authentication: &Authentication) -> Result<Arc<UserInfo>, IdentityError> {
        let asked = self.api_server.send(UserRequest::self_review(authentication));
        let response = timeout(TIMEOUT, asked).await.map_err(|_| UpstreamError::Timeout(TIMEOUT))??;
        if response.status() != StatusCode::CREATED {
            return Err(IdentityError::Refused(response.status()));
        }
        let body = to_bytes(response.into_body(), MAX_BYTES).await;
        let body = body.map_err(|error| IdentityError::Unreadable(error.to_string()))?;
        let review: SelfSubjectReview =
            serde_json::from_slice(&body).map_err(|error| IdentityError::Unreadable(error.to_string()))?;
        let user = review.status.and_then(|status| status.user_info).unwrap_or_default();
        match user.username.as_deref() {
            None | Some("" | ANONYMOUS) => Err(IdentityError::Nobody),
            Some(_) => Ok(Arc::new(user)),
        }
    }
}
