//! The role and the Tenants of the requesting user, and the Tenants that a request references. They
//! are read from the caches, and before a denial from the API server.

use std::{collections::BTreeMap, sync::Arc};

use capsule::{
    api::v1beta2::{CapsuleConfiguration, CapsuleConfigurationSpec, Tenant, TenantOwner},
    lookups, membership,
    owner_indexes::{OwnerIndexes, Subject, key},
    owners::kind_and_name,
    subjects::{Relations, Requester, Role, owns, role},
};
use k8s_openapi::api::{
    authentication::v1::UserInfo,
    core::v1::Namespace,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::ResourceExt;
use operator_core::{
    ObjectKey, SelfSubject,
    admission::{BoxError, Caches},
    informer::{Index, Informer, Selection},
    owner::{controller_of, refers_to},
};

use super::live_tenants::{LiveError, LiveTenants};
use crate::{
    configuration::roles::{is_deleter, is_provisioner},
    promotion::{PROMOTED, PromotedAccounts, allows_promotion},
};

/// Maximum number of Tenants that a valid request references: label and owner reference, in the old
/// and the new namespace.
const MAX_REFERENCED_TENANTS: usize = 4;

/// Looks up users and Tenants.
pub(super) struct Lookups {
    tenants: Informer<Tenant>,
    owners: OwnerIndexes,
    configurations: Informer<CapsuleConfiguration>,
    namespaces: Informer<Namespace>,
    cluster_role_bindings: Index<ClusterRoleBinding, Subject>,
    role_bindings: Index<RoleBinding, Subject>,
    promoted: PromotedAccounts,
    own_user: SelfSubject,
    live: LiveTenants,
    manager_namespace: String,
}

/// The context in which a request is validated.
#[derive(Clone, Debug)]
pub(super) struct AdmissionContext {
    /// The name of the requesting user.
    pub(super) user: String,
    /// The role of the user.
    pub(super) role: Role,
    /// The existing Tenants that the request references, by name.
    pub(super) referenced: BTreeMap<String, Arc<Tenant>>,
    /// The Tenants that the user owns, by name.
    pub(super) owned: BTreeMap<String, Arc<Tenant>>,
    /// The configuration of all Tenants.
    pub(super) configuration: CapsuleConfigurationSpec,
    /// The namespace of the manager.
    pub(super) manager_namespace: String,
}

impl Lookups {
    /// Registers the informers and indexes.
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        let tenants = caches.informer::<Tenant>(Selection::All);
        let owners = caches.informer::<TenantOwner>(Selection::All);
        // All bindings: a binding that another program created grants the same permissions.
        let cluster_role_bindings = caches.informer::<ClusterRoleBinding>(Selection::All);
        let cluster_role_subjects = |binding: &ClusterRoleBinding| {
            binding.subjects.iter().flatten().filter_map(kind_and_name).collect()
        };
        let role_bindings = caches.informer::<RoleBinding>(Selection::Managed);
        let role_subjects =
            |binding: &RoleBinding| binding.subjects.iter().flatten().filter_map(kind_and_name).collect();
        Self {
            owners: OwnerIndexes::new(&tenants, &owners),
            tenants,
            configurations: caches.informer(Selection::All),
            namespaces: caches.informer(Selection::All),
            cluster_role_bindings: cluster_role_bindings.store().index(cluster_role_subjects),
            role_bindings: role_bindings.store().index(role_subjects),
            promoted: PromotedAccounts::new(caches.informer(PROMOTED)),
            own_user: caches.self_subject(),
            live: LiveTenants::new(caches.reader()),
            manager_namespace: caches.manager_namespace().to_owned(),
        }
    }

    pub(super) fn tenants(&self) -> &Informer<Tenant> {
        &self.tenants
    }

    pub(super) fn namespaces(&self) -> &Informer<Namespace> {
        &self.namespaces
    }

    /// Returns the context of a request from the caches.
    ///
    /// # Errors
    /// Returns an error if the API server does not return the manager's own user name.
    pub(super) async fn context(
        &self,
        user: &UserInfo,
        tenant_names: &[String],
    ) -> Result<AdmissionContext, BoxError> {
        let person = Requester::of(user);
        let tenant_owners = self.owners.tenant_owners(&person);
        let configuration = self.configuration();
        let role = self.role_of(&person, &configuration, &tenant_owners).await?;
        let referenced = tenant_names.iter().filter_map(|name| self.tenant(name)).map(by_name).collect();
        let owned = if role == Role::CapsuleUser {
            let promoted = self.promoted_owner(&person, &configuration).map(by_name);
            self.owners.owned(&person, &tenant_owners).into_iter().chain(promoted).collect()
        } else {
            BTreeMap::new()
        };
        Ok(AdmissionContext {
            user: person.name().to_owned(),
            role,
            referenced,
            owned,
            configuration,
            manager_namespace: self.manager_namespace.clone(),
        })
    }

    /// Returns the role of a user from the caches.
    ///
    /// # Errors
    /// Same as for [`context`](Self::context).
    pub(super) async fn role(&self, user: &UserInfo) -> Result<Role, BoxError> {
        let person = Requester::of(user);
        self.role_of(&person, &self.configuration(), &self.owners.tenant_owners(&person)).await
    }

    async fn role_of(
        &self,
        person: &Requester<'_>,
        configuration: &CapsuleConfigurationSpec,
        tenant_owners: &[Arc<TenantOwner>],
    ) -> Result<Role, BoxError> {
        let manager = self.own_user.username().await?;
        let relations = CachedRelations { lookups: self, person, configuration, tenant_owners };
        Ok(role(person, manager, configuration, tenant_owners, &relations))
    }

    /// Returns the context with Tenants from the API server: the referenced ones, or all for a new
    /// namespace that references none.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond, or a referenced Tenant cannot be read.
    pub(super) async fn refresh(
        &self,
        mut context: AdmissionContext,
        user: &UserInfo,
        tenant_names: &[String],
        is_new: bool,
    ) -> Result<AdmissionContext, LiveError> {
        let person = Requester::of(user);
        let tenant_owners = self.owners.tenant_owners(&person);
        // Owners may not change existing namespaces without a Tenant, whatever they own.
        if is_new && tenant_names.is_empty() && context.role == Role::CapsuleUser {
            let all = self.live.list().await?;
            let owned = all.tenants.iter().filter(|(_, tenant)| owns(&person, tenant, &tenant_owners));
            let owned = owned.map(|(name, tenant)| (name.clone(), tenant.clone()));
            let promoted = self.promoted_owner(&person, &context.configuration).map(by_name);
            context.owned = owned.chain(promoted).collect();
        }
        if tenant_names.len() > MAX_REFERENCED_TENANTS {
            return Ok(context);
        }
        let promoted = self.promoted_owner(&person, &context.configuration);
        for name in tenant_names {
            context.referenced.remove(name);
            context.owned.remove(name);
            let Some(tenant) = self.live.get(name).await? else { continue };
            if context.role == Role::Other && owns(&person, &tenant, &tenant_owners) && !person.is_system() {
                context.role = Role::CapsuleUser;
            }
            let is_promoted = promoted.as_ref().is_some_and(|promoted| {
                promoted.uid() == tenant.uid() && allows_promotion(&context.configuration, &tenant)
            });
            let is_owner = is_promoted || owns(&person, &tenant, &tenant_owners);
            if context.role == Role::CapsuleUser && is_owner {
                context.owned.insert(name.clone(), tenant.clone());
            }
            context.referenced.insert(name.clone(), tenant);
        }
        Ok(context)
    }

    /// Returns whether a user owns a Tenant by its spec or by a `TenantOwner`.
    pub(super) fn owns(&self, user: &UserInfo, tenant: &Tenant) -> bool {
        let person = Requester::of(user);
        owns(&person, tenant, &self.owners.tenant_owners(&person))
    }

    /// Returns the Tenant that a promoted ServiceAccount owns: that of its namespace.
    fn promoted_owner(
        &self,
        person: &Requester<'_>,
        configuration: &CapsuleConfigurationSpec,
    ) -> Option<Arc<Tenant>> {
        let (namespace, name) = person.account()?;
        if !self.promoted.contains(namespace, name) {
            return None;
        }
        let namespace = self.namespaces.store().get(&ObjectKey::cluster(namespace))?;
        let tenant = lookups::tenant_of(&namespace, self.tenants.store(), &self.manager_namespace)?;
        allows_promotion(configuration, &tenant).then_some(tenant)
    }

    pub(super) fn configuration(&self) -> CapsuleConfigurationSpec {
        lookups::configuration(self.configurations.store())
    }

    fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        self.tenants.store().get(&ObjectKey::cluster(name))
    }

    /// Returns the Tenant that controls a RoleBinding.
    fn tenant_of(&self, binding: &RoleBinding) -> Option<Arc<Tenant>> {
        let owner = controller_of(&binding.metadata).filter(|owner| refers_to::<Tenant>(owner))?;
        self.tenant(&owner.name).filter(|tenant| tenant.uid().as_deref() == Some(owner.uid.as_str()))
    }

    fn is_member(&self, namespace: &str) -> bool {
        let found = self.namespaces.store().get(&ObjectKey::cluster(namespace));
        found.is_some_and(|namespace| !membership::referenced_tenants(&namespace.metadata).is_empty())
    }
}

