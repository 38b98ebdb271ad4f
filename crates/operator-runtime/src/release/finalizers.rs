//! Taking our finalizers off objects.

use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::ObjectMeta,
};
use operator_core::{
    ObjectKey, OwnedFinalizer,
    error::{is_conflict, is_not_found, is_undefined},
    finalizer::removal,
    write::retry_on_conflict,
};

use super::{
    Done, Report,
    error::{ReleaseError, advice},
};

/// How many objects are written at once.
const AT_ONCE: usize = 16;
/// How many objects are listed at once.
const PAGE: u32 = 500;

/// Takes the finalizer off all objects of a namespace, or of the cluster.
pub(super) async fn take_off(
    client: &Client,
    held: &OwnedFinalizer,
    namespace: Option<&str>,
    report: &mut Report,
) {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api(client, held, namespace).list_metadata(&params).await {
            Ok(page) => page,
            // A kind that the API server does not know has no objects.
            Err(error) if is_undefined(&error) => return,
            Err(source) => {
                let kind = held.resource.kind.clone();
                return report.note(Err(ReleaseError::List { kind, advice: advice(&source), source }));
            }
        };
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        let objects = page.items.into_iter().map(|object| object.metadata);
        let work: Vec<_> = objects
            .filter(|meta| removal(meta, held.finalizer).is_some())
            .map(|meta| take_off_one(client, held, meta))
            .collect();
        let mut done = stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some(outcome) = done.next().await {
            report.note(outcome);
        }
        if params.continue_token.is_none() {
            return;
        }
    }
}

async fn take_off_one(
    client: &Client,
    held: &OwnedFinalizer,
    seen: ObjectMeta,
) -> Result<Option<Done>, ReleaseError> {
    let key = ObjectKey::of_meta(&seen);
    let api = api(client, held, key.namespace());
    let attempt = async |round| {
        let now = if round == 0 {
            Some(seen.clone())
        } else {
            api.get_metadata_opt(key.name()).await?.map(|object| object.metadata)
        };
        let Some(patch) = now.and_then(|meta| removal(&meta, held.finalizer)) else { return Ok(false) };
        api.patch_metadata(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| true)
    };
    match retry_on_conflict(attempt, is_conflict).await {
        Ok(true) => Ok(Some(Done::Released {
            kind: held.resource.kind.clone(),
            object: key.to_string(),
            finalizer: held.finalizer,
        })),
        Ok(false) => Ok(None),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(ReleaseError::Finalizer {
            kind: held.resource.kind.clone(),
            object: key.to_string(),
            finalizer: held.finalizer,
            advice: advice(&source),
            source,
        }),
    }
}

fn api(client: &Client, held: &OwnedFinalizer, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &held.resource),
        None => Api::all_with(client.clone(), &held.resource),
    }
}
