//! What is known of who asks and of the Tenants that a request is about: from the caches, and, before something is
//! refused, from the API server itself.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    authentication::v1::UserInfo,
    core::v1::Namespace,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::ResourceExt;
use operator_core::{
    ObjectKey, OwnUser,
    admission::{BoxError, Caches},
    informer::{Index, Informer, Selection},
    owner::{controller_of, refers_to},
};

use super::live_tenants::{LiveError, LiveTenants};
use crate::{
    api::v1beta2::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, OwnerKind, Tenant, TenantOwner,
        UserSpec,
    },
    configuration::roles::{is_deleter, is_provisioner},
    membership,
    owners::kind_and_name,
    subjects::{Person, Relations, Role, owns, role},
};

/// How many Tenants one namespace can name, before and after, without being refused for that alone.
const MOST_NAMED: usize = 4;

/// Finds out.
pub(super) struct Lookups {
    tenants: Informer<Tenant>,
    tenants_by_owner: Index<Tenant, Subject>,
    configurations: Informer<CapsuleConfiguration>,
    owners: Index<TenantOwner, Subject>,
    namespaces: Informer<Namespace>,
    bindings: Index<ClusterRoleBinding, Subject>,
    role_bindings: Index<RoleBinding, Subject>,
    own_user: OwnUser,
    live: LiveTenants,
    manager_namespace: String,
}

/// Whom an object names, as an index has it.
type Subject = (OwnerKind, String);

/// What is known.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The name of who asks.
    pub(super) who: String,
    /// What they may do.
    pub(super) role: Role,
    /// The Tenants that the request names, as far as they are there.
    pub(super) named: BTreeMap<String, Arc<Tenant>>,
    /// The Tenants that they own, by name.
    pub(super) owned: BTreeMap<String, Arc<Tenant>>,
    /// What holds for all Tenants.
    pub(super) configuration: CapsuleConfigurationSpec,
    /// The namespace that the manager itself runs in.
    pub(super) manager_namespace: String,
}

impl Lookups {
    /// Asks for the caches.
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        let tenants = caches.informer::<Tenant>(Selection::All);
        let owners = caches.informer::<TenantOwner>(Selection::All);
        // Also those of others: whoever is bound to the role has its rights.
        let bindings = caches.informer::<ClusterRoleBinding>(Selection::All);
        let bound = |binding: &ClusterRoleBinding| {
            binding.subjects.iter().flatten().filter_map(kind_and_name).collect()
        };
        let role_bindings = caches.informer::<RoleBinding>(Selection::Managed);
        let bound_in =
            |binding: &RoleBinding| binding.subjects.iter().flatten().filter_map(kind_and_name).collect();
        let spelled_out = |tenant: &Tenant| {
            tenant.spec.owners.iter().map(|owner| (owner.kind, owner.name.clone())).collect()
        };
        Self {
            tenants_by_owner: tenants.store().index(spelled_out),
            tenants,
            configurations: caches.informer(Selection::All),
            owners: owners
                .store()
                .index(|owner: &TenantOwner| vec![(owner.spec.kind, owner.spec.name.clone())]),
            namespaces: caches.informer(Selection::All),
            bindings: bindings.store().index(bound),
            role_bindings: role_bindings.store().index(bound_in),
            own_user: caches.own_user(),
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

    /// What the caches know. `about` are the Tenants that the request names.
    ///
    /// # Errors
    /// When the API server does not say who the manager itself is.
    pub(super) async fn facts(&self, user: &UserInfo, about: &[String]) -> Result<Facts, BoxError> {
        let person = Person::of(user);
        let as_owners = self.as_owners(&person);
        let configuration = self.configuration();
        let role = self.role_of(&person, &configuration, &as_owners).await?;
        let named = about.iter().filter_map(|name| self.tenant(name)).map(by_name).collect();
        let owned = if role == Role::CapsuleUser { self.owned(&person, &as_owners) } else { BTreeMap::new() };
        Ok(Facts {
            who: person.name().to_owned(),
            role,
            named,
            owned,
            configuration,
            manager_namespace: self.manager_namespace.clone(),
        })
    }

    /// What somebody may do, as the caches have it.
    ///
    /// # Errors
    /// As for [`facts`](Self::facts).
    pub(super) async fn role(&self, user: &UserInfo) -> Result<Role, BoxError> {
        let person = Person::of(user);
        self.role_of(&person, &self.configuration(), &self.as_owners(&person)).await
    }

    async fn role_of(
        &self,
        person: &Person<'_>,
        configuration: &CapsuleConfigurationSpec,
        as_owners: &[Arc<TenantOwner>],
    ) -> Result<Role, BoxError> {
        let manager = self.own_user.name().await?;
        let relations = Cached { known: self, person, configuration, as_owners };
        Ok(role(person, manager, configuration, as_owners, &relations))
    }

    /// The same with Tenants as they are now: those that are named, or, for a new namespace that names none, all.
    ///
    /// # Errors
    /// When the API server does not say, or a Tenant that is named cannot be read.
    pub(super) async fn renewed(
        &self,
        mut facts: Facts,
        user: &UserInfo,
        about: &[String],
        is_new: bool,
    ) -> Result<Facts, LiveError> {
        let person = Person::of(user);
        let as_owners = self.as_owners(&person);
        // What belongs to no Tenant already is not for owners to change, whatever they own.
        if is_new && about.is_empty() && facts.role == Role::CapsuleUser {
            let all = self.live.list().await?;
            let owned = all.tenants.iter().filter(|(_, tenant)| owns(&person, tenant, &as_owners));
            facts.owned = owned.map(|(name, tenant)| (name.clone(), tenant.clone())).collect();
        }
        if about.len() > MOST_NAMED {
            return Ok(facts);
        }
        for name in about {
            facts.named.remove(name);
            facts.owned.remove(name);
            let Some(tenant) = self.live.get(name).await? else { continue };
            if facts.role == Role::Other && owns(&person, &tenant, &as_owners) && !person.is_system() {
                facts.role = Role::CapsuleUser;
            }
            if facts.role == Role::CapsuleUser && owns(&person, &tenant, &as_owners) {
                facts.owned.insert(name.clone(), tenant.clone());
            }
            facts.named.insert(name.clone(), tenant);
        }
        Ok(facts)
    }

    fn configuration(&self) -> CapsuleConfigurationSpec {
        let found = self.configurations.store().get(&ObjectKey::cluster(CONFIGURATION_NAME));
        found.map(|configuration| configuration.spec.clone()).unwrap_or_default()
    }

    fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        self.tenants.store().get(&ObjectKey::cluster(name))
    }

