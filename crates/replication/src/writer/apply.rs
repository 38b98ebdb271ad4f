//! Applies the items of one object with server-side apply.

use std::collections::{BTreeMap, BTreeSet};

use capsule::api::v1beta2::ProcessedItem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Error,
    api::{Patch, PatchParams},
    core::{DynamicObject, ObjectMeta, PartialObjectMeta},
};
use operator_core::error::{is_namespace_terminating, is_not_found, is_unknown_kind, status};

use super::{MANAGER, Writer, failed_item, unversioned};
use crate::{
    item::{Item, ItemKey, ObjectId, configuration},
    item_error::ItemError,
    live::Live,
    memo::{Applied, Fingerprint},
    plan::ObjectPlan,
};

type Before<'b> = BTreeMap<ItemKey, &'b ProcessedItem>;

/// The object while its items are applied.
struct Progress {
    meta: Option<ObjectMeta>,
    is_created: bool,
}

impl Progress {
    fn version(&self) -> Option<&str> {
        self.meta.as_ref().and_then(|meta| meta.resource_version.as_deref())
    }

    fn uid(&self) -> Option<&str> {
        self.meta.as_ref().and_then(|meta| meta.uid.as_deref())
    }
}

impl Writer<'_> {
    /// Applies all items of an object one after another, so that they merge. Returns no items if the
    /// namespace of the object is gone.
    pub(super) async fn apply_object(
        &self,
        id: &ObjectId,
        work: &ObjectPlan,
        before: &Before<'_>,
    ) -> Vec<ProcessedItem> {
        match self.start(id, work, before).await {
            Ok(progress) if self.is_current(id, work, &progress) => {
                let kept = |item: &Item| self.applied_item(&item.key, &progress, before, false);
                work.items.iter().map(kept).collect()
            }
            Ok(progress) => self.apply_items(id, work, before, progress).await,
            Err(error) => {
                work.items.iter().map(|item| failed_item(known(&item.key, before), &error)).collect()
            }
        }
    }

    /// Reads the object, and decides whether it may be written.
    async fn start(
        &self,
        id: &ObjectId,
        work: &ObjectPlan,
        before: &Before<'_>,
    ) -> Result<Progress, ItemError> {
        let Some(first) = work.items.first() else { return Ok(Progress { meta: None, is_created: true }) };
        let api = self.access.api(&first.key).await?;
        let found = api.get_metadata_opt(&id.name).await;
        let found = found.map_err(|error| ItemError::request("read", id, &error))?;
        let Some(PartialObjectMeta { metadata, .. }) = found else {
            return Ok(Progress { meta: None, is_created: true });
        };
        let live = Live(&metadata);
        if metadata.deletion_timestamp.is_some() {
            return Err(ItemError::Deleting(id.clone()));
        }
        if live.is_managed_by_tenant() {
            return Err(ItemError::ManagedByTenant(id.clone()));
        }
        let managers = live.replications();
        let is_own = |item: &Item| {
            known(&item.key, before).status.created && managers.contains(self.manager(&item.key).as_str())
        };
        // The field manager shows it too, if another program has removed the label.
        let is_created = live.is_created() || work.items.iter().any(is_own);
        if !is_created && !self.settings.adopt {
            return Err(ItemError::NotAdoptable(id.clone()));
        }
        Ok(Progress { meta: Some(metadata), is_created })
    }

    /// Returns whether the object is as this process has applied it.
    fn is_current(&self, id: &ObjectId, work: &ObjectPlan, progress: &Progress) -> bool {
        let applied = self.applied(work, progress);
        work.stale.is_empty()
            && applied.is_some_and(|applied| self.memo.is_current(&self.replication, id, &applied))
    }

    fn applied(&self, work: &ObjectPlan, progress: &Progress) -> Option<Applied> {
        let configurations = work.items.iter();
        let configurations =
            configurations.map(|item| configuration(item, progress.is_created, self.owner.as_ref(), None));
        let configurations: Vec<_> = configurations.collect();
        Some(Applied {
            fingerprint: Fingerprint::of(&configurations, self.settings.force),
            uid: progress.uid()?.to_owned(),
            resource_version: progress.version()?.to_owned(),
        })
    }

    async fn apply_items(
        &self,
        id: &ObjectId,
        work: &ObjectPlan,
        before: &Before<'_>,
        mut progress: Progress,
    ) -> Vec<ProcessedItem> {
        let has_legacy_label = progress.meta.as_ref().is_some_and(|meta| Live(meta).has_legacy_label());
        let stale: BTreeSet<_> = work.stale.iter().map(|item| self.manager(&ItemKey::of(item))).collect();
        let mut items = Vec::new();
        for item in &work.items {
            let version = progress.version().map(str::to_owned);
            match self.apply_item(item, &progress, &stale).await {
                Ok(meta) => {
                    progress.meta = Some(meta);
                    let is_changed = progress.version() != version.as_deref();
                    items.push(self.applied_item(&item.key, &progress, before, is_changed));
                }
                Err(Failure::NamespaceGone) => return Vec::new(),
                Err(Failure::Item(error)) => items.push(failed_item(known(&item.key, before), &error)),
            }
        }
        let is_complete = items.iter().all(|item| item.status.status == "True");
        if is_complete {
            items.extend(self.finish(id, work, &mut progress, has_legacy_label).await);
        } else {
            items.extend(work.stale.iter().cloned());
        }
        if items.iter().all(|item| item.status.status == "True")
            && let Some(applied) = self.applied(work, &progress)
        {
            self.memo.record(&self.replication, id, applied);
        }
        items
    }

    /// Applies one item.
    async fn apply_item(
        &self,
        item: &Item,
        progress: &Progress,
        stale: &BTreeSet<String>,
    ) -> Result<ObjectMeta, Failure> {
        let api = self.access.api(&item.key).await.map_err(ItemError::from)?;
        let body = configuration(item, progress.is_created, self.owner.as_ref(), progress.uid());
        let mut params = PatchParams::apply(&self.manager(&item.key));
        params.force = self.settings.force;
        let (name, patch) = (&item.key.object.name, Patch::Apply(&body));
        let mut response = api.patch_metadata(name, &params, &patch).await;
        if response.as_ref().is_err_and(|error| conflicts_only_with(error, stale)) {
            response = api.patch_metadata(name, &params.force(), &patch).await;
        }
        let meta = response.map_err(|error| self.failure(&item.key, &error))?.metadata;
        if progress.meta.is_none() && Live(&meta).has_other_managers() {
            return Err(self.undo_race(&api, item, &meta).await.into());
        }
        Ok(meta)
    }

    /// Releases an object that another program created between the read and the write. It must not
    /// count as created by the replication.
    async fn undo_race(&self, api: &Api<DynamicObject>, item: &Item, meta: &ObjectMeta) -> ItemError {
        let uid = meta.uid.clone().unwrap_or_default();
        match self.release(api, &item.key, &uid).await {
            Ok(_) => ItemError::Raced(item.key.object.clone()),
            Err(error) => error,
        }
    }

    /// Removes the label of older versions of Capsule, and releases the stale items. Returns the
    /// items that could not be released.
    async fn finish(
        &self,
        id: &ObjectId,
        work: &ObjectPlan,
        progress: &mut Progress,
        has_legacy_label: bool,
    ) -> Vec<ProcessedItem> {
        let (Some(first), Some(meta)) = (work.items.first(), progress.meta.clone()) else {
            return Vec::new();
        };
        let Ok(api) = self.access.api(&first.key).await else { return Vec::new() };
        if has_legacy_label {
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let patch = Patch::Merge(Live(&meta).without_legacy_label());
            match api.patch_metadata(&id.name, &params, &patch).await {
                Ok(response) => progress.meta = Some(response.metadata),
                Err(error) => {
                    let error = ItemError::request("remove the label of Capsule from", id, &error);
                    return vec![failed_item(first.key.to_processed(), &error)];
                }
            }
        }
        let mut failed = Vec::new();
        for item in &work.stale {
            let key = ItemKey::of(item);
            let is_manager = Live(&meta).replications().contains(self.manager(&key).as_str());
            let uid = meta.uid.clone().unwrap_or_default();
            if !is_manager {
                continue;
            }
            match self.release(&api, &key, &uid).await {
                Ok(meta) => progress.meta = Some(meta),
                Err(error) => failed.push(failed_item(item.clone(), &error)),
            }
        }
        failed
    }

    fn failure(&self, key: &ItemKey, error: &Error) -> Failure {
        if is_namespace_terminating(error) || is_namespace_missing(error) {
            return Failure::NamespaceGone;
        }
        if is_unknown_kind(error) {
            self.access.forget_kind(key);
        }
        Failure::Item(ItemError::request("apply", &key.object, error))
    }

    /// Returns the status of an item that is applied.
    fn applied_item(
        &self,
        key: &ItemKey,
        progress: &Progress,
        before: &Before<'_>,
        is_changed: bool,
    ) -> ProcessedItem {
        let mut item = known(key, before);
        "True".clone_into(&mut item.status.status);
        item.status.message.clear();
        item.status.created = progress.is_created;
        if is_changed || item.status.last_apply.is_none() {
            item.status.last_apply = Some(Time(self.now));
        }
        item
    }
}

