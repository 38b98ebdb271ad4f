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
    Controller, ControllerBuilder, Outcome, Setting, Values,
    events::Events,
    owner::Owner,
    pod::PodView,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
};

use crate::{
    api::Memcached,
    autoscalers::{Autoscaler, Autoscalers},
    build::DesiredCache,
    children::ChildObjects,
    error::Error,
    pods::Pods,
    reasons::DELETING,
    status::{Failure, Observation, status},
};

/// Finalizer that keeps a Memcached until the deletion Event is recorded.
pub const FINALIZER: &str = "cache.example.com/finalizer";

/// Image of memcached for objects that set no `spec.image`.
pub const IMAGE: Setting = Setting {
    flag: "memcached-image",
    env: "MEMCACHED_IMAGE",
    default: "memcached:1.4.36-alpine",
    values: Values::Any,
    help: "Default image for Memcached objects that set no spec.image",
};

/// Image of the exporter for objects that set no `spec.metrics.image`.
pub const EXPORTER_IMAGE: Setting = Setting {
    flag: "memcached-exporter-image",
    env: "MEMCACHED_EXPORTER_IMAGE",
    default: "prom/memcached-exporter:v0.17.0",
    values: Values::Any,
    help: "Default exporter image for Memcached objects that set spec.metrics but no spec.metrics.image",
};

/// Reconciles the child objects of each Memcached and reports its status.
pub struct MemcachedController {
    objects: ChildObjects,
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

    fn build(builder: &mut ControllerBuilder<'_, Memcached>) -> Self {
        Self {
            objects: ChildObjects::build(builder),
            pods: Pods::build(builder),
            autoscalers: Autoscalers::build(builder),
            status: builder.status(),
            events: builder.events(),
            image: builder.setting(&IMAGE),
            exporter_image: builder.setting(&EXPORTER_IMAGE),
        }
    }

    async fn reconcile(&self, cache: Arc<Memcached>) -> Result<Outcome, Error> {
        let owner = Owner::controller(cache.as_ref(), cache.metadata.namespace.as_deref())?;
        let deployment = self.objects.deployment(&cache, &owner);
        let desired = DesiredCache {
            cache: &cache,
            image: cache.spec.image.as_deref().unwrap_or(&self.image),
            exporter_image: &self.exporter_image,
            size: self.autoscalers.size(&cache, deployment.as_deref()),
        };
        let failures = Box::pin(self.objects.reconcile_children(&desired, &owner)).await;
        if failures.iter().any(|failure| matches!(failure, Error::NamespaceTerminating(_))) {
            return Ok(Outcome::AwaitChange);
        }
        let outcome = self.update_status(&desired, &owner, &failures).await;
        // Awaiting cleanup needs no retry: the informers report when the old objects are gone.
        failures
            .into_iter()
            .find(|failure| !matches!(failure, Error::AwaitingCleanup(_)))
            .map_or(outcome, Err)
    }

    async fn cleanup(&self, cache: Arc<Memcached>) -> Result<Outcome, Error> {
        let note = "the Deployment and the other child objects are deleted with the Memcached";
        self.events.normal(cache.object_ref(&()), DELETING, "Delete", note);
        Ok(Outcome::Done)
    }
}

impl MemcachedController {
    /// Computes the status from the cache and from the failures, and writes it if it changed.
    async fn update_status(
        &self,
        desired: &DesiredCache<'_>,
        owner: &Owner,
        failures: &[Error],
    ) -> Result<Outcome, Error> {
        let cache = desired.cache;
        let failures: Vec<_> = failures.iter().map(Failure::from_error).collect();
        let deployment = self.objects.deployment(cache, owner);
        // Without an owned Deployment, Pods with matching labels do not belong to the Memcached.
        let pods = deployment.as_ref().map(|_| self.pods.of(cache)).unwrap_or_default();
        let observed = Observation {
            size: &desired.size,
            pods: &pods,
            deployment: deployment.as_deref(),
            has_service: self.objects.has_service(cache, owner),
            failures: &failures,
        };
        let now = Timestamp::now();
        self.status.write(cache, |known| status(known, &observed, now)).await.map_err(Error::Status)
    }
}
