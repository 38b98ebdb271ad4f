//! The namespaces of the cluster, found by the Tenant that they name. Others write to them too, so they are
//! written with care.

use std::{collections::BTreeSet, sync::Arc};

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

use crate::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    membership::{Mismatch, judge, named},
};

/// The namespaces that have to do with a Tenant, each list sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Its own, in use.
    pub(crate) live: Vec<Arc<Namespace>>,
    /// Its own, on their way out.
    pub(crate) leaving: Vec<Arc<Namespace>>,
    /// Those that name it and are not its own.
    pub(crate) strays: Vec<(String, Mismatch)>,
}

impl Members {
    /// Whether no namespace is the Tenant's own.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.leaving.is_empty()
    }

    /// All that are the Tenant's own.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.live.iter().chain(&self.leaving)
    }
}

/// Reads and writes namespaces.
pub(crate) struct Namespaces {
    writer: Writer<Namespace>,
    by_tenant: Index<Namespace, String>,
    client: Client,
    manager: String,
}

impl Namespaces {
    /// Asks for the informer, and for a reconcile of the Tenants that a namespace names or named.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, Tenant>) -> Self {
        let informer = builder.informer::<Namespace>(Selection::All);
        builder.watches(&informer, |change| {
            let names = change.states().flat_map(|namespace| named(namespace.meta()));
            names.map(|name| ObjectKey::cluster(&name)).collect()
        });
        let by_tenant = informer.store().index(|namespace: &Namespace| named(namespace.meta()));
        let manager = builder.manager_namespace().to_owned();
        Self { writer: builder.writer(informer), by_tenant, client: builder.client(), manager }
    }

    /// Returns which of `names` the API server has as namespaces of the Tenant. Sends one list, or nothing if there are no
    /// names.
    pub(crate) async fn confirm(
        &self,
        tenant: &Tenant,
        mut names: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, kube::Error> {
        if !names.is_empty() {
            let live = live_members(&self.client, tenant, &self.manager).await?;
            names.retain(|name| live.contains(name));
        }
        Ok(names)
    }

    /// The namespaces that name the Tenant.
    pub(crate) fn members(&self, tenant: &Tenant) -> Members {
        let mut namespaces = self.by_tenant.get(&tenant.name_any());
        namespaces.sort_by_key(|namespace| namespace.name_any());
        let mut members = Members::default();
        for namespace in namespaces {
            match judge(namespace.meta(), tenant, &self.manager) {
                Ok(()) if is_deleting(namespace.as_ref()) => members.leaving.push(namespace),
                Ok(()) => members.live.push(namespace),
                Err(why) => members.strays.push((namespace.name_any(), why)),
            }
        }
        members
    }

    /// Whether objects can be deleted from the namespace one by one; when it goes, they go with it.
    pub(crate) fn is_in_use(&self, name: &str) -> bool {
        let found = self.writer.get(&ObjectKey::cluster(name));
        found.is_some_and(|namespace| !is_deleting(namespace.as_ref()))
    }

    /// Sends a merge patch, which has the UID. A namespace that is gone is success.
    pub(crate) async fn patch(&self, namespace: &Namespace, patch: Value) -> Result<(), WriteError> {
        match self.writer.patch(&ObjectKey::of(namespace), &Patch::Merge(patch), "update").await {
            Err(error) if !error.api_error().is_some_and(is_not_found) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes the namespace as it was seen. One that has changed since may not be the Tenant's own any more,
    /// and is looked at again.
    pub(crate) async fn delete(&self, namespace: &Namespace) -> Result<(), WriteError> {
        self.writer.delete(namespace, DeletePrecondition::ResourceVersion).await.map(drop)
    }
}

/// Lists the names of the Tenant's namespaces from the API server, past every cache.
pub(crate) async fn live_members(
    client: &Client,
    tenant: &Tenant,
    manager_namespace: &str,
) -> Result<BTreeSet<String>, kube::Error> {
    let labelled = ListParams::default().labels(&format!("{TENANT_LABEL}={}", tenant.name_any()));
    let found = Api::<Namespace>::all(client.clone()).list_metadata(&labelled).await?;
    let found =
        found.into_iter().filter(|namespace| judge(&namespace.metadata, tenant, manager_namespace).is_ok());
    Ok(found.map(|namespace| namespace.name_any()).collect())
}
