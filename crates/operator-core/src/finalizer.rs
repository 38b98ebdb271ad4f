//! Finalizers: holding an object back from deletion until its controller has cleaned up.
//!
//! Each change is one merge patch that carries the UID and resource version it was computed from, so a
//! finalizer of somebody else is never lost to a race: the API server answers with a conflict instead.

use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde_json::{Value, json};

use crate::{
    error::is_not_found,
    kind::{Kind, ObjectKey, describe, is_deleting},
    write::WriteError,
};

/// Whether the object holds the finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|held| held == finalizer)
}

/// Puts the finalizer on the object if it is missing. Returns the object as it is then, if anything was sent.
///
/// Never adds it to an object that is being deleted: the API server would refuse, and rightly.
pub async fn add<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<Option<K>, WriteError> {
    if has(object, finalizer) || is_deleting(object) {
        return Ok(None);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    change(client, object, &finalizers, "add the finalizer to").await
}

/// Takes the finalizer off the object if it is there. An object that is gone is success.
pub async fn remove<K: Kind>(client: &Client, object: &K, finalizer: &str) -> Result<(), WriteError> {
    if !has(object, finalizer) {
        return Ok(());
    }
    change(client, object, &others(object.meta(), finalizer), "remove the finalizer from").await.map(drop)
}

/// The finalizers that are there besides this one.
fn others(meta: &ObjectMeta, finalizer: &str) -> Vec<String> {
    meta.finalizers.iter().flatten().filter(|held| *held != finalizer).cloned().collect()
}

/// The merge patch that takes the finalizer off an object of whatever kind; nothing if it is not there.
pub fn removal(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let is_held = meta.finalizers.iter().flatten().any(|held| held == finalizer);
    is_held.then(|| patch(meta, &others(meta, finalizer)))
}

/// Whoever wrote in between has the API server answer with a conflict.
fn patch(meta: &ObjectMeta, finalizers: &[String]) -> Value {
    json!({ "metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }})
}

/// Writes the finalizers; the object as it is then, or nothing if it is gone.
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
        Ok(answer) => {
            let mut changed = object.clone();
            *changed.meta_mut() = answer.metadata;
            changed.meta_mut().managed_fields = None;
            Ok(Some(changed))
        }
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(WriteError::Api { action, object: describe::<K>(&key), source }),
    }
}
