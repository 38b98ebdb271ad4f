//! What the two kinds have in common, so that one reconcile serves both.

use capsule::api::v1beta2::{
    Dependency, GlobalTenantResource, GlobalTenantResourceStatus, Impersonation, ProcessedItem,
    ReplicatedResources, ReplicationScope, ReplicationSettings, ServiceAccountReference, TenantResource,
    TenantResourceStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, OwnerReference};
use kube::{CustomResourceExt, Resource, ResourceExt, core::object::HasStatus};
use operator_core::{kind::Kind, kind::uid};
use serde::Serialize;

/// Which Tenants and namespaces the objects are for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach<'r> {
    /// The Tenant that this namespace belongs to, in each of its namespaces.
    TenantOf(&'r str),
    /// The selected Tenants, within a scope.
    Tenants(Option<&'r LabelSelector>, ReplicationScope),
}

/// The fields of a spec that both kinds have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec<'r> {
    pub(crate) settings: ReplicationSettings,
    pub(crate) depends_on: &'r [Dependency],
    pub(crate) resync_period: &'r str,
    pub(crate) pruning_on_delete: bool,
    pub(crate) cordoned: bool,
    pub(crate) resources: &'r [ReplicatedResources],
}

/// The fields of a status that both kinds have. `selected_tenants` is empty for a TenantResource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) observed_generation: Option<i64>,
    pub(crate) selected_tenants: Vec<String>,
    pub(crate) service_account: Option<ServiceAccountReference>,
    pub(crate) processed_items: Vec<ProcessedItem>,
    pub(crate) conditions: Vec<Condition>,
}

/// A TenantResource or a GlobalTenantResource.
pub(crate) trait Replication:
    Kind + CustomResourceExt + Serialize + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync>
{
    fn fields(&self) -> Spec<'_>;

    fn reach(&self) -> Reach<'_>;

    /// Returns the ServiceAccount of the spec or of the configuration.
    fn account(&self, defaults: &Impersonation) -> Option<ServiceAccountReference>;

    fn common_status(&self) -> Status;

    fn to_status(status: Status) -> Self::Status;

    /// Returns the owner reference for the objects that are created. Only a cluster-scoped owner
    /// can own objects in any namespace.
    fn owner_reference(&self) -> Option<OwnerReference>;
}

impl Replication for TenantResource {
    fn fields(&self) -> Spec<'_> {
        let spec = &self.spec;
        Spec {
            settings: spec.settings,
            depends_on: &spec.depends_on,
            resync_period: &spec.resync_period,
            pruning_on_delete: spec.pruning_on_delete,
            cordoned: spec.cordoned,
            resources: &spec.resources,
        }
    }

    fn reach(&self) -> Reach<'_> {
        Reach::TenantOf(self.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn account(&self, defaults: &Impersonation) -> Option<ServiceAccountReference> {
        let namespace = self.namespace().unwrap_or_default();
        match &self.spec.service_account {
            Some(account) => Some(ServiceAccountReference { name: account.name.clone(), namespace }),
            None => defaults.tenant_default(&namespace),
        }
    }

    fn common_status(&self) -> Status {
        let status = self.status.clone().unwrap_or_default();
        Status {
            observed_generation: status.observed_generation,
            selected_tenants: Vec::new(),
            service_account: status.service_account,
            processed_items: status.processed_items,
            conditions: status.conditions,
        }
    }

    fn to_status(status: Status) -> TenantResourceStatus {
        TenantResourceStatus {
            observed_generation: status.observed_generation,
            size: size(&status),
            service_account: status.service_account,
            processed_items: status.processed_items,
            conditions: status.conditions,
        }
    }

    fn owner_reference(&self) -> Option<OwnerReference> {
        None
    }
}

impl Replication for GlobalTenantResource {
    fn fields(&self) -> Spec<'_> {
        let spec = &self.spec;
        Spec {
            settings: spec.settings,
            depends_on: &spec.depends_on,
            resync_period: &spec.resync_period,
            pruning_on_delete: spec.pruning_on_delete,
            cordoned: spec.cordoned,
            resources: &spec.resources,
        }
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Tenants(self.spec.tenant_selector.as_ref(), self.spec.scope)
    }

    fn account(&self, defaults: &Impersonation) -> Option<ServiceAccountReference> {
        self.spec.service_account.clone().or_else(|| defaults.global_default())
    }

    fn common_status(&self) -> Status {
        let status = self.status.clone().unwrap_or_default();
        Status {
            observed_generation: status.observed_generation,
            selected_tenants: status.selected_tenants,
            service_account: status.service_account,
            processed_items: status.processed_items,
            conditions: status.conditions,
        }
    }

    fn to_status(status: Status) -> GlobalTenantResourceStatus {
        GlobalTenantResourceStatus {
            observed_generation: status.observed_generation,
            size: size(&status),
            selected_tenants: status.selected_tenants,
            service_account: status.service_account,
            processed_items: status.processed_items,
            conditions: status.conditions,
        }
    }

    fn owner_reference(&self) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: Self::api_version(&()).into_owned(),
            kind: Self::kind(&()).into_owned(),
            name: self.name_any(),
            uid: uid(self),
            controller: None,
            block_owner_deletion: None,
        })
    }
}

fn size(status: &Status) -> i64 {
    i64::try_from(status.processed_items.len()).unwrap_or(i64::MAX)
}
