//! Removal of a finalizer from all objects of a kind.

use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::ObjectMeta,
};
use operator_core::{
    ObjectKey, OwnedFinalizer,
    error::{is_conflict, is_not_found, is_unknown_kind},
    finalizer::removal_patch,
    write::retry_on_conflict,
};

use super::{
    Change, Report,
    error::{CleanupError, advice},
};

/// Maximum number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 16;
/// Page size of a list request.
const PAGE_SIZE: u32 = 500;

/// Removes a finalizer from all objects of a namespace, or of the cluster.
pub(super) async fn remove_all(
    client: &Client,
    owned: &OwnedFinalizer,
    namespace: Option<&str>,
    report: &mut Report,
) {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = match api(client, owned, namespace).list_metadata(&params).await {
            Ok(page) => page,
            // A kind without a CustomResourceDefinition has no objects.
            Err(error) if is_unknown_kind(&error) => return,
            Err(source) => {
                let kind = owned.resource.kind.clone();
                return report.record(Err(CleanupError::List { kind, advice: advice(&source), source }));
            }
        };
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        let objects = page.items.into_iter().map(|object| object.metadata);
        let removals: Vec<_> = objects
            .filter(|meta| removal_patch(meta, owned.finalizer).is_some())
            .map(|meta| remove(client, owned, meta))
            .collect();
        let mut outcomes = stream::iter(removals).buffer_unordered(MAX_CONCURRENT_WRITES);
        while let Some(outcome) = outcomes.next().await {
            report.record(outcome);
        }
        if params.continue_token.is_none() {
            return;
        }
    }
}

/// Removes a finalizer from one object. Returns `None` if the object or its finalizer is gone.
async fn remove(
    client: &Client,
    owned: &OwnedFinalizer,
    listed: ObjectMeta,
) -> Result<Option<Change>, CleanupError> {
    let key = ObjectKey::of_meta(&listed);
    let api = api(client, owned, key.namespace());
    let attempt = async |round| {
        let current = if round == 0 {
            Some(listed.clone())
        } else {
            api.get_metadata_opt(key.name()).await?.map(|object| object.metadata)
        };
        let Some(patch) = current.and_then(|meta| removal_patch(&meta, owned.finalizer)) else {
            return Ok(false);
        };
        api.patch_metadata(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| true)
    };
    match retry_on_conflict(attempt, is_conflict).await {
        Ok(true) => Ok(Some(Change::FinalizerRemoval {
            kind: owned.resource.kind.clone(),
            object: key.to_string(),
            finalizer: owned.finalizer,
        })),
        Ok(false) => Ok(None),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(CleanupError::Finalizer {
            kind: owned.resource.kind.clone(),
            object: key.to_string(),
            finalizer: owned.finalizer,
            advice: advice(&source),
            source,
        }),
    }
}

fn api(client: &Client, owned: &OwnedFinalizer, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &owned.resource),
        None => Api::all_with(client.clone(), &owned.resource),
    }
}
