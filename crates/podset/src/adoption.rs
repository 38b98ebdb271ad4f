//! Adopting orphans that carry the PodSet's labels, and releasing pods that no longer do.

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
    build::has_labels,
    error::Error,
    observe::{KnownPod, Pods, is_active},
};

/// Makes the owner references of pods agree with their labels, as a ReplicaSet does. Pods that are on their way out
/// stay whose they are.
pub(crate) async fn claim(client: &Client, pods: &Pods, set: &PodSet, owner: &Owner) -> Result<(), Error> {
    for pod in pods.owned(set).iter().filter(|pod| is_active(pod) && !has_labels(set, pod)) {
        let references = json!([{"$patch": "delete", "uid": uid(set)}]);
        write_references(pods, pod, references).await?;
    }
    let orphans: Vec<_> = pods.orphans(set).into_iter().filter(|pod| is_active(pod)).collect();
    if orphans.is_empty() || !is_there(client, set).await.map_err(Error::Claim)? {
        return Ok(());
    }
    let Owner::Reference(reference) = owner else { return Ok(()) };
    for pod in &orphans {
        write_references(pods, pod, json!([reference])).await?;
    }
    Ok(())
}

/// Whether the PodSet is really there, the same one, and not being deleted. Read live: a cache that is behind
/// would adopt pods for the dead, and replace those that go with them.
pub(crate) async fn is_there(client: &Client, set: &PodSet) -> Result<bool, WriteError> {
    let key = ObjectKey::of(set);
    let live = PodSet::api(client.clone(), key.namespace()).get_opt(key.name()).await;
    let live =
        live.map_err(|source| WriteError::Api { action: "read", object: describe::<PodSet>(&key), source })?;
    Ok(live.is_some_and(|live| uid(&live) == uid(set) && !is_deleting(&live)))
}

/// Changes the owner references of a pod that is as it was seen. One that somebody else has claimed or relabelled
/// meanwhile is a conflict, to be looked at again; one that is gone is none to change.
async fn write_references(pods: &Pods, pod: &KnownPod, references: Value) -> Result<(), Error> {
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": pod.uid(), "resourceVersion": pod.resource_version(), "ownerReferences": references,
    }}));
    match pods.writer.patch(&ObjectKey::of(pod.as_ref()), &patch, "change the owner references of").await {
        Err(error) if !error.answer().is_some_and(is_not_found) => Err(Error::Claim(error)),
        _ => Ok(()),
    }
}
