//! Reads and writes the namespaces of Tenants. Other clients write to namespaces too, so every
//! write has a precondition.

use std::{collections::BTreeSet, sync::Arc};

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    membership::{MembershipError, check_membership, referenced_tenants},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use operator_core::{
    ControllerBuilder, ObjectKey,
    error::is_not_found,
    informer::{Index, Selection},
    kind::is_deleting,
    write::WriteError,
    writer::{DeletePrecondition, Writer},
};
use serde_json::Value;

/// Namespaces that refer to a Tenant, each list sorted by name.
#[derive(Debug, Default)]
pub(crate) struct MemberNamespaces {
    /// Members that are not being deleted.
    pub(crate) active: Vec<Arc<Namespace>>,
    /// Members that are being deleted.
    pub(crate) terminating: Vec<Arc<Namespace>>,
    /// Namespaces that refer to the Tenant and are not its members.
    pub(crate) mismatched: Vec<(String, MembershipError)>,
}

impl MemberNamespaces {
    /// Returns whether the Tenant has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.terminating.is_empty()
    }

    /// Returns all members.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.active.iter().chain(&self.terminating)
    }
}

/// Reads and writes namespaces.
pub(crate) struct Namespaces {
    writer: Writer<Namespace>,
    by_tenant: Index<Namespace, String>,
    client: Client,
    manager_namespace: String,
}

impl Namespaces {
    /// Registers the informer. A change of a namespace requeues the Tenants that it refers to,
    /// before or after the change.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let informer = builder.informer::<Namespace>(Selection::All);
        builder.watches(&informer, |change| {
            let names = change.states().flat_map(|namespace| referenced_tenants(namespace.meta()));
            names.map(|name| ObjectKey::cluster(&name)).collect()
        });
        let by_tenant = informer.store().index(|namespace: &Namespace| referenced_tenants(namespace.meta()));
        Self {
            manager_namespace: builder.manager_namespace().to_owned(),
            writer: builder.writer(informer),
            by_tenant,
            client: builder.client(),
        }
    }

    /// Returns which of `names` are members of the Tenant according to the API server. Sends one
    /// list request, or none if `names` is empty.
    pub(crate) async fn retain_members(
        &self,
        tenant: &Tenant,
        mut names: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, kube::Error> {
        if !names.is_empty() {
            let live = list_members(&self.client, tenant, &self.manager_namespace).await?;
            names.retain(|name| live.contains(name));
        }
        Ok(names)
    }

    /// Returns the cached namespaces that refer to the Tenant.
    pub(crate) fn members(&self, tenant: &Tenant) -> MemberNamespaces {
        let mut namespaces = self.by_tenant.get(&tenant.name_any());
        namespaces.sort_by_key(|namespace| namespace.name_any());
        let mut members = MemberNamespaces::default();
        for namespace in namespaces {
            match check_membership(namespace.meta(), tenant, &self.manager_namespace) {
                Ok(()) if is_deleting(namespace.as_ref()) => members.terminating.push(namespace),
                Ok(()) => members.active.push(namespace),
                Err(error) => members.mismatched.push((namespace.name_any(), error)),
            }
        }
        members
    }

    /// Returns whether the namespace exists and is not being deleted. The deletion of a namespace
    /// deletes its objects too.
    pub(crate) fn is_active(&self, name: &str) -> bool {
        let found = self.writer.get(&ObjectKey::cluster(name));
        found.is_some_and(|namespace| !is_deleting(namespace.as_ref()))
    }

    /// Sends a merge patch, which must contain the UID. A namespace that no longer exists is not an
    /// error.
    pub(crate) async fn patch(&self, namespace: &Namespace, patch: Value) -> Result<(), WriteError> {
        match self.writer.patch(&ObjectKey::of(namespace), &Patch::Merge(patch), "update").await {
            Err(error) if !error.api_error().is_some_and(is_not_found) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes the namespace if its resource version is current. A namespace that has changed may
    /// no longer be a member, so the next reconcile checks it again.
    pub(crate) async fn delete(&self, namespace: &Namespace) -> Result<(), WriteError> {
        self.writer.delete(namespace, DeletePrecondition::ResourceVersion).await.map(drop)
    }
}

/// Lists the names of the Tenant's members from the API server, bypassing caches.
pub(crate) async fn list_members(
    client: &Client,
    tenant: &Tenant,
    manager_namespace: &str,
) -> Result<BTreeSet<String>, kube::Error> {
    let selector = ListParams::default().labels(&format!("{TENANT_LABEL}={}", tenant.name_any()));
    let found = Api::<Namespace>::all(client.clone()).list_metadata(&selector).await?;
    let is_member = |namespace: &kube::core::PartialObjectMeta<Namespace>| {
        check_membership(&namespace.metadata, tenant, manager_namespace).is_ok()
    };
    let members = found.into_iter().filter(is_member);
    Ok(members.map(|namespace| namespace.name_any()).collect())
}
