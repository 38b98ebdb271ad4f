//! The label and owner references of a namespace. Pure.

use capsule::membership::{tenant_label, tenant_references};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The label and the owner references by which a namespace references Tenants. They are not
/// validated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TenantReferences<'m> {
    pub(super) label: Option<&'m str>,
    pub(super) owner_references: Vec<&'m OwnerReference>,
}

impl<'m> TenantReferences<'m> {
    pub(super) fn of(metadata: &'m ObjectMeta) -> Self {
        Self { label: tenant_label(metadata), owner_references: tenant_references(metadata).collect() }
    }

    /// Returns whether the namespace references no Tenant.
    pub(super) fn is_none(&self) -> bool {
        self.label.is_none() && self.owner_references.is_empty()
    }
}
