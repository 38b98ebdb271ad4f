//! Applies and prunes the items of one replication, with few requests at the same time.

mod apply;
mod prune;

use std::collections::BTreeMap;

use capsule::api::v1beta2::{ProcessedItem, ReplicationSettings};
use futures::{StreamExt, stream};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::OwnerReference, jiff::Timestamp};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{DynamicObject, ObjectMeta},
};

use crate::{
    access::Access,
    item::{ItemKey, field_manager, release},
    item_error::ItemError,
    memo::Memo,
    plan::{ObjectPlan, Plan},
};

/// Limit of the objects of one replication that are written at the same time.
const MAX_CONCURRENT_OBJECTS: usize = 8;
/// Field manager of the patches that remove labels and owner references.
const MANAGER: &str = "projectcapsule.dev/replications";

/// Writes the objects of one replication.
pub(crate) struct Writer<'w> {
    pub(crate) access: Access<'w>,
    /// Kind, namespace, and name of the replication.
    pub(crate) replication: String,
    pub(crate) settings: ReplicationSettings,
    pub(crate) prunes: bool,
    pub(crate) owner: Option<OwnerReference>,
    pub(crate) memo: &'w Memo,
    pub(crate) now: Timestamp,
}

/// Items after a step, for the status.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) items: Vec<ProcessedItem>,
    /// Number of objects that failed.
    pub(crate) failed: usize,
    /// The first error, in the order of the objects.
    pub(crate) first_error: Option<String>,
}

impl Outcome {
    fn add(&mut self, items: Vec<ProcessedItem>) {
        let error = items.iter().find(|item| item.status.status == "False");
        if let Some(error) = error {
            self.failed += 1;
            self.first_error.get_or_insert_with(|| error.status.message.clone());
        }
        self.items.extend(items);
    }
}

impl Writer<'_> {
    /// Prunes the objects that the plan no longer describes. Returns the items that remain because
    /// their pruning failed.
    pub(crate) async fn prune(&self, plan: &Plan) -> Outcome {
        let pruned = plan.iter().filter(|(_, work)| work.items.is_empty());
        let pruned = pruned.map(|(id, work)| self.prune_object(id, &work.stale));
        collect(pruned.collect()).await
    }

    /// Applies the objects of the plan, and releases their stale items. Returns the items with their
    /// results.
    pub(crate) async fn apply(&self, plan: &Plan, before: &[ProcessedItem]) -> Outcome {
        let before: BTreeMap<_, _> = before.iter().map(|item| (unversioned(item), item)).collect();
        let applied = plan.iter().filter(|(_, work)| !work.items.is_empty());
        let applied = applied.map(|(id, work)| self.apply_object(id, work, &before));
        let outcome = collect(applied.collect()).await;
        let is_described = |work: &ObjectPlan| !work.items.is_empty();
        self.memo.retain(&self.replication, |id| plan.get(id).is_some_and(is_described));
        outcome
    }

    fn manager(&self, key: &ItemKey) -> String {
        field_manager(&self.replication, key)
    }

    /// Releases the fields of an item by applying nothing.
    async fn release(
        &self,
        api: &Api<DynamicObject>,
        key: &ItemKey,
        uid: &str,
    ) -> Result<ObjectMeta, ItemError> {
        let params = PatchParams::apply(&self.manager(key)).force();
        let patch = Patch::Apply(release(key, uid));
        let response = api.patch_metadata(&key.object.name, &params, &patch).await;
        let response = response.map_err(|error| ItemError::request("release", &key.object, &error))?;
        Ok(response.metadata)
    }
}

/// Returns the identity of an item without its version.
fn unversioned(item: &ProcessedItem) -> ItemKey {
    ItemKey { version: String::new(), ..ItemKey::of(item) }
}

async fn collect<F: Future<Output = Vec<ProcessedItem>>>(work: Vec<F>) -> Outcome {
    let mut results = stream::iter(work).buffered(MAX_CONCURRENT_OBJECTS);
    let mut outcome = Outcome::default();
    while let Some(items) = results.next().await {
        outcome.add(items);
    }
    outcome
}

/// Returns an item with an error.
fn failed_item(mut item: ProcessedItem, error: &ItemError) -> ProcessedItem {
    "False".clone_into(&mut item.status.status);
    item.status.message = error.message();
    item
}
