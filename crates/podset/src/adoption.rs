//! Adoption of orphans with matching labels, and release of Pods whose labels no longer match.

use kube::{Client, ResourceExt, api::Patch};
use operator_core::{
    ObjectKey,
    error::is_not_found,
    kind::{Kind, describe, is_deleting, uid},
    owner::Owner,
    write::WriteError,
};
use serde_json::{Value, json};

use crate::{
    api::PodSet,
    error::Error,
    pod_cache::{CachedPod, PodCache, is_active},
    pod_template::matches_selector,
};

/// Releases owned Pods whose labels no longer match, then adopts orphans whose labels do. Returns the Pods that the
/// PodSet owns.
///
/// Finished and terminating Pods keep their owner references.
pub(crate) async fn claim_pods(
    client: &Client,
    pods: &PodCache,
    set: &PodSet,
    owner: &Owner,
) -> Result<Vec<CachedPod>, Error> {
    let present = pods.owned(set);
    let foreign: Vec<_> =
        present.iter().filter(|pod| is_active(pod) && !matches_selector(set, pod)).collect();
    let orphans: Vec<_> = pods.orphans(set).into_iter().filter(|pod| is_active(pod)).collect();
    if foreign.is_empty() && orphans.is_empty() {
        return Ok(present);
    }
    for pod in foreign {
        let references = json!([{"$patch": "delete", "uid": uid(set)}]);
        patch_owner_references(pods, pod, references).await?;
    }
    if let Owner::Reference(reference) = owner
        && !orphans.is_empty()
        && can_adopt(client, set).await.map_err(Error::Adopt)?
    {
        for pod in &orphans {
            patch_owner_references(pods, pod, json!([reference])).await?;
        }
    }
    Ok(pods.owned(set))
}

/// Returns whether the PodSet still exists, with the same UID, and is not being deleted.
///
/// The PodSet is read live. With a stale cache, a deleted PodSet would adopt Pods and replace those
/// that the garbage collector deletes.
pub(crate) async fn can_adopt(client: &Client, set: &PodSet) -> Result<bool, WriteError> {
    let key = ObjectKey::of(set);
    let live = PodSet::api(client.clone(), key.namespace()).get_opt(key.name()).await;
    let live =
        live.map_err(|source| WriteError::Api { action: "read", object: describe::<PodSet>(&key), source })?;
    Ok(live.is_some_and(|live| uid(&live) == uid(set) && !is_deleting(&live)))
}

/// Patches the owner references of a Pod, if its UID and resource version are those of the cache.
///
/// A Pod that changed in the meantime is a conflict, which the next reconcile resolves. A Pod that
/// no longer exists is skipped.
async fn patch_owner_references(pods: &PodCache, pod: &CachedPod, references: Value) -> Result<(), Error> {
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": pod.uid(), "resourceVersion": pod.resource_version(), "ownerReferences": references,
    }}));
    match pods.writer.patch(&ObjectKey::of(pod.as_ref()), &patch, "change the owner references of").await {
        Err(error) if !error.api_error().is_some_and(is_not_found) => Err(Error::Adopt(error)),
        _ => Ok(()),
    }
}
