//! Prunes one object: deletes it if a replication created it, and releases it otherwise.

use capsule::api::v1beta2::ProcessedItem;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{DynamicObject, ObjectMeta},
};
use operator_core::error::{is_conflict, is_not_found};

use super::{MANAGER, Writer, failed_item};
use crate::{
    access::AccessError,
    discovery::DiscoveryError,
    item::{ItemKey, ObjectId},
    item_error::ItemError,
    live::Live,
};

/// Number of attempts if the object changes between the read and the write.
const ATTEMPTS: usize = 3;

/// What happens to an object.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// Nothing, because it does not belong to the replication.
    Forget,
    /// The object is deleted.
    Delete,
    /// The fields of the items are removed.
    Release(Vec<ItemKey>),
    /// The object stays with its fields.
    Detach,
}

impl Writer<'_> {
    /// Prunes the items of an object. Returns those that remain because a request failed.
    pub(super) async fn prune_object(&self, id: &ObjectId, items: &[ProcessedItem]) -> Vec<ProcessedItem> {
        match self.try_prune(id, items).await {
            Ok(()) => Vec::new(),
            Err(error) => items.iter().map(|item| failed_item(item.clone(), &error)).collect(),
        }
    }

    async fn try_prune(&self, id: &ObjectId, items: &[ProcessedItem]) -> Result<(), ItemError> {
        let Some(key) = items.first().map(ItemKey::of) else { return Ok(()) };
        let api = match self.access.api(&key).await {
            Ok(api) => api,
            // The status is no proof: what is out of reach was never ours to delete, and a kind that
            // is gone has no objects.
            Err(
                AccessError::ClusterScoped { .. }
                | AccessError::OtherNamespace(_)
                | AccessError::Discovery(DiscoveryError::Unknown { .. }),
            ) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let found = api.get_metadata_opt(&id.name).await;
            let found = found.map_err(|error| ItemError::request("read", id, &error))?;
            let Some(meta) = found.map(|found| found.metadata) else { return Ok(()) };
            match self.act(&api, id, &meta, action(&meta, items, self.prunes, |key| self.manager(key))).await
            {
                Err(Conflict::Changed) if attempt < ATTEMPTS => {}
                Err(Conflict::Changed) => return Err(ItemError::Raced(id.clone())),
                Err(Conflict::Item(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn act(
        &self,
        api: &Api<DynamicObject>,
        id: &ObjectId,
        meta: &ObjectMeta,
        action: Action,
    ) -> Result<(), Conflict> {
        let result = match action {
            Action::Forget => Ok(()),
            Action::Delete => {
                let preconditions =
                    Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
                let params =
                    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
                api.delete(&id.name, &params).await.map(drop)
            }
            Action::Release(keys) => {
                let uid = meta.uid.clone().unwrap_or_default();
                for key in keys {
                    self.release(api, &key, &uid).await.map_err(Conflict::Item)?;
                }
                Ok(())
            }
            Action::Detach => match Live(meta).detachment(self.owner.as_ref()) {
                Some(patch) => {
                    let params =
                        PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                    api.patch_metadata(&id.name, &params, &Patch::Merge(patch)).await.map(drop)
                }
                None => Ok(()),
            },
        };
        match result {
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => Err(Conflict::Changed),
            other => other.map_err(|error| Conflict::Item(ItemError::request("prune", id, &error))),
        }
    }
}

/// Decides by the live object, because a crash can leave the status behind it. `manager` returns the
/// field manager of an item.
fn action(
    meta: &ObjectMeta,
    items: &[ProcessedItem],
    prunes: bool,
    manager: impl Fn(&ItemKey) -> String,
) -> Action {
    let live = Live(meta);
    let managers = live.replications();
    let keys = items.iter().map(ItemKey::of);
    let own: Vec<_> = keys.filter(|key| managers.contains(manager(key).as_str())).collect();
    let was_created = items.iter().any(|item| item.status.created);
    // Capsule applies with other field managers.
    let is_known = was_created && items.iter().any(|item| item.status.last_apply.is_some());
    let is_created = if own.is_empty() {
        live.is_created() && is_known
    } else {
        // The label can be missing because another program has removed it.
        live.is_created() || was_created
    };
    if own.is_empty() && !is_created {
        return Action::Forget;
    }
    if !prunes {
        return Action::Detach;
    }
    if is_created && own.len() == managers.len() { Action::Delete } else { Action::Release(own) }
}

/// Reason why an attempt failed.
enum Conflict {
    /// The object changed since it was read.
    Changed,
    Item(ItemError),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::item::FIELD_MANAGER_PREFIX;

    fn meta(labels: Value, managers: &[&str]) -> ObjectMeta {
        let entries: Vec<_> = managers.iter().map(|manager| json!({ "manager": manager })).collect();
        serde_json::from_value(json!({ "name": "x", "labels": labels, "managedFields": entries })).unwrap()
    }

    fn item(created: bool, last_apply: bool) -> ProcessedItem {
        let last_apply = last_apply.then_some("2026-01-01T00:00:00Z");
        let status =
            json!({ "type": "Ready", "status": "True", "created": created, "lastApply": last_apply });
        serde_json::from_value(json!({ "kind": "ConfigMap", "name": "x", "origin": "own", "status": status }))
            .unwrap()
    }

    #[test]
    fn only_objects_that_a_replication_created_and_nobody_else_uses_are_deleted() {
        let own = format!("{FIELD_MANAGER_PREFIX}own");
        let other = format!("{FIELD_MANAGER_PREFIX}other");
        let (own, other) = (own.as_str(), other.as_str());
        let created = || json!({ "projectcapsule.dev/created-by": "replications" });
        let decide = |labels: Value, managers: &[&str], item: ProcessedItem, prunes: bool| {
            let manager = |key: &ItemKey| format!("{FIELD_MANAGER_PREFIX}{}", key.origin);
            match action(&meta(labels, managers), &[item], prunes, manager) {
                Action::Forget => "forget",
                Action::Delete => "delete",
                Action::Release(_) => "release",
                Action::Detach => "detach",
            }
        };
        for (labels, managers, of_item, expected) in [
            (created(), vec![own], item(true, true), "delete"),
            (created(), vec![own, "kubectl"], item(true, true), "delete"),
            // A crash before the last status write.
            (created(), vec![own], item(false, false), "delete"),
            // Another program has removed the labels.
            (json!({}), vec![own], item(true, true), "delete"),
            // Capsule has applied it.
            (created(), vec!["capsule"], item(true, true), "delete"),
            (created(), vec![own, other], item(true, true), "release"),
            (created(), vec![other], item(true, true), "release"),
            (json!({}), vec![own, "kubectl"], item(false, true), "release"),
            // Never applied, recreated by others, or forged.
            (json!({}), vec!["kubectl"], item(true, true), "forget"),
            (created(), vec![other], item(false, false), "forget"),
            (created(), vec!["kubectl"], item(false, true), "forget"),
            (json!({}), vec![], item(false, false), "forget"),
        ] {
            assert_eq!(
                decide(labels.clone(), &managers, of_item.clone(), true),
                expected,
                "{labels} {managers:?}"
            );
            let kept = if expected == "forget" { "forget" } else { "detach" };
            assert_eq!(decide(labels.clone(), &managers, of_item, false), kept, "{labels} {managers:?}");
        }
    }
}
