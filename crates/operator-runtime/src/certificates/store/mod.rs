//! The Secret that holds the certificates.

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use operator_core::{
    error::{is_already_exists, is_conflict, is_not_found},
    labels,
};

pub(super) mod contents;

use self::contents::Data;

/// Field manager of writes to the Secret.
const FIELD_MANAGER: &str = "ensemble";
/// Type of the Secret. The API server requires `tls.crt` and `tls.key` in it.
const TYPE: &str = "kubernetes.io/tls";

/// The Secret that all replicas share.
#[derive(Clone)]
pub(super) struct SharedSecret {
    api: Api<Secret>,
    namespace: String,
    name: String,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The Secret holds the data.
    Done,
    /// Another writer changed the Secret since it was read. Read it again.
    Conflict,
}

impl SharedSecret {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Reads the Secret from the API server.
    pub(super) async fn read(&self) -> kube::Result<Option<Secret>> {
        self.api.get_opt(&self.name).await
    }

    /// Writes `data` to the Secret that was read as `before`, and keeps its other keys.
    pub(super) async fn write(&self, before: Option<Secret>, data: Data) -> kube::Result<Written> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let answer = match before {
            None => self.api.create(&params, &self.new_secret(data)).await,
            Some(mut secret) => {
                // The resource version that was read makes a concurrent write a conflict.
                secret.data.get_or_insert_default().extend(data);
                secret.metadata.managed_fields = None;
                self.api.replace(&self.name, &params, &secret).await
            }
        };
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(error) if is_conflict(&error) || is_already_exists(&error) => Ok(Written::Conflict),
            Err(error) if is_not_found(&error) && self.is_about_the_secret(&error) => Ok(Written::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the Secret was not found, rather than its namespace.
    fn is_about_the_secret(&self, error: &kube::Error) -> bool {
        let details = operator_core::error::status(error).and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.name == self.name)
    }

    fn new_secret(&self, data: Data) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels::recommended("ensemble", "ensemble", "certificates")),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }
}

/// Returns the data of a Secret, which may not exist.
pub(super) fn data(secret: Option<&Secret>) -> &Data {
    static NOTHING: Data = Data::new();
    secret.and_then(|secret| secret.data.as_ref()).unwrap_or(&NOTHING)
}

impl fmt::Display for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
