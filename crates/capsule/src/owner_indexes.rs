//! Indexes of Tenants and TenantOwners by the subjects that own Tenants.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use operator_core::informer::{Index, Informer};

use crate::{
    api::v1beta2::{OwnerKind, Tenant, TenantOwner, UserSpec},
    subjects::{Requester, owns},
};

/// Index key: kind and name of a subject.
pub type Subject = (OwnerKind, String);

/// Returns the index key of a subject.
pub fn key(subject: UserSpec) -> Subject {
    (subject.kind, subject.name)
}

/// Finds the Tenants that a user owns in the caches.
pub struct OwnerIndexes {
    tenants: Informer<Tenant>,
    tenants_by_owner: Index<Tenant, Subject>,
    tenant_owners: Index<TenantOwner, Subject>,
}

impl OwnerIndexes {
    /// Creates the indexes of two caches, which keep them up to date.
    pub fn new(tenants: &Informer<Tenant>, tenant_owners: &Informer<TenantOwner>) -> Self {
        let listed_owners = |tenant: &Tenant| {
            tenant.spec.owners.iter().map(|owner| (owner.kind, owner.name.clone())).collect()
        };
        Self {
            tenants: tenants.clone(),
            tenants_by_owner: tenants.store().index(listed_owners),
            tenant_owners: tenant_owners
                .store()
                .index(|owner: &TenantOwner| vec![(owner.spec.kind, owner.spec.name.clone())]),
        }
    }

    /// Returns the `TenantOwner`s that match a user.
    pub fn tenant_owners(&self, user: &Requester<'_>) -> Vec<Arc<TenantOwner>> {
        user.subjects().flat_map(|subject| self.tenant_owners.get(&key(subject))).collect()
    }

    /// Returns the Tenants that a user owns, by name. `tenant_owners` are those that match the user.
    ///
    /// Scans all Tenants only if there are any.
    pub fn owned(
        &self,
        user: &Requester<'_>,
        tenant_owners: &[Arc<TenantOwner>],
    ) -> BTreeMap<String, Arc<Tenant>> {
        let listed_owners = user.subjects().flat_map(|subject| self.tenants_by_owner.get(&key(subject)));
        let all = if tenant_owners.is_empty() { Vec::new() } else { self.tenants.store().list() };
        let owned = listed_owners.chain(all).filter(|tenant| owns(user, tenant, tenant_owners));
        owned.map(|tenant| (tenant.name_any(), tenant)).collect()
    }
}