/// The relations of a user to Tenants, from the caches.
struct CachedRelations<'c> {
    lookups: &'c Lookups,
    person: &'c Requester<'c>,
    configuration: &'c CapsuleConfigurationSpec,
    tenant_owners: &'c [Arc<TenantOwner>],
}

impl Relations for CachedRelations<'_> {
    fn is_bound(&self) -> bool {
        let names = &self.configuration.rbac;
        let mut bindings =
            self.person.subjects().flat_map(|subject| self.lookups.cluster_role_bindings.get(&key(subject)));
        if bindings.any(|binding| is_provisioner(&binding, names)) {
            return true;
        }
        // A former owner can delete namespaces until the RoleBinding is updated.
        let mut bindings =
            self.person.subjects().flat_map(|subject| self.lookups.role_bindings.get(&key(subject)));
        bindings.any(|binding| {
            let tenant = self.lookups.tenant_of(&binding);
            tenant.is_some_and(|tenant| is_deleter(&binding, &tenant, names))
        })
    }

    fn is_owner(&self) -> bool {
        !self.lookups.owners.owned(self.person, self.tenant_owners).is_empty()
            || self.lookups.promoted_owner(self.person, self.configuration).is_some()
    }

    fn is_member(&self, namespace: &str) -> bool {
        self.lookups.is_member(namespace)
    }
}

fn by_name(tenant: Arc<Tenant>) -> (String, Arc<Tenant>) {
    (tenant.name_any(), tenant)
}
