//! Reads and writes the Secrets of a cluster.
//!
//! They are read by their names, so the controller needs no right to list Secrets. It also cannot watch
//! them, so it reads them again from time to time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::PostParams};
use operator_core::{
    ObjectKey,
    error::is_already_exists,
    kind::describe,
    owner::{Owner, describe_controller},
    write::WriteError,
};

use crate::{
    api::PostgresCluster,
    build::secret::{Content, Purpose},
    children::key,
    error::Error,
    live_owner::LiveOwner,
};

/// Time after which the Secrets of a cluster are read again.
pub(crate) const RECHECK: Duration = Duration::from_mins(10);
/// The same while members are missing: a Pod does not start without its Secrets.
const RECHECK_INCOMPLETE: Duration = Duration::from_secs(10);

/// Returns the time after which the Secrets of a cluster are read again.
pub(crate) fn recheck(cluster: &PostgresCluster) -> Duration {
    let ready = cluster.status.as_ref().map_or(0, |status| status.ready_members);
    if ready < cluster.spec.size { RECHECK_INCOMPLETE } else { RECHECK }
}

/// The Secrets of all clusters.
#[derive(Clone)]
pub(crate) struct Secrets(Client);

impl Secrets {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// Reads a Secret of a user. Returns no content if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the Secret cannot be read.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Content, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.0.clone(), key.namespace().unwrap_or_default());
        let secret = secrets.get_opt(key.name()).await.map_err(|source| {
            let object = describe::<Secret>(key);
            Error::from_write(WriteError::Api { action: "read", object, source })
        })?;
        Ok(secret.and_then(|secret| secret.data).unwrap_or_default())
    }

    /// Reads a Secret, and writes the content that `next` returns for it. Returns its content.
    ///
    /// # Errors
    /// Returns an error if the Secret cannot be read or written, belongs to somebody else, is missing
    /// after the deletion of the cluster, or `next` fails.
    pub(crate) async fn reconcile(
        &self,
        owner: &LiveOwner<'_>,
        purpose: Purpose<'_>,
        next: impl Fn(Option<&Content>) -> Result<Option<Content>, Error>,
    ) -> Result<Content, Error> {
        let LiveOwner { cluster, owner: reference, .. } = owner;
        let key = key(cluster, &purpose.name(cluster));
        let secrets: Api<Secret> = Api::namespaced(self.0.clone(), &cluster.namespace().unwrap_or_default());
        let failed = |action| {
            let object = describe::<Secret>(&key);
            move |source| Error::from_write(WriteError::Api { action, object, source })
        };
        let Some(present) = secrets.get_opt(key.name()).await.map_err(failed("read"))? else {
            let content = next(None)?.unwrap_or_default();
            let mut secret = purpose.secret(cluster, content.clone());
            reference.set_on(&mut secret.metadata);
            owner.confirm().await?;
            return match secrets.create(&PostParams::default(), &secret).await {
                Ok(_) => Ok(content),
                Err(error) if is_already_exists(&error) => Err(Error::SecretChanged(key.to_string())),
                Err(error) => Err(failed("create")(error)),
            };
        };
        if !reference.owns(&present.metadata) {
            return Err(not_owned(&key, reference, &present));
        }
        let content = present.data.clone().unwrap_or_default();
        let Some(changed) = next(Some(&content))? else { return Ok(content) };
        let renewed = Secret { data: Some(changed.clone()), ..present };
        secrets.replace(key.name(), &PostParams::default(), &renewed).await.map_err(failed("renew"))?;
        Ok(changed)
    }
}

fn not_owned(key: &ObjectKey, owner: &Owner, secret: &Secret) -> Error {
    Error::from_write(WriteError::NotOwned {
        object: describe::<Secret>(key),
        holder: describe_controller(&secret.metadata),
        is_garbage: owner.succeeds_owner_of(&secret.metadata),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        api::fixture::cluster,
        live_owner::tests::{PATH, server, writer},
    };

    #[tokio::test]
    async fn no_secret_is_created_for_a_deleted_cluster() {
        let cached = cluster(&json!({}));
        let reference = Owner::controller(&cached, Some("shop")).unwrap();
        let (client, requests) = server(Vec::new());
        let clusters = writer(client.clone());
        let owner = LiveOwner::new(&cached, &reference, &clusters);
        let created = Secrets::new(client).reconcile(&owner, Purpose::Authority, |_| Ok(None)).await;
        assert!(matches!(created, Err(Error::Deleted(_))), "{created:?}");
        let secret = "GET /api/v1/namespaces/shop/secrets/db-ca".to_owned();
        assert_eq!(*requests.lock(), [secret, format!("GET {PATH}")]);
    }
}
