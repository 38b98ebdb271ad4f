//! The Memcached controller.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::Resource;
use operator_core::{
    Controller, Outcome, Setting, Wiring,
    events::Events,
    owner::Owner,
    pod::PodView,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
};

use crate::{
    api::Memcached,
    autoscalers::{Autoscaler, Autoscalers},
    build::Asked,
    children::Objects,
    error::Error,
    pods::Pods,
    reasons::DELETING,
    status::{Seen, Trouble, status},
};

/// Holds a cache back until its deletion has been told.
pub const FINALIZER: &str = "cache.example.com/finalizer";

/// The image of caches that name none.
pub const IMAGE: Setting = Setting {
    flag: "memcached-image",
    env: "MEMCACHED_IMAGE",
    default: "memcached:1.4.36-alpine",
    values: &[],
    help: "Image of the pods of a Memcached that names none",
};

/// The image of exporters of caches that name none.
pub const EXPORTER_IMAGE: Setting = Setting {
    flag: "memcached-exporter-image",
    env: "MEMCACHED_EXPORTER_IMAGE",
    default: "prom/memcached-exporter:v0.17.0",
    values: &[],
    help: "Image of the exporter in the pods of a Memcached that asks for metrics and names none",
};

/// Keeps the objects of each cache, and says how it is.
pub struct MemcachedController {
    objects: Objects,
    pods: Pods,
    autoscalers: Autoscalers,
    status: StatusWriter<Memcached>,
    events: Events,
    image: String,
    exporter_image: String,
}

impl Controller for MemcachedController {
    const NAME: &'static str = "memcached";
    const FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = Memcached;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<Memcached>(GET | LIST | WATCH | PATCH),
            rule::<Memcached>(UPDATE).subresource("status"),
            // For `blockOwnerDeletion`, where OwnerReferencesPermissionEnforcement is on.
            rule::<Memcached>(UPDATE).subresource("finalizers"),
            rule::<Deployment>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<Service>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
            rule::<PodDisruptionBudget>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
            rule::<NetworkPolicy>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
            rule::<PodView>(LIST | WATCH),
            rule::<Autoscaler>(LIST | WATCH),
        ]
    }

    fn settings() -> &'static [Setting] {
        &[IMAGE, EXPORTER_IMAGE]
    }

    fn wire(wiring: &mut Wiring<'_, Memcached>) -> Self {
        Self {
            objects: Objects::wire(wiring),
            pods: Pods::wire(wiring),
            autoscalers: Autoscalers::wire(wiring),
            status: wiring.status(),
            events: wiring.events(),
            image: wiring.setting(&IMAGE),
            exporter_image: wiring.setting(&EXPORTER_IMAGE),
        }
    }

    async fn reconcile(&self, cache: Arc<Memcached>) -> Result<Outcome, Error> {
        let owner = Owner::controller(cache.as_ref(), cache.metadata.namespace.as_deref())?;
        let deployment = self.objects.deployment(&cache, &owner);
        let asked = Asked {
            cache: &cache,
            image: cache.spec.image.as_deref().unwrap_or(&self.image),
            exporter_image: &self.exporter_image,
            size: self.autoscalers.size(&cache, deployment.as_deref()),
        };
        let failures = Box::pin(self.objects.make(&asked, &owner)).await;
        if failures.iter().any(|failure| matches!(failure, Error::NamespaceTerminating(_))) {
            return Ok(Outcome::AwaitChange);
        }
        let told = self.tell(&asked, &owner, &failures).await;
        // The informers tell when what a deleted cache has left is gone.
        failures.into_iter().find(|failure| !matches!(failure, Error::LeftOver(_))).map_or(told, Err)
    }

    async fn cleanup(&self, cache: Arc<Memcached>) -> Result<Outcome, Error> {
        let note = "the Deployment and whatever else was made for it go with the Memcached";
        self.events.normal(cache.object_ref(&()), DELETING, "Delete", note);
        Ok(Outcome::Done)
    }
}

impl MemcachedController {
    /// Writes the status that follows from what is seen now and from what failed.
    async fn tell(&self, asked: &Asked<'_>, owner: &Owner, failures: &[Error]) -> Result<Outcome, Error> {
        let cache = asked.cache;
        let troubles: Vec<_> = failures.iter().map(Trouble::of).collect();
        let deployment = self.objects.deployment(cache, owner);
        // Without a Deployment of its own, what carries the cache's labels is not the cache's.
        let pods = deployment.as_ref().map(|_| self.pods.of(cache)).unwrap_or_default();
        let seen = Seen {
            size: &asked.size,
            pods: &pods,
            deployment: deployment.as_deref(),
            has_service: self.objects.has_service(cache, owner),
            troubles: &troubles,
        };
        let now = Timestamp::now();
        self.status.write(cache, |known| status(known, &seen, now)).await.map_err(Error::Status)
    }
}
