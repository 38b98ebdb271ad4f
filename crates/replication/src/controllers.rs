//! The two controllers.

use std::sync::Arc;

use capsule::{
    Tenant,
    api::v1beta2::{CapsuleConfiguration, GlobalTenantResource, TenantResource},
};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use operator_core::{
    Controller, ControllerBuilder, Outcome,
    admission::Webhook,
    environment::Setting,
    metrics::Gauge,
    rbac::{GET, IMPERSONATE, LIST, PATCH, Rule, UPDATE, WATCH, rule},
};

use crate::{
    FINALIZER,
    error::Error,
    identity::ACT_AS_MANAGER,
    metrics::{Measured, readings},
    reconcile::Reconciler,
    resource::Replication,
    webhook,
};

/// Replicates the objects of TenantResources.
pub struct TenantResourceController(Reconciler<TenantResource>);

/// Replicates the objects of GlobalTenantResources.
pub struct GlobalTenantResourceController(Reconciler<GlobalTenantResource>);

/// Returns the permissions of a controller. It has none on the replicated objects: the accounts that
/// it acts as have them.
fn rules<K: Replication>() -> Vec<Rule> {
    vec![
        rule::<K>(GET | LIST | WATCH | PATCH),
        rule::<K>(UPDATE).subresource("status"),
        rule::<Tenant>(LIST | WATCH),
        rule::<Namespace>(LIST | WATCH),
        rule::<CapsuleConfiguration>(LIST | WATCH),
        rule::<ServiceAccount>(IMPERSONATE),
    ]
}

fn build<K: Measured>(builder: &mut ControllerBuilder<'_, K>) -> Reconciler<K> {
    let reconciler = Reconciler::build(builder);
    let objects = reconciler.objects().clone();
    builder.gauges(move || readings(objects.store().list()));
    reconciler
}

impl Controller for TenantResourceController {
    const NAME: &'static str = "tenantresource";
    const OWNED_FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = TenantResource;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        rules::<TenantResource>()
    }

    fn webhooks() -> Vec<Webhook> {
        webhook::webhooks::<TenantResource>()
    }

    fn gauges() -> &'static [&'static Gauge] {
        TenantResource::GAUGES
    }

    fn settings() -> &'static [Setting] {
        &[ACT_AS_MANAGER]
    }

    fn build(builder: &mut ControllerBuilder<'_, TenantResource>) -> Self {
        Self(build(builder))
    }

    async fn reconcile(&self, object: Arc<TenantResource>) -> Result<Outcome, Error> {
        self.0.reconcile(object).await
    }

    async fn cleanup(&self, object: Arc<TenantResource>) -> Result<Outcome, Error> {
        self.0.cleanup(object).await
    }
}

impl Controller for GlobalTenantResourceController {
    const NAME: &'static str = "globaltenantresource";
    const OWNED_FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = GlobalTenantResource;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        rules::<GlobalTenantResource>()
    }

    fn webhooks() -> Vec<Webhook> {
        webhook::webhooks::<GlobalTenantResource>()
    }

    fn gauges() -> &'static [&'static Gauge] {
        GlobalTenantResource::GAUGES
    }

    fn build(builder: &mut ControllerBuilder<'_, GlobalTenantResource>) -> Self {
        Self(build(builder))
    }

    async fn reconcile(&self, object: Arc<GlobalTenantResource>) -> Result<Outcome, Error> {
        self.0.reconcile(object).await
    }

    async fn cleanup(&self, object: Arc<GlobalTenantResource>) -> Result<Outcome, Error> {
        self.0.cleanup(object).await
    }
}
