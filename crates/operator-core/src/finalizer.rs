//! Finalizers: holding an object back from deletion until its controller has cleaned up.
//!
//! Both functions are one merge patch that carries the UID and resource version it was computed from, so a
//! finalizer of somebody else is never lost to a race: the API server answers with a conflict instead.

use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    error::is_not_found,
    kind::{Kind, ObjectKey, describe, is_deleting},
    write::WriteError,
};

/// Whether the object holds the finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|held| held == finalizer)
}

/// Puts the finalizer on the object if it is missing. Returns whether anything was sent.
///
/// Never adds it to an object that is being deleted: the API server would refuse, and rightly.
pub async fn add<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<bool, WriteError> {
    if has(object, finalizer) || is_deleting(object) {
        return Ok(false);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    change(client, object, &finalizers, "add the finalizer to").await?;
    Ok(true)
}

/// Takes the finalizer off the object if it is there. Returns whether anything was sent. An object that is
/// gone is success.
pub async fn remove<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<bool, WriteError> {
    if !has(object, finalizer) {
        return Ok(false);
    }
    let finalizers: Vec<_> = object.finalizers().iter().filter(|held| *held != finalizer).cloned().collect();
    change(client, object, &finalizers, "remove the finalizer from").await?;
    Ok(true)
}

async fn change<K: Kind>(
    client: &Client,
    object: &K,
    finalizers: &[String],
    action: &'static str,
) -> Result<(), WriteError> {
    let key = ObjectKey::of(object);
    let patch = json!({ "metadata": {
        "uid": object.uid(),
        "resourceVersion": object.resource_version(),
        "finalizers": finalizers,
    }});
    let api = K::api(client.clone(), key.namespace());
    match api.patch_metadata(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(WriteError::Api { action, object: describe::<K>(&key), source }),
    }
}