/// Reason why an item was not applied.
enum Failure {
    NamespaceGone,
    Item(ItemError),
}

impl From<ItemError> for Failure {
    fn from(error: ItemError) -> Self {
        Self::Item(error)
    }
}

/// Returns the item as the status lists it.
fn known(key: &ItemKey, before: &Before<'_>) -> ProcessedItem {
    let mut item = key.to_processed();
    if let Some(before) = before.get(&unversioned(&item)) {
        item.status = before.status.clone();
    }
    item.status.cluster_scoped = key.object.namespace.is_empty();
    item
}

/// Returns whether every conflict is with one of these field managers.
fn conflicts_only_with(error: &Error, managers: &BTreeSet<String>) -> bool {
    let Some(status) = status(error).filter(|status| status.is_conflict()) else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let manager = |message: &str| message.split('"').nth(1).map(str::to_owned);
    !causes.is_empty()
        && causes.iter().all(|cause| manager(&cause.message).is_some_and(|name| managers.contains(&name)))
}

/// Returns whether an object could not be created because its namespace does not exist.
fn is_namespace_missing(error: &Error) -> bool {
    is_not_found(error)
        && status(error)
            .and_then(|status| status.details.as_ref())
            .is_some_and(|details| details.kind == "namespaces")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn response(value: Value) -> Error {
        Error::Api(Box::new(serde_json::from_value(value).unwrap()))
    }

    #[test]
    fn only_conflicts_with_stale_items_are_forced() {
        let conflict = |managers: &[&str]| {
            let causes: Vec<_> = managers
                .iter()
                .map(|manager| json!({ "reason": "FieldManagerConflict", "message": format!("conflict with \"{manager}\""), "field": ".data.a" }))
                .collect();
            response(
                json!({ "status": "Failure", "code": 409, "reason": "Conflict", "details": { "causes": causes } }),
            )
        };
        let stale = BTreeSet::from(["replication-1".to_owned(), "replication-2".to_owned()]);
        assert!(conflicts_only_with(&conflict(&["replication-1", "replication-2"]), &stale));
        assert!(!conflicts_only_with(&conflict(&["replication-1", "kubectl"]), &stale));
        assert!(!conflicts_only_with(&conflict(&[]), &stale));
        let forbidden = response(json!({ "status": "Failure", "code": 403, "reason": "Forbidden" }));
        assert!(!conflicts_only_with(&forbidden, &stale));
    }

    #[test]
    fn missing_namespace_is_told_from_missing_kind() {
        let missing = |kind: &str| {
            is_namespace_missing(&response(json!({
                "status": "Failure", "code": 404, "reason": "NotFound", "details": { "name": "a", "kind": kind },
            })))
        };
        assert!(missing("namespaces") && !missing("configmaps") && !missing(""));
    }
}
