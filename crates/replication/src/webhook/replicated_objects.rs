//! Denies updates and deletes of objects that a replication has created, except by its account.
//!
//! These pass: components of the cluster such as the garbage collector and the namespace
//! controller, everything in a terminating namespace, the manager, and administrators.

use std::sync::Arc;

use capsule::{
    api::{
        names::{CREATED_BY_LABEL, REPLICATIONS},
        v1beta2::CapsuleConfiguration,
    },
    lookups,
    match_conditions::{EXCLUDE_SYSTEM_MASTERS, EXCLUDE_SYSTEM_USERS},
    subjects::Requester,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::LabelSelector};
use operator_core::{
    ObjectKey, SelfSubject,
    admission::{
        BoxError, Caches, DELETE, Denial, Metadata, Request, UPDATE, Validator, Verdict, Webhook,
        any_cluster_scoped, any_namespaced,
    },
    informer::{Index, Informer, Selection},
    kind::is_deleting,
};

use crate::{
    item::{ItemKey, ObjectId},
    resource::Replication,
};

/// Excludes nodes, which a cluster needs to start.
const EXCLUDE_NODES: &str = "!(request.resource.group == '' && request.resource.resource == 'nodes')";

/// Returns the webhook. For an update, the API server matches the label on the old and the new
/// object, so removing the label does not bypass the webhook.
pub(super) fn webhook<K: Replication>() -> Webhook {
    let webhook = Webhook::validating::<ReplicatedObjectValidator<K>>("replicated-objects")
        .on(any_namespaced(UPDATE | DELETE));
    // A TenantResource cannot create cluster-scoped objects.
    let webhook = if K::NAMESPACED { webhook } else { webhook.on(any_cluster_scoped(UPDATE | DELETE)) };
    webhook
        .with_labels(LabelSelector {
            match_labels: Some([(CREATED_BY_LABEL.to_owned(), REPLICATIONS.to_owned())].into()),
            ..LabelSelector::default()
        })
        .match_condition("exclude-system-users", EXCLUDE_SYSTEM_USERS)
        .match_condition("exclude-system-masters", EXCLUDE_SYSTEM_MASTERS)
        .match_condition("exclude-nodes", EXCLUDE_NODES)
        .build()
}

struct ReplicatedObjectValidator<K> {
    created: Index<K, ObjectId>,
    namespaces: Informer<Namespace>,
    configurations: Informer<CapsuleConfiguration>,
    manager: SelfSubject,
}

impl<K: Replication> Validator for ReplicatedObjectValidator<K> {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            created: caches.informer::<K>(Selection::All).store().index(created_objects),
            namespaces: caches.informer(Selection::All),
            configurations: caches.informer(Selection::All),
            manager: caches.self_subject(),
        }
    }

    async fn validate(&self, request: &Request<Metadata>) -> Result<Verdict, BoxError> {
        let Some(id) = object_id(request) else { return Ok(Verdict::allow()) };
        let owners = self.created.get(&id);
        if owners.is_empty() || self.is_terminating(&id.namespace) || self.is_administrator(request) {
            return Ok(Verdict::allow());
        }
        if request.user_name() == self.manager.username().await? {
            return Ok(Verdict::allow());
        }
        Ok(authorize(request.user_name(), &id, &owners).into())
    }
}

impl<K> ReplicatedObjectValidator<K> {
    /// Returns whether the namespace is being deleted. Its deletion must not wait for replications.
    fn is_terminating(&self, namespace: &str) -> bool {
        let namespace = self.namespaces.store().get(&ObjectKey::cluster(namespace));
        namespace.is_some_and(|namespace| is_deleting(namespace.as_ref()))
    }

    fn is_administrator(&self, request: &Request<Metadata>) -> bool {
        let administrators = lookups::configuration(self.configurations.store()).administrators;
        Requester::of(&request.user).subjects().any(|subject| administrators.contains(&subject))
    }
}

/// Allows the accounts of the replications that have created the object.
fn authorize<K: Replication>(user: &str, id: &ObjectId, owners: &[Arc<K>]) -> Result<(), Denial> {
    let is_account = |owner: &Arc<K>| {
        owner.common_status().service_account.is_some_and(|account| account.user_name() == user)
    };
    if owners.iter().any(is_account) {
        return Ok(());
    }
    let scope = if K::NAMESPACED { "tenant" } else { "global" };
    let owner = owners.first().map(|owner| ObjectKey::of(owner.as_ref()).to_string()).unwrap_or_default();
    Err(Denial::forbidden(format!(
        "{id} is managed by a {scope} capsule replication {owner}; change the {} instead",
        K::kind(&())
    )))
}

/// Returns the objects that a replication has created.
fn created_objects<K: Replication>(object: &K) -> Vec<ObjectId> {
    let items = object.common_status().processed_items;
    let mut ids: Vec<_> =
        items.iter().filter(|item| item.status.created).map(|item| ItemKey::of(item).object).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Returns the object of a request.
fn object_id(request: &Request<Metadata>) -> Option<ObjectId> {
    let object = request.states().next()?;
    let is_namespace = request.group.is_empty() && request.resource == "namespaces";
    let namespace = request.namespace.clone().filter(|_| !is_namespace).unwrap_or_default();
    Some(ObjectId {
        group: request.group.clone(),
        kind: object.kind.clone(),
        namespace,
        name: request.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::{GlobalTenantResource, TenantResource};
    use serde_json::{Value, json};

    use super::*;

    fn status() -> Value {
        let item = |name: &str, created: bool| {
            json!({
                "tenant": "oil", "origin": "0/raw-0", "version": "v1", "kind": "ConfigMap", "name": name,
                "namespace": "oil-dev", "status": { "type": "Ready", "status": "True", "created": created },
            })
        };
        json!({
            "size": 2, "processedItems": [item("a", true), item("b", false)],
            "serviceAccount": { "name": "replicator", "namespace": "oil-dev" },
        })
    }

    fn id(name: &str) -> ObjectId {
        ObjectId {
            group: String::new(),
            kind: "ConfigMap".into(),
            namespace: "oil-dev".into(),
            name: name.into(),
        }
    }

    fn denial<K: Replication>(metadata: Value, user: &str) -> String {
        let object: K = serde_json::from_value(
            json!({ "metadata": metadata, "spec": { "resources": [] }, "status": status() }),
        )
        .unwrap();
        assert_eq!(created_objects(&object), [id("a")], "adopted objects are free");
        authorize(user, &id("a"), &[Arc::new(object)]).err().map_or_else(String::new, |denial| denial.message)
    }

    #[test]
    fn only_the_account_of_the_replication_passes() {
        let local =
            |user: &str| denial::<TenantResource>(json!({ "name": "r", "namespace": "oil-dev" }), user);
        assert_eq!(local("system:serviceaccount:oil-dev:replicator"), "");
        for user in
            ["alice", "system:serviceaccount:gas-dev:replicator", "system:serviceaccount:oil-dev:other"]
        {
            let message = local(user);
            assert!(message.contains("managed by a tenant capsule replication oil-dev/r"), "{message}");
            assert!(message.starts_with("ConfigMap oil-dev/a"), "{message}");
        }
        let global = denial::<GlobalTenantResource>(json!({ "name": "g" }), "alice");
        assert!(global.contains("managed by a global capsule replication g"), "{global}");
    }
}
