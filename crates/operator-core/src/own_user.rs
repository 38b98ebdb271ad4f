//! Who this process is to the API server.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::error::is_unavailable;

/// How long one attempt to learn the name may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The wait between two attempts to learn the name.
const RETRY: Duration = Duration::from_secs(1);

/// The user that this process is authenticated as. RequestInfo for once, when somebody needs to know. Cheap to clone; all
/// clones are one.
#[derive(Clone)]
pub struct OwnUser {
    client: Client,
    name: Arc<OnceCell<String>>,
}

impl OwnUser {
    /// Asks through `client`, which must be one of the process's own.
    pub fn new(client: Client) -> Self {
        Self { client, name: Arc::default() }
    }

    /// The name, `system:serviceaccount:ensemble-system:ensemble-manager` for example.
    ///
    /// # Errors
    /// When the API server does not answer. The next call asks again.
    pub async fn name(&self) -> Result<&str, kube::Error> {
        self.name.get_or_try_init(|| self.ask()).await.map(String::as_str)
    }

    /// Learns the name before anybody needs it. Retries while the API server is unavailable. If the API server refuses,
    /// returns all the same; then whoever needs the name asks again.
    pub async fn learn(&self) {
        loop {
            match timeout(PATIENCE, self.name()).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) if !is_unavailable(&error) => {
                    warn!(%error, "cannot learn the manager's own user name; reviews ask for it again");
                    return;
                }
                Ok(Err(error)) => debug!(%error, "cannot learn the manager's own user name yet"),
                Err(_) => debug!("cannot learn the manager's own user name yet: no answer in time"),
            }
            sleep(RETRY).await;
        }
    }

    async fn ask(&self) -> Result<String, kube::Error> {
        // Everybody who is authenticated may ask: the role system:basic-user says so.
        let reviews = Api::<SelfSubjectReview>::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }
}
