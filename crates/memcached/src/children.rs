//! The objects of a cache: a Deployment, a Service and a PodDisruptionBudget, all of its name.

use std::sync::Arc;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, policy::v1::PodDisruptionBudget};
use kube::Resource;
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
    build::{budget, deployment, service},
    error::Error,
    words::{CREATED, DELETED, UPDATED},
};

/// Reads and writes the objects of all caches.
pub(crate) struct Objects {
    deployments: Children<Deployment>,
    services: Children<Service>,
    budgets: Children<PodDisruptionBudget>,
    events: Events,
}

impl Objects {
    /// Asks for the informers, and for a reconcile of a cache when an object of it changes.
    pub(crate) fn wire(wiring: &mut Wiring<'_, Memcached>) -> Self {
        Self {
            deployments: wiring.owns(),
            services: wiring.owns(),
            budgets: wiring.owns(),
            events: wiring.events(),
        }
    }

    /// Makes the cache's objects what it asks. What stands in the way of one does not hold up the others.
    pub(crate) async fn make(&self, cache: &Memcached, owner: &Owner, image: &str) -> Vec<Error> {
        let (service, deployment, budget) = tokio::join!(
            self.make_one(&self.services, cache, owner, |object| service::shape(cache, object)),
            self.make_one(&self.deployments, cache, owner, |object| deployment::shape(cache, image, object)),
            self.make_budget(cache, owner),
        );
        [service, deployment, budget].into_iter().filter_map(Result::err).collect()
    }

    /// The cache's Deployment, if it is there and the cache's own.
    pub(crate) fn deployment(&self, cache: &Memcached, owner: &Owner) -> Option<Arc<Deployment>> {
        owned(&self.deployments, cache, owner)
    }

    /// Whether the cache's Service is there and its own.
    pub(crate) fn has_service(&self, cache: &Memcached, owner: &Owner) -> bool {
        owned(&self.services, cache, owner).is_some()
    }

    async fn make_budget(&self, cache: &Memcached, owner: &Owner) -> Result<(), Error> {
        if budget::is_wanted(cache) {
            return self.make_one(&self.budgets, cache, owner, |object| budget::shape(cache, object)).await;
        }
        let left = owned(&self.budgets, cache, owner).filter(|budget| !is_deleting(budget.as_ref()));
        if let Some(budget) = left {
            self.budgets.delete(&budget).await.map_err(Error::of_write)?;
            self.tell::<PodDisruptionBudget>(cache, DELETED, "Delete", "deleted");
        }
        Ok(())
    }

    async fn make_one<K>(
        &self,
        children: &Children<K>,
        cache: &Memcached,
        owner: &Owner,
        shape: impl Fn(&mut K) + Sync,
    ) -> Result<(), Error>
    where
        K: Kind + Serialize + PartialEq + Default,
    {
        match children.create_or_update(&ObjectKey::of(cache), owner, shape).await {
            Ok(Written::Created) => self.tell::<K>(cache, CREATED, "Create", "created"),
            Ok(Written::Updated) => self.tell::<K>(cache, UPDATED, "Update", "updated"),
            Ok(Written::Unchanged) => {}
            Err(error @ WriteError::NotOurs { .. }) if is_of_predecessor(children, cache, owner) => {
                return Err(Error::LeftOver(error));
            }
            Err(error) => return Err(Error::of_write(error)),
        }
        Ok(())
    }

    fn tell<K: Kind>(&self, cache: &Memcached, reason: &str, action: &str, done: &str) {
        let note = format!("{} {done}", describe::<K>(&ObjectKey::of(cache)));
        self.events.normal(cache.object_ref(&()), reason, action, &note);
    }
}

/// The object of the cache's name, if the informer knows it and it is the cache's own.
fn owned<K>(children: &Children<K>, cache: &Memcached, owner: &Owner) -> Option<Arc<K>>
where
    K: Kind + Serialize + PartialEq + Default,
{
    children.get(&ObjectKey::of(cache)).filter(|object| owner.owns(object.meta()))
}

/// Whether the object of the cache's name belongs to an earlier cache of the same name, which was deleted.
fn is_of_predecessor<K>(children: &Children<K>, cache: &Memcached, owner: &Owner) -> bool
where
    K: Kind + Serialize + PartialEq + Default,
{
    let key = ObjectKey::of(cache);
    children.get(&key).is_some_and(|object| {
        !owner.owns(object.meta()) && controller_key::<Memcached>(object.meta()) == Some(key)
    })
}