    /// The Tenant that keeps a RoleBinding.
    fn tenant_of(&self, binding: &RoleBinding) -> Option<Arc<Tenant>> {
        let owner = controller_of(&binding.metadata).filter(|owner| refers_to::<Tenant>(owner))?;
        self.tenant(&owner.name).filter(|tenant| tenant.uid().as_deref() == Some(owner.uid.as_str()))
    }

    fn is_member(&self, namespace: &str) -> bool {
        let found = self.namespaces.store().get(&ObjectKey::cluster(namespace));
        found.is_some_and(|namespace| !membership::named(&namespace.metadata).is_empty())
    }

    /// The `TenantOwner`s that mean a person.
    fn as_owners(&self, person: &Person<'_>) -> Vec<Arc<TenantOwner>> {
        person.subjects().flat_map(|subject| self.owners.get(&key(subject))).collect()
    }

    /// The Tenants that a person owns. All Tenants are looked at only if a `TenantOwner` means the person.
    fn owned(&self, person: &Person<'_>, as_owners: &[Arc<TenantOwner>]) -> BTreeMap<String, Arc<Tenant>> {
        let spelled_out = person.subjects().flat_map(|subject| self.tenants_by_owner.get(&key(subject)));
        let all = if as_owners.is_empty() { Vec::new() } else { self.tenants.store().list() };
        let owned = spelled_out.chain(all).filter(|tenant| owns(person, tenant, as_owners));
        owned.map(by_name).collect()
    }
}

/// What the caches say of a person.
struct Cached<'c> {
    known: &'c Lookups,
    person: &'c Person<'c>,
    configuration: &'c CapsuleConfigurationSpec,
    as_owners: &'c [Arc<TenantOwner>],
}

impl Relations for Cached<'_> {
    fn is_bound(&self) -> bool {
        let names = &self.configuration.rbac;
        let mut bindings = self.person.subjects().flat_map(|subject| self.known.bindings.get(&key(subject)));
        if bindings.any(|binding| is_provisioner(&binding, names)) {
            return true;
        }
        // Whoever has been an owner may delete namespaces until they are unbound there.
        let mut bindings =
            self.person.subjects().flat_map(|subject| self.known.role_bindings.get(&key(subject)));
        bindings.any(|binding| {
            let tenant = self.known.tenant_of(&binding);
            tenant.is_some_and(|tenant| is_deleter(&binding, &tenant, names))
        })
    }

    fn is_owner(&self) -> bool {
        !self.known.owned(self.person, self.as_owners).is_empty()
    }

    fn is_member(&self, namespace: &str) -> bool {
        self.known.is_member(namespace)
    }
}

fn key(subject: UserSpec) -> Subject {
    (subject.kind, subject.name)
}

fn by_name(tenant: Arc<Tenant>) -> (String, Arc<Tenant>) {
    (tenant.name_any(), tenant)
}
