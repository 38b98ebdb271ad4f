//! Creates, updates, and prunes the objects that Tenants manage in their namespaces.

use std::sync::Arc;

use capsule::api::{names::QUOTA_HARD_ANNOTATION, v1beta2::Tenant};
use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    builder::controllers_of,
    error::{is_not_found, status},
    informer::{Change, Index},
    kind::Kind,
    owner::Owner,
    write::WriteError,
};
use serde::Serialize;

use crate::{
    children::Child,
    failure::{Failure, Failures},
    managed_objects::ManagedObjects,
    namespaces::Namespaces,
    plan::{DesiredNamespace, Plan},
};

/// Limit of objects of one kind that are deleted concurrently.
const MAX_CONCURRENT_DELETES: usize = 8;

/// Objects of all kinds that Tenants manage in their namespaces.
pub(crate) struct NamespaceObjects {
    limit_ranges: ManagedObjects<LimitRange>,
    network_policies: ManagedObjects<NetworkPolicy>,
    resource_quotas: ManagedObjects<ResourceQuota>,
    role_bindings: ManagedObjects<RoleBinding>,
}

impl NamespaceObjects {
    /// Registers the informers. A change of an object requeues its Tenant.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        Self {
            limit_ranges: ManagedObjects::new(builder.owns()),
            network_policies: ManagedObjects::new(builder.owns()),
            resource_quotas: ManagedObjects::new(builder.children(tenants_of_quota)),
            role_bindings: ManagedObjects::new(builder.owns()),
        }
    }

    /// Returns the index of `ResourceQuota`s by the UID of their Tenant.
    pub(crate) fn quotas_by_owner(&self) -> Index<ResourceQuota, String> {
        self.resource_quotas.by_owner()
    }

    /// Returns the ResourceQuota of a namespace for the Tenant's quota with this key.
    pub(crate) fn quota(
        &self,
        owner: &Owner,
        tenant: &str,
        namespace: &str,
        key: &str,
    ) -> Option<Arc<ResourceQuota>> {
        let key = ObjectKey::namespaced(namespace, &format!("capsule-{tenant}-{key}"));
        self.resource_quotas.get(&key, owner)
    }

    /// Creates and updates the objects of one namespace.
    ///
    /// RoleBindings come last, so that all limits exist before users get permissions.
    pub(crate) async fn apply(&self, owner: &Owner, desired: &DesiredNamespace) -> Vec<Failure> {
        let (mut policies, ranges, quotas) = tokio::join!(
            apply_all(&self.network_policies, owner, &desired.network_policies),
            apply_all(&self.limit_ranges, owner, &desired.limit_ranges),
            apply_all(&self.resource_quotas, owner, &desired.resource_quotas),
        );
        policies.extend(ranges.into_iter().chain(quotas));
        let mut failures: Vec<_> = policies.into_iter().map(Failure::from).collect();
        for binding in &desired.role_bindings {
            if let Err(error) = self.role_bindings.apply(owner, binding).await {
                failures.push(binding_failure(binding, error));
            }
        }
        failures.retain(|failure| !failure.is_terminating_namespace());
        failures
    }

    /// Deletes the objects that the Tenant controls and that the plan does not contain. This
    /// includes objects in namespaces that have left the Tenant.
    pub(crate) async fn prune(&self, uid: &str, plan: &Plan, namespaces: &Namespaces) -> Failures {
        let (bindings, policies, ranges, quotas) = tokio::join!(
            prune(&self.role_bindings, uid, plan, |desired| &desired.role_bindings, namespaces),
            prune(&self.network_policies, uid, plan, |desired| &desired.network_policies, namespaces),
            prune(&self.limit_ranges, uid, plan, |desired| &desired.limit_ranges, namespaces),
            self.prune_quotas(uid, plan, namespaces),
        );
        let mut failures = bindings;
        for others in [policies, ranges, quotas] {
            failures.extend(others);
        }
        failures
    }

    async fn prune_quotas(&self, uid: &str, plan: &Plan, namespaces: &Namespaces) -> Failures {
        if plan.quotas_incomplete {
            return Failures::default();
        }
        prune(&self.resource_quotas, uid, plan, |desired| &desired.resource_quotas, namespaces).await
    }
}

async fn apply_all<K>(managed: &ManagedObjects<K>, owner: &Owner, desired: &[K]) -> Vec<WriteError>
where
    K: Child + Kind + Serialize + PartialEq + Default,
{
    let applied = join_all(desired.iter().map(|object| managed.apply(owner, object))).await;
    applied.into_iter().filter_map(Result::err).collect()
}

