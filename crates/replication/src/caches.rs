//! Caches of Tenants, namespaces, and the configuration, and what their changes trigger.

use std::sync::Arc;

use capsule::{
    Tenant,
    api::v1beta2::{CONFIGURATION_NAME, CapsuleConfiguration, Impersonation},
    lookups,
    membership::tenant_label,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    informer::{Change, Index, Informer, Selection},
    kind::is_deleting,
};

use crate::{
    resource::{Reach, Replication},
    target::{TenantNamespaces, labelled_tenants},
};

/// Caches of the objects that decide where items go.
pub(crate) struct Caches {
    tenants: Informer<Tenant>,
    namespaces: Informer<Namespace>,
    by_tenant: Index<Namespace, String>,
    configurations: Informer<CapsuleConfiguration>,
    manager_namespace: String,
}

impl Caches {
    /// Requests the informers, and declares the watches.
    pub(crate) fn build<K: Replication>(builder: &mut ControllerBuilder<'_, K>) -> Self {
        let tenants = builder.informer::<Tenant>(Selection::All);
        let namespaces = builder.informer::<Namespace>(Selection::All);
        let configurations = builder.informer::<CapsuleConfiguration>(Selection::All);
        let by_tenant = namespaces.store().index(|namespace: &Namespace| {
            tenant_label(&namespace.metadata).map(str::to_owned).into_iter().collect()
        });
        let affected = Affected {
            objects: builder.objects().clone(),
            by_namespace: builder
                .objects()
                .store()
                .index(|object: &K| object.namespace().into_iter().collect()),
            namespaces: by_tenant.clone(),
        };
        let affected = Arc::new(affected);
        let by_namespace = affected.clone();
        builder.watches(&namespaces, move |change| by_namespace.by_namespace(change));
        let by_change = affected.clone();
        builder.watches(&tenants, move |change| by_change.by_tenant(change));
        builder.watches(&configurations, move |change| affected.by_configuration(change));
        let manager_namespace = builder.manager_namespace().to_owned();
        Self { tenants, namespaces, by_tenant, configurations, manager_namespace }
    }

    /// Returns all Tenants.
    pub(crate) fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.store().list()
    }

    /// Returns the Tenant that a namespace is a member of, also if the namespace is being deleted.
    pub(crate) fn tenant_of(&self, namespace: &str) -> Option<Arc<Tenant>> {
        let namespace = self.namespaces.store().get(&ObjectKey::cluster(namespace))?;
        lookups::tenant_of(&namespace, self.tenants.store(), &self.manager_namespace)
    }

    /// Returns a Tenant with its namespaces.
    pub(crate) fn with_namespaces(&self, tenant: Arc<Tenant>) -> TenantNamespaces {
        let candidates = self.by_tenant.get(&tenant.name_any());
        TenantNamespaces::new(tenant, candidates, &self.manager_namespace)
    }

    /// Returns whether a namespace exists and is not being deleted.
    pub(crate) fn is_active(&self, namespace: &str) -> bool {
        let namespace = self.namespaces.store().get(&ObjectKey::cluster(namespace));
        namespace.is_some_and(|namespace| !is_deleting(namespace.as_ref()))
    }

    /// Returns the namespace of the manager.
    pub(crate) fn manager_namespace(&self) -> &str {
        &self.manager_namespace
    }

    /// Returns the settings of impersonation.
    pub(crate) fn impersonation(&self) -> Impersonation {
        lookups::configuration(self.configurations.store()).impersonation()
    }
}

/// Finds the objects that a change affects.
struct Affected<K> {
    objects: Informer<K>,
    by_namespace: Index<K, String>,
    namespaces: Index<Namespace, String>,
}

impl<K: Replication> Affected<K> {
    fn by_namespace(&self, change: &Change<Namespace>) -> Vec<ObjectKey> {
        if !is_relevant(change) {
            return Vec::new();
        }
        let tenants = labelled_tenants(change.states());
        let own = self.by_namespace.get(&change.key.name().to_owned());
        let own = own.iter().map(|object| ObjectKey::of(object.as_ref()));
        own.chain(tenants.iter().flat_map(|tenant| self.of_tenant(tenant)))
            .chain(self.without_tenant())
            .collect()
    }

    fn by_tenant(&self, change: &Change<Tenant>) -> Vec<ObjectKey> {
        let is_relevant = match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                old.labels() != new.labels()
                    || old.annotations() != new.annotations()
                    || old.spec != new.spec
                    || is_deleting(old.as_ref()) != is_deleting(new.as_ref())
            }
            _ => true,
        };
        if is_relevant { self.of_tenant(change.key.name()) } else { Vec::new() }
    }

    fn by_configuration(&self, change: &Change<CapsuleConfiguration>) -> Vec<ObjectKey> {
        let settings =
            |one: &Option<Arc<CapsuleConfiguration>>| one.as_ref().map(|one| one.spec.impersonation());
        if change.key.name() != CONFIGURATION_NAME || settings(&change.old) == settings(&change.new) {
            return Vec::new();
        }
        self.objects.store().list().iter().map(|object| ObjectKey::of(object.as_ref())).collect()
    }

    /// Returns the TenantResources in the namespaces of a Tenant, or all GlobalTenantResources.
    fn of_tenant(&self, tenant: &str) -> Vec<ObjectKey> {
        if !K::NAMESPACED {
            return self.objects.store().list().iter().map(|object| ObjectKey::of(object.as_ref())).collect();
        }
        let namespaces = self.namespaces.get(&tenant.to_owned());
        let objects = namespaces.iter().flat_map(|namespace| self.by_namespace.get(&namespace.name_any()));
        objects.map(|object| ObjectKey::of(object.as_ref())).collect()
    }

    /// Returns the GlobalTenantResources whose objects name their namespaces.
    fn without_tenant(&self) -> Vec<ObjectKey> {
        if K::NAMESPACED {
            return Vec::new();
        }
        let names_namespaces = |object: &Arc<K>| {
            !matches!(object.reach(), Reach::Tenants(_, capsule::api::v1beta2::ReplicationScope::Namespace))
        };
        let objects = self.objects.store().list().into_iter().filter(names_namespaces);
        objects.map(|object| ObjectKey::of(object.as_ref())).collect()
    }
}

/// Returns whether a change of a namespace can change the items for it.
fn is_relevant(change: &Change<Namespace>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    old.labels() != new.labels()
        || old.annotations() != new.annotations()
        || old.owner_references() != new.owner_references()
        || is_deleting(old.as_ref()) != is_deleting(new.as_ref())
        || old.uid() != new.uid()
}
