//! Child objects of a Memcached: a Deployment, a Service, and by option a PodDisruptionBudget, a
//! NetworkPolicy, and a Service for metrics.
//!
//! [`ChildObjects::reconcile_child`] creates, updates, and deletes each of them.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ObjectReference, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use kube::{Resource, ResourceExt};
use operator_core::{
    ControllerBuilder, ObjectKey,
    events::Events,
    kind::{Kind, describe},
    owner::Owner,
    write::{Children, OperationResult},
};
use serde::Serialize;

use crate::{
    api::Memcached,
    build::{DesiredCache, budget, deployment, exporter, network, service},
    error::Error,
    reasons::{CREATED, DELETED, UPDATED},
};

/// Reads and writes the child objects of all Memcacheds.
pub(crate) struct ChildObjects {
    deployments: Children<Deployment>,
    services: Children<Service>,
    budgets: Children<PodDisruptionBudget>,
    policies: Children<NetworkPolicy>,
    events: Events,
}

impl ChildObjects {
    /// Starts the informers. A Memcached is reconciled when one of its child objects changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Memcached>) -> Self {
        Self {
            deployments: builder.owns(),
            services: builder.owns(),
            budgets: builder.owns(),
            policies: builder.owns(),
            events: builder.events(),
        }
    }

    /// Creates, updates, and deletes the child objects as the spec requires.
    ///
    /// A failure on one object does not block the others. Returns all failures.
    pub(crate) async fn reconcile_children(&self, desired: &DesiredCache<'_>, owner: &Owner) -> Vec<Error> {
        let cache = desired.cache;
        let (key, metrics_key) = (ObjectKey::of(cache), metrics_key(cache));
        let (metrics, network) = (cache.spec.metrics.as_ref(), cache.spec.network_policy.as_ref());

        let service = |object: &mut _| service::mutate(desired, object);
        let deployment = |object: &mut _| deployment::mutate(desired, object);
        let budget = budget::is_needed(desired).then_some(|object: &mut _| budget::mutate(desired, object));
        let policy = network.map(|network| move |object: &mut _| network::mutate(desired, network, object));
        let metrics_service =
            metrics.map(|metrics| move |object: &mut _| exporter::mutate_service(desired, metrics, object));

        let results = tokio::join!(
            self.reconcile_child(&self.services, cache, owner, &key, Some(service)),
            self.reconcile_child(&self.deployments, cache, owner, &key, Some(deployment)),
            self.reconcile_child(&self.budgets, cache, owner, &key, budget),
            self.reconcile_child(&self.policies, cache, owner, &key, policy),
            self.reconcile_child(&self.services, cache, owner, &metrics_key, metrics_service),
        );
        let results: [_; 5] = results.into();
        results.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the Deployment, if it exists and the Memcached owns it.
    pub(crate) fn deployment(&self, cache: &Memcached, owner: &Owner) -> Option<Arc<Deployment>> {
        self.deployments.owned(&ObjectKey::of(cache), owner)
    }

    /// Returns whether the Service exists and the Memcached owns it.
    pub(crate) fn has_service(&self, cache: &Memcached, owner: &Owner) -> bool {
        self.services.owned(&ObjectKey::of(cache), owner).is_some()
    }

    /// Creates or updates an object with `mutate`. Without `mutate`, deletes the object if the
    /// Memcached owns it.
    async fn reconcile_child<K>(
        &self,
        children: &Children<K>,
        cache: &Memcached,
        owner: &Owner,
        key: &ObjectKey,
        mutate: Option<impl Fn(&mut K) + Sync>,
    ) -> Result<(), Error>
    where
        K: Kind + Serialize + PartialEq + Default,
    {
        match children.reconcile(key, owner, mutate).await.map_err(Error::from_write)? {
            OperationResult::Created => self.record_event::<K>(cache, key, CREATED, "Create"),
            OperationResult::Updated => self.record_event::<K>(cache, key, UPDATED, "Update"),
            OperationResult::Deleted => self.record_event::<K>(cache, key, DELETED, "Delete"),
            OperationResult::Unchanged => {}
        }
        Ok(())
    }

    /// Records an Event. `reason` is the past participle of what was done to the object.
    fn record_event<K: Kind>(&self, cache: &Memcached, key: &ObjectKey, reason: &str, action: &str) {
        let note = format!("{} {}", describe::<K>(key), reason.to_lowercase());
        let object = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: key.namespace().map(str::to_owned),
            name: Some(key.name().to_owned()),
            ..ObjectReference::default()
        };
        self.events.normal_with_related(cache.object_ref(&()), object, reason, action, &note);
    }
}

/// Returns the key of the Service for metrics. The main Service has the key of the Memcached.
fn metrics_key(cache: &Memcached) -> ObjectKey {
    let name = format!("{}-metrics", cache.name_any());
    Service::key_within(cache.metadata.namespace.as_deref(), &name)
}