async fn prune<K>(
    managed: &ManagedObjects<K>,
    uid: &str,
    plan: &Plan,
    objects: fn(&DesiredNamespace) -> &Vec<K>,
    namespaces: &Namespaces,
) -> Failures
where
    K: Child + Kind + Serialize + PartialEq + Default,
{
    let mut surplus = managed.surplus(uid, &plan.keys(objects));
    surplus.retain(|object| namespaces.is_active(&namespace_of(object.as_ref())));
    let work: Vec<_> = surplus.iter().map(|object| managed.delete(object)).collect();
    let deleted: Vec<_> = stream::iter(work).buffered(MAX_CONCURRENT_DELETES).collect().await;
    let mut failures = Failures::default();
    for (object, deleted) in surplus.iter().zip(deleted) {
        if let Err(error) = deleted {
            failures.add_in(&namespace_of(object.as_ref()), vec![error.into()]);
        }
    }
    failures
}

fn namespace_of<K: Kind>(object: &K) -> String {
    object.meta().namespace.clone().unwrap_or_default()
}

/// Explains the `bind` permission if the API server denies the binding. The API server answers 404
/// if the role does not exist and the manager may not bind it.
fn binding_failure(binding: &RoleBinding, error: WriteError) -> Failure {
    let denied = error.api_error().is_some_and(|answer| is_not_found(answer) || is_forbidden(answer));
    match error {
        source if denied => Failure::BindForbidden { role: binding.role_ref.name.clone(), source },
        error => error.into(),
    }
}

fn is_forbidden(answer: &kube::Error) -> bool {
    status(answer).is_some_and(kube::core::Status::is_forbidden)
}

/// Returns the Tenant of a changed quota. The API server updates the usage after every change in a
/// namespace, which matters only if the namespaces of a Tenant share a quota.
fn tenants_of_quota(change: &Change<ResourceQuota>) -> Vec<ObjectKey> {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if !is_relevant_update(old, new) => Vec::new(),
        _ => controllers_of::<ResourceQuota, Tenant>(change),
    }
}

fn is_relevant_update(old: &ResourceQuota, new: &ResourceQuota) -> bool {
    let used = |quota: &ResourceQuota| quota.status.as_ref().and_then(|status| status.used.clone());
    let is_shared = new.annotations().keys().any(|key| key.starts_with(QUOTA_HARD_ANNOTATION));
    let (was, is) = (&old.metadata, &new.metadata);
    was.uid != is.uid
        || was.labels != is.labels
        || was.annotations != is.annotations
        || was.owner_references != is.owner_references
        || was.deletion_timestamp != is.deletion_timestamp
        || old.spec != new.spec
        || (is_shared && used(old) != used(new))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn quota(annotation: &str, pods: &str, status: Value) -> Arc<ResourceQuota> {
        let owner = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "oil", "uid": "1", "controller": true,
        });
        let quota = json!({
            "metadata": {
                "name": "q", "namespace": "a", "ownerReferences": [owner], "annotations": { annotation: "10" },
            },
            "spec": { "hard": { "pods": pods } },
            "status": status,
        });
        Arc::new(serde_json::from_value(quota).unwrap())
    }

    fn requeues(old: Option<Arc<ResourceQuota>>, new: Option<Arc<ResourceQuota>>) -> bool {
        let change = Change { key: ObjectKey::namespaced("a", "q"), old, new };
        tenants_of_quota(&change).contains(&ObjectKey::cluster("oil"))
    }

    #[test]
    fn usage_change_requeues_tenant_only_if_its_namespaces_share_the_quota() {
        let shared = |used: &str| {
            quota("quota.capsule.clastix.io/hard-pods", "9", json!({ "used": { "pods": used } }))
        };
        let separate = |used: &str| quota("note", "9", json!({ "used": { "pods": used } }));
        assert!(requeues(Some(shared("1")), Some(shared("2"))));
        assert!(!requeues(Some(separate("1")), Some(separate("2"))));
    }

    #[test]
    fn change_of_hard_limits_in_status_requeues_no_tenant() {
        let observed = |hard: &str| {
            quota("quota.capsule.clastix.io/hard-pods", "9", json!({ "hard": { "pods": hard } }))
        };
        assert!(!requeues(Some(observed("8")), Some(observed("9"))));
    }

    #[test]
    fn create_drift_and_delete_requeue_tenant() {
        let with = |pods: &str| quota("note", pods, json!({}));
        assert!(requeues(Some(with("9")), Some(with("99"))));
        assert!(requeues(Some(with("9")), Some(quota("other", "9", json!({})))));
        assert!(requeues(Some(with("9")), None));
        assert!(requeues(None, Some(with("9"))));
    }
}
