//! The objects of a cache: a Deployment, a Service and, where they are asked for, a PodDisruptionBudget, a
//! NetworkPolicy and a Service of metrics. Each is made, kept and taken away by one function, [`Objects::keep`].

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ObjectReference, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use kube::{Resource, ResourceExt};
use operator_core::{
    ObjectKey, Wiring,
    events::Events,
    kind::{Kind, describe, is_deleting},
    owner::Owner,
    wiring::controller_key,
    write::{Children, WriteError, Written},
};
use serde::Serialize;

use crate::{
    api::Memcached,
    build::{Asked, budget, deployment, exporter, network, service},
    error::Error,
    reasons::{CREATED, DELETED, UPDATED},
};

/// Reads and writes the objects of all caches.
pub(crate) struct Objects {
    deployments: Children<Deployment>,
    services: Children<Service>,
    budgets: Children<PodDisruptionBudget>,
    policies: Children<NetworkPolicy>,
    events: Events,
}

impl Objects {
    /// Asks for the informers, and for a reconcile of a cache when an object of it changes.
    pub(crate) fn wire(wiring: &mut Wiring<'_, Memcached>) -> Self {
        Self {
            deployments: wiring.owns(),
            services: wiring.owns(),
            budgets: wiring.owns(),
            policies: wiring.owns(),
            events: wiring.events(),
        }
    }

    /// Makes the cache's objects what it asks. What stands in the way of one does not hold up the others.
    pub(crate) async fn make(&self, asked: &Asked<'_>, owner: &Owner) -> Vec<Error> {
        let cache = asked.cache;
        let (key, metrics_key) = (ObjectKey::of(cache), metrics_key(cache));
        let (metrics, network) = (cache.spec.metrics.as_ref(), cache.spec.network_policy.as_ref());

        let service = |object: &mut _| service::shape(asked, object);
        let deployment = |object: &mut _| deployment::shape(asked, object);
        let budget = budget::is_wanted(asked).then_some(|object: &mut _| budget::shape(asked, object));
        let policy = network.map(|network| move |object: &mut _| network::shape(asked, network, object));
        let of_metrics =
            metrics.map(|metrics| move |object: &mut _| exporter::shape_service(asked, metrics, object));

        let results = tokio::join!(
            self.keep(&self.services, cache, owner, &key, Some(service)),
            self.keep(&self.deployments, cache, owner, &key, Some(deployment)),
            self.keep(&self.budgets, cache, owner, &key, budget),
            self.keep(&self.policies, cache, owner, &key, policy),
            self.keep(&self.services, cache, owner, &metrics_key, of_metrics),
        );
        let results: [_; 5] = results.into();
        results.into_iter().filter_map(Result::err).collect()
    }

    /// The cache's Deployment, if it is there and the cache's own.
    pub(crate) fn deployment(&self, cache: &Memcached, owner: &Owner) -> Option<Arc<Deployment>> {
        owned(&self.deployments, &ObjectKey::of(cache), owner)
    }

    /// Whether the cache's Service is there and its own.
    pub(crate) fn has_service(&self, cache: &Memcached, owner: &Owner) -> bool {
        owned(&self.services, &ObjectKey::of(cache), owner).is_some()
    }

    /// Makes an object what `shape` says. Without a shape it is not asked for, and if there is one of the cache's own,
    /// that is deleted.
    async fn keep<K>(
        &self,
        children: &Children<K>,
        cache: &Memcached,
        owner: &Owner,
        key: &ObjectKey,
        shape: Option<impl Fn(&mut K) + Sync>,
    ) -> Result<(), Error>
    where
        K: Kind + Serialize + PartialEq + Default,
    {
        let Some(shape) = shape else {
            return self.remove(children, cache, owner, key).await;
        };
        match children.create_or_update(key, owner, shape).await {
            Ok(Written::Created) => self.tell::<K>(cache, key, CREATED, "Create"),
            Ok(Written::Updated) => self.tell::<K>(cache, key, UPDATED, "Update"),
            Ok(Written::Unchanged) => {}
            Err(error @ WriteError::NotOurs { .. }) if is_of_predecessor(children, cache, owner, key) => {
                return Err(Error::LeftOver(error));
            }
            Err(error) => return Err(Error::of_write(error)),
        }
        Ok(())
    }

    async fn remove<K>(
        &self,
        children: &Children<K>,
        cache: &Memcached,
        owner: &Owner,
        key: &ObjectKey,
    ) -> Result<(), Error>
    where
        K: Kind + Serialize + PartialEq + Default,
    {
        let left = owned(children, key, owner).filter(|object| !is_deleting(object.as_ref()));
        if let Some(object) = left {
            children.delete(&object).await.map_err(Error::of_write)?;
            self.tell::<K>(cache, key, DELETED, "Delete");
        }
        Ok(())
    }

    /// `reason` says in the past tense what was done to the object.
    fn tell<K: Kind>(&self, cache: &Memcached, key: &ObjectKey, reason: &str, action: &str) {
        let note = format!("{} {}", describe::<K>(key), reason.to_lowercase());
        let object = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: key.namespace().map(str::to_owned),
            name: Some(key.name().to_owned()),
            ..ObjectReference::default()
        };
        self.events.normal_to(cache.object_ref(&()), object, reason, action, &note);
    }
}

/// The key of the Service of metrics. A cache's own Service has the cache's.
fn metrics_key(cache: &Memcached) -> ObjectKey {
    let name = format!("{}-metrics", cache.name_any());
    Service::key_within(cache.metadata.namespace.as_deref(), &name)
}

/// The object of the key, if the informer knows it and it is the owner's own.
fn owned<K>(children: &Children<K>, key: &ObjectKey, owner: &Owner) -> Option<Arc<K>>
where
    K: Kind + Serialize + PartialEq + Default,
{
    children.get(key).filter(|object| owner.owns(object.meta()))
}

/// Whether the object of the key belongs to an earlier cache of the same name, which was deleted.
fn is_of_predecessor<K>(children: &Children<K>, cache: &Memcached, owner: &Owner, key: &ObjectKey) -> bool
where
    K: Kind + Serialize + PartialEq + Default,
{
    children.get(key).is_some_and(|object| {
        !owner.owns(object.meta()) && controller_key::<Memcached>(object.meta()) == Some(ObjectKey::of(cache))
    })
}
