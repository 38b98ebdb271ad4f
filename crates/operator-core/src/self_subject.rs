//! The user that the process is authenticated as.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::error::is_unavailable;

/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Delay between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// The user that the process is authenticated as, from a `SelfSubjectReview`.
///
/// The first successful request is cached. Cheap to clone; all clones share the cache.
#[derive(Clone)]
pub struct SelfSubject {
    client: Client,
    name: Arc<OnceCell<String>>,
}

impl SelfSubject {
    /// Returns the user of `client`. Sends no request.
    pub fn new(client: Client) -> Self {
        Self { client, name: Arc::default() }
    }

    /// Returns the user name, such as `system:serviceaccount:ensemble-system:ensemble-manager`.
    ///
    /// # Errors
    /// Returns an error if the request fails. The next call sends it again.
    pub async fn username(&self) -> Result<&str, kube::Error> {
        self.name.get_or_try_init(|| self.request()).await.map(String::as_str)
    }

    /// Fetches the user name in advance. Retries while the API server is unavailable.
    ///
    /// Returns also if the API server denies the request; then [`SelfSubject::username`] requests
    /// it again.
    pub async fn prefetch(&self) {
        loop {
            match timeout(TIMEOUT, self.username()).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) if !is_unavailable(&error) => {
                    warn!(%error, "cannot get the user name of the manager; reviews request it again");
                    return;
                }
                Ok(Err(error)) => debug!(%error, "cannot get the user name of the manager; retrying"),
                Err(_) => debug!("timed out while getting the user name of the manager; retrying"),
            }
            sleep(RETRY).await;
        }
    }

    async fn request(&self) -> Result<String, kube::Error> {
        // The ClusterRole system:basic-user allows it for every authenticated user.
        let reviews = Api::<SelfSubjectReview>::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }
}
