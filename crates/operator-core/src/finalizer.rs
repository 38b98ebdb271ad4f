//! Finalizers.
//!
//! Each change is one merge patch with the UID and the resource version of the object. If another
//! client changed the object, the API server returns a conflict, so no finalizer is lost.

use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde_json::{Value, json};

use crate::{
    error::{WriteError, is_not_found},
    kind::{Kind, ObjectKey, describe, is_deleting},
};

/// Returns whether the object has the finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}

/// Adds the finalizer if it is missing. Returns the updated object if a request was sent.
///
/// Does nothing for an object that is being deleted: the API server rejects new finalizers there.
///
/// # Errors
/// Returns [`WriteError::Api`] if the request fails, also with a conflict.
pub async fn add<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<Option<K>, WriteError> {
    if has(object, finalizer) || is_deleting(object) {
        return Ok(None);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    change(client, object, &finalizers, "add the finalizer to").await
}

/// Removes the finalizer if the object has it. Succeeds if the object no longer exists.
///
/// # Errors
/// Returns [`WriteError::Api`] if the request fails, also with a conflict.
pub async fn remove<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<(), WriteError> {
    if !has(object, finalizer) {
        return Ok(());
    }
    change(client, object, &others(object.meta(), finalizer), "remove the finalizer from").await.map(drop)
}

/// Returns all finalizers but this one.
fn others(meta: &ObjectMeta, finalizer: &str) -> Vec<String> {
    meta.finalizers.iter().flatten().filter(|name| *name != finalizer).cloned().collect()
}

/// Returns the merge patch that removes the finalizer from an object of any kind. Returns `None` if
/// the object does not have it.
pub fn removal_patch(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let has = meta.finalizers.iter().flatten().any(|name| name == finalizer);
    has.then(|| patch(meta, &others(meta, finalizer)))
}

/// Returns the merge patch with the UID and resource version as preconditions.
fn patch(meta: &ObjectMeta, finalizers: &[String]) -> Value {
    json!({ "metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }})
}

/// Writes the finalizers. Returns the updated object, or `None` if it no longer exists.
async fn change<K: Kind>(
    client: &Client,
    object: &K,
    finalizers: &[String],
    action: &'static str,
) -> Result<Option<K>, WriteError> {
    let key = ObjectKey::of(object);
    let patch = patch(object.meta(), finalizers);
    let api = K::api(client.clone(), key.namespace());
    match api.patch_metadata(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(response) => {
            let mut changed = object.clone();
            *changed.meta_mut() = response.metadata;
            changed.meta_mut().managed_fields = None;
            Ok(Some(changed))
        }
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(WriteError::Api { action, object: describe::<K>(&key), source }),
    }
}
