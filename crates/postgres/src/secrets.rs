//! Reads and writes the Secrets of a cluster.
//!
//! They are read by their names, so the controller needs no right to list Secrets.

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
};

/// The Secrets of all clusters.
#[derive(Clone)]
pub(crate) struct Secrets(Client);

impl Secrets {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// Reads a Secret, and writes the content that `next` returns for it. Returns its content.
    ///
    /// # Errors
    /// Returns an error if the Secret cannot be read or written, belongs to somebody else, or `next`
    /// fails.
    pub(crate) async fn reconcile(
        &self,
        cluster: &PostgresCluster,
        owner: &Owner,
        purpose: Purpose,
        next: impl Fn(Option<&Content>) -> Result<Option<Content>, Error>,
    ) -> Result<Content, Error> {
        let key = key(cluster, &purpose.name(cluster));
        let secrets: Api<Secret> = Api::namespaced(self.0.clone(), &cluster.namespace().unwrap_or_default());
        let failed = |action| {
            let object = describe::<Secret>(&key);
            move |source| Error::from_write(WriteError::Api { action, object, source })
        };
        let Some(present) = secrets.get_opt(key.name()).await.map_err(failed("read"))? else {
            let content = next(None)?.unwrap_or_default();
            let mut secret = purpose.secret(cluster, content.clone());
            owner.set_on(&mut secret.metadata);
            return match secrets.create(&PostParams::default(), &secret).await {
                Ok(_) => Ok(content),
                Err(error) if is_already_exists(&error) => Err(Error::SecretChanged(key.to_string())),
                Err(error) => Err(failed("create")(error)),
            };
        };
        if !owner.owns(&present.metadata) {
            return Err(not_owned(&key, owner, &present));
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
