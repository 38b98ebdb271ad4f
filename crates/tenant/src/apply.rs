//! What Tenants keep in their namespaces, of all kinds: made, repaired, and taken away again.

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
    api::{names::QUOTA_HARD_ANNOTATION, v1beta2::Tenant},
    children::Child,
    failure::{Failure, Failures},
    managed_objects::ManagedObjects,
    namespaces::Namespaces,
    plan::{Plan, Wanted},
    quota::Resources,
};

/// How many objects of one kind are deleted at once.
const AT_ONCE: usize = 8;

/// Reads and writes them.
pub(crate) struct Objects {
    limit_ranges: ManagedObjects<LimitRange>,
    network_policies: ManagedObjects<NetworkPolicy>,
    resource_quotas: ManagedObjects<ResourceQuota>,
    role_bindings: ManagedObjects<RoleBinding>,
}

impl Objects {
    /// Asks for the informers, and for a reconcile of a Tenant when an object of it changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        Self {
            limit_ranges: ManagedObjects::new(builder.owns()),
            network_policies: ManagedObjects::new(builder.owns()),
            resource_quotas: ManagedObjects::new(builder.children(concerned_by_quota)),
            role_bindings: ManagedObjects::new(builder.owns()),
        }
    }

    /// The `ResourceQuota`s by the UID of their Tenant.
    pub(crate) fn quotas(&self) -> Index<ResourceQuota, String> {
        self.resource_quotas.by_owner()
    }

    /// How much of the Tenant's quota with an index a namespace uses, as the API server counts it.
    pub(crate) fn used(&self, owner: &Owner, tenant: &str, namespace: &str, index: usize) -> Resources {
        let key = ObjectKey::namespaced(namespace, &format!("capsule-{tenant}-{index}"));
        let quota = self.resource_quotas.get(&key, owner);
        quota.and_then(|quota| quota.status.as_ref()?.used.clone()).unwrap_or_default()
    }

    /// Brings one namespace to what is wanted. What its people may do comes last, when the limits are there.
    pub(crate) async fn make(&self, owner: &Owner, wanted: &Wanted) -> Vec<Failure> {
        let (mut policies, ranges, quotas) = tokio::join!(
            make_all(&self.network_policies, owner, &wanted.network_policies),
            make_all(&self.limit_ranges, owner, &wanted.limit_ranges),
            make_all(&self.resource_quotas, owner, &wanted.resource_quotas),
        );
        policies.extend(ranges.into_iter().chain(quotas));
        let mut failures: Vec<_> = policies.into_iter().map(Failure::from).collect();
        for binding in &wanted.role_bindings {
            if let Err(error) = self.role_bindings.make(owner, binding).await {
                failures.push(of_binding(binding, error));
            }
        }
        failures.retain(|failure| !failure.is_of_leaving_namespace());
        failures
    }

    /// Takes away what the Tenant made and no longer wants, also in namespaces that have left it.
    pub(crate) async fn prune(&self, uid: &str, plan: &Plan, namespaces: &Namespaces) -> Failures {
        let (bindings, policies, ranges, quotas) = tokio::join!(
            prune(&self.role_bindings, uid, plan, |wanted| &wanted.role_bindings, namespaces),
            prune(&self.network_policies, uid, plan, |wanted| &wanted.network_policies, namespaces),
            prune(&self.limit_ranges, uid, plan, |wanted| &wanted.limit_ranges, namespaces),
            self.prune_quotas(uid, plan, namespaces),
        );
        let mut failures = bindings;
        for others in [policies, ranges, quotas] {
            failures.extend(others);
        }
        failures
    }

    async fn prune_quotas(&self, uid: &str, plan: &Plan, namespaces: &Namespaces) -> Failures {
        if plan.quotas_unknown {
            return Failures::default();
        }
        prune(&self.resource_quotas, uid, plan, |wanted| &wanted.resource_quotas, namespaces).await
    }
}

async fn make_all<K>(kept: &ManagedObjects<K>, owner: &Owner, wanted: &[K]) -> Vec<WriteError>
where
    K: Child + Kind + Serialize + PartialEq + Default,
{
    let made = join_all(wanted.iter().map(|object| kept.make(owner, object))).await;
    made.into_iter().filter_map(Result::err).collect()
}

async fn prune<K>(
    kept: &ManagedObjects<K>,
    uid: &str,
    plan: &Plan,
    of: fn(&Wanted) -> &Vec<K>,
    namespaces: &Namespaces,
) -> Failures
where
    K: Child + Kind + Serialize + PartialEq + Default,
{
    let mut surplus = kept.surplus(uid, &plan.keys(of));
    surplus.retain(|object| namespaces.is_in_use(&namespace_of(object.as_ref())));
    let work: Vec<_> = surplus.iter().map(|object| kept.delete(object)).collect();
    let deleted: Vec<_> = stream::iter(work).buffered(AT_ONCE).collect().await;
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

/// A role that does not exist is refused as one that cannot be found, unless the manager may give it.
fn of_binding(binding: &RoleBinding, error: WriteError) -> Failure {
    let refused = error.api_error().is_some_and(|answer| is_not_found(answer) || is_forbidden(answer));
    match error {
        source if refused => Failure::MayNotBind { role: binding.role_ref.name.clone(), source },
        error => error.into(),
    }
}

fn is_forbidden(answer: &kube::Error) -> bool {
    status(answer).is_some_and(kube::core::Status::is_forbidden)
}

/// The API server counts what is used after every change in a namespace; that concerns a Tenant only where
/// its namespaces share a quota.
fn concerned_by_quota(change: &Change<ResourceQuota>) -> Vec<ObjectKey> {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if !differs(old, new) => Vec::new(),
        _ => controllers_of::<ResourceQuota, Tenant>(change),
    }
}

fn differs(old: &ResourceQuota, new: &ResourceQuota) -> bool {
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
    use std::sync::Arc;

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

    fn concerns(old: Option<Arc<ResourceQuota>>, new: Option<Arc<ResourceQuota>>) -> bool {
        let change = Change { key: ObjectKey::namespaced("a", "q"), old, new };
        concerned_by_quota(&change).contains(&ObjectKey::cluster("oil"))
    }

    #[test]
    fn what_is_used_concerns_a_tenant_whose_namespaces_share_it() {
        let shared = |used: &str| {
            quota("quota.capsule.clastix.io/hard-pods", "9", json!({ "used": { "pods": used } }))
        };
        let alone = |used: &str| quota("note", "9", json!({ "used": { "pods": used } }));
        assert!(concerns(Some(shared("1")), Some(shared("2"))));
        assert!(!concerns(Some(alone("1")), Some(alone("2"))));
    }

    #[test]
    fn that_the_api_server_takes_note_of_a_limit_concerns_nobody() {
        let noted = |hard: &str| {
            quota("quota.capsule.clastix.io/hard-pods", "9", json!({ "hard": { "pods": hard } }))
        };
        assert!(!concerns(Some(noted("8")), Some(noted("9"))));
    }

    #[test]
    fn drift_and_the_end_concern_the_tenant() {
        let with = |pods: &str| quota("note", pods, json!({}));
        assert!(concerns(Some(with("9")), Some(with("99"))));
        assert!(concerns(Some(with("9")), Some(quota("other", "9", json!({})))));
        assert!(concerns(Some(with("9")), None));
        assert!(concerns(None, Some(with("9"))));
    }
}
