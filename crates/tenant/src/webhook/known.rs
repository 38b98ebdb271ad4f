//! What is known of who asks and of the Tenants that a request is about: from the caches, and, before something is
//! refused, from the API server itself.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{authentication::v1::UserInfo, core::v1::Namespace};
use kube::{Api, Client, ResourceExt};
use operator_core::{
    ObjectKey, OwnUser,
    admission::{BoxError, Caches},
    informer::{Index, Informer, Selection, list_readable},
};

use crate::{
    api::v1beta2::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, OwnerKind, Tenant, TenantOwner,
        UserSpec,
    },
    membership,
    people::{Person, Role, owns, role},
};

/// Finds out.
pub(super) struct Known {
    tenants: Informer<Tenant>,
    tenants_by_owner: Index<Tenant, Subject>,
    configurations: Informer<CapsuleConfiguration>,
    owners: Index<TenantOwner, Subject>,
    namespaces: Informer<Namespace>,
    own_user: OwnUser,
    reader: Client,
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

impl Known {
    /// Asks for the caches.
    pub(super) fn wire(caches: &mut Caches<'_>) -> Self {
        let tenants = caches.informer::<Tenant>(Selection::All);
        let owners = caches.informer::<TenantOwner>(Selection::All);
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
            own_user: caches.own_user(),
            reader: caches.reader(),
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
        Ok(role(person, manager, configuration, as_owners, |namespace| self.is_member(namespace)))
    }

    /// The same with Tenants as they are now: those that are named, or all if none is.
    ///
    /// # Errors
    /// When the API server does not say.
    pub(super) async fn renewed(
        &self,
        mut facts: Facts,
        user: &UserInfo,
        about: &[String],
    ) -> Result<Facts, BoxError> {
        let api = Api::<Tenant>::all(self.reader.clone());
        let mut found = Vec::new();
        for name in about.iter().filter(|name| can_be_a_name(name)) {
            facts.named.remove(name);
            facts.owned.remove(name);
            found.extend(api.get_opt(name).await?);
        }
        if about.is_empty() && facts.role == Role::CapsuleUser {
            facts.owned.clear();
            // One that cannot be read is nobody's.
            found = list_readable(self.reader.clone(), None).await?;
        }
        let person = Person::of(user);
        let as_owners = self.as_owners(&person);
        for tenant in found.into_iter().map(Arc::new) {
            if facts.role == Role::CapsuleUser && owns(&person, &tenant, &as_owners) {
                facts.owned.insert(tenant.name_any(), tenant.clone());
            }
            facts.named.insert(tenant.name_any(), tenant);
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

/// Whether there can be a Tenant of this name. What stands in a label or an owner reference may be anything, and the
/// name becomes part of the path of a request.
fn can_be_a_name(name: &str) -> bool {
    let is_fine = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-' || one == '.';
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(is_fine)
}

fn key(subject: UserSpec) -> Subject {
    (subject.kind, subject.name)
}

fn by_name(tenant: Arc<Tenant>) -> (String, Arc<Tenant>) {
    (tenant.name_any(), tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_name_is_asked_for() {
        for name in ["oil", "oil-2", "0.oil"] {
            assert!(can_be_a_name(name), "{name}");
        }
        for name in ["", "..", ".", "Oil", "oil/../gas", "oil?x=y", "oil%2f", "o\u{ef}l"] {
            assert!(!can_be_a_name(name), "{name}");
        }
    }
}
