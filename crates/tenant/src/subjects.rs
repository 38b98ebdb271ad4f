//! Who somebody is to the Tenants. Pure.
//!
//! Everybody is told apart by kind and full name, as the API server has authenticated them: the name of a
//! ServiceAccount includes its namespace, so that two of one name are never taken for each other.

use k8s_openapi::api::authentication::v1::UserInfo;

use crate::{
    api::v1beta2::{CapsuleConfigurationSpec, OwnerKind, Tenant, TenantOwner, UserSpec},
    owners::Selectors,
};

/// The group whose members may do everything, whatever roles there are.
pub const MASTERS: &str = "system:masters";
/// The programs that a cluster itself consists of.
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";
/// What the user names of ServiceAccounts begin with.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Somebody who asks something of the API server.
#[derive(Clone, Copy, Debug)]
pub struct Person<'u> {
    name: &'u str,
    groups: &'u [String],
}

/// What somebody may do with the namespaces of Tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The manager itself: everything.
    Manager,
    /// Everything that leaves things in order, of every Tenant.
    Administrator,
    /// What concerns the Tenants that they own, and nothing else.
    CapsuleUser,
    /// What their roles allow, but for what makes a namespace belong to a Tenant.
    Other,
}

impl<'u> Person<'u> {
    /// Who asks, as the API server has authenticated them.
    pub fn of(user: &'u UserInfo) -> Self {
        Self {
            name: user.username.as_deref().unwrap_or_default(),
            groups: user.groups.as_deref().unwrap_or_default(),
        }
    }

    /// The user name.
    pub fn name(&self) -> &'u str {
        self.name
    }

    /// Whether this is whom a kind and a name mean.
    pub fn is(&self, kind: OwnerKind, name: &str) -> bool {
        match kind {
            OwnerKind::User => self.name == name,
            OwnerKind::Group => self.is_in(name),
            OwnerKind::ServiceAccount => self.name == name && account_namespace(name).is_some(),
        }
    }

    /// Everybody as whom this person can own something: by name, and each of the groups.
    pub fn subjects(&self) -> impl Iterator<Item = UserSpec> + use<'u> {
        let named = |kind, name: &str| UserSpec { kind, name: name.to_owned() };
        let name = self.name;
        let account = account_namespace(name).map(|_| named(OwnerKind::ServiceAccount, name));
        let groups = self.groups.iter().map(move |group| named(OwnerKind::Group, group));
        [named(OwnerKind::User, name)].into_iter().chain(account).chain(groups)
    }

    /// Whether this is one of the programs that a cluster itself consists of.
    pub(crate) fn is_system(&self) -> bool {
        self.is_in(SYSTEM_ACCOUNTS)
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    fn is_among(&self, users: &[UserSpec]) -> bool {
        users.iter().any(|user| self.is(user.kind, &user.name))
    }
}

/// The namespace of the ServiceAccount that has this user name, if it is one.
fn account_namespace(name: &str) -> Option<&str> {
    let (namespace, name) = name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(namespace)
}

/// What the state of the cluster says of a person. Evaluated only if the configuration alone does not decide.
pub(crate) trait Relations {
    /// Whether a binding in the cluster names the person in the role that lets owners create and patch namespaces.
    fn is_bound(&self) -> bool;

    /// Whether the person owns any Tenant.
    fn is_owner(&self) -> bool;

    /// Whether a namespace belongs to a Tenant.
    fn is_member(&self, namespace: &str) -> bool;
}

/// Returns the role of a person. `manager` is the manager's own user name, `as_owners` are the `TenantOwner`s that mean
/// this person.
///
/// Whoever owns a Tenant or is bound to the role of owners in the cluster is a [`Role::CapsuleUser`], whether the
/// configuration names them or not, and even if it ignores one of their groups: the binding gives them rights on all
/// namespaces.
pub(crate) fn role(
    person: &Person<'_>,
    manager: &str,
    configuration: &CapsuleConfigurationSpec,
    as_owners: &[impl AsRef<TenantOwner>],
    relations: &impl Relations,
) -> Role {
    if !manager.is_empty() && person.name == manager {
        return Role::Manager;
    }
    if person.is_in(MASTERS) || person.is_among(&configuration.administrators) {
        return Role::Administrator;
    }
    if person.is_system() {
        return Role::Other;
    }
    if relations.is_bound() || relations.is_owner() {
        return Role::CapsuleUser;
    }
    if configuration.ignore_user_with_groups.iter().any(|group| person.is_in(group)) {
        return Role::Other;
    }
    let is_user = person.is_among(&configuration.owners())
        || as_owners.iter().any(|owner| owner.as_ref().spec.aggregate)
        || account_namespace(person.name).is_some_and(|namespace| relations.is_member(namespace));
    if is_user { Role::CapsuleUser } else { Role::Other }
}

/// Whether a person owns a Tenant, as its spec or one of the `TenantOwner`s that mean this person have it.
pub fn owns(person: &Person<'_>, tenant: &Tenant, as_owners: &[impl AsRef<TenantOwner>]) -> bool {
    let picks = || {
        let selectors = Selectors::of(tenant);
        as_owners.iter().any(|owner| selectors.pick(owner.as_ref()))
    };
    tenant.spec.owners.iter().any(|owner| person.is(owner.kind, &owner.name)) || picks()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const MANAGER: &str = "system:serviceaccount:ensemble-system:ensemble-manager";
    const NOBODY: [Arc<TenantOwner>; 0] = [];

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            username: Some(name.to_owned()),
            groups: Some(groups.iter().map(|group| (*group).to_owned()).collect()),
            ..UserInfo::default()
        }
    }

    fn account(namespace: &str, name: &str) -> UserInfo {
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        user(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &of_namespace, "system:authenticated"],
        )
    }

    fn tenant(spec: Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap()
    }

    fn owner(labels: Value, spec: Value) -> Arc<TenantOwner> {
        let owner = json!({ "metadata": { "name": "one", "labels": labels }, "spec": spec });
        Arc::new(serde_json::from_value(owner).unwrap())
    }

    /// Somebody in a cluster with the namespace `oil-dev` of a Tenant.
    #[derive(Clone, Copy, Default)]
    struct Known {
        is_bound: bool,
        is_owner: bool,
    }

    impl Relations for Known {
        fn is_bound(&self) -> bool {
            self.is_bound
        }

        fn is_owner(&self) -> bool {
            self.is_owner
        }

        fn is_member(&self, namespace: &str) -> bool {
            namespace == "oil-dev"
        }
    }

    fn role_by(user: &UserInfo, configuration: Value, as_owners: &[Arc<TenantOwner>]) -> Role {
        role_with(user, configuration, as_owners, Known::default())
    }

    fn role_with(
        user: &UserInfo,
        configuration: Value,
        as_owners: &[Arc<TenantOwner>],
        known: Known,
    ) -> Role {
        let configuration = serde_json::from_value(configuration).unwrap();
        role(&Person::of(user), MANAGER, &configuration, as_owners, &known)
    }

    fn role_of(user: &UserInfo) -> Role {
        role_by(user, json!({}), &NOBODY)
    }

    fn owned(user: &UserInfo, spec: Value) -> bool {
        owns(&Person::of(user), &tenant(spec), &NOBODY)
    }

    #[test]
    fn without_a_configuration_the_default_group_counts() {
        assert_eq!(role_of(&user("alice", &["projectcapsule.dev"])), Role::CapsuleUser);
        assert_eq!(role_of(&user("alice", &["system:authenticated"])), Role::Other);
        assert_eq!(role_of(&user("root", &["system:masters", "projectcapsule.dev"])), Role::Administrator);
        assert_eq!(role_of(&account("ensemble-system", "ensemble-manager")), Role::Manager);
        assert_eq!(role_of(&UserInfo::default()), Role::Other);
    }

    /// An API server that would not say who the manager is makes nobody the manager.
    #[test]
    fn nobody_is_not_the_manager() {
        let found = role(
            &Person::of(&UserInfo::default()),
            "",
            &CapsuleConfigurationSpec::default(),
            &NOBODY,
            &Known::default(),
        );
        assert_eq!(found, Role::Other);
    }

    #[test]
    fn the_configuration_lists_users_groups_and_service_accounts() {
        let users = json!({ "users": [
            { "kind": "User", "name": "alice" },
            { "kind": "ServiceAccount", "name": "system:serviceaccount:ci:builder" },
        ] });
        assert_eq!(role_by(&user("alice", &[]), users.clone(), &NOBODY), Role::CapsuleUser);
        assert_eq!(role_by(&account("ci", "builder"), users.clone(), &NOBODY), Role::CapsuleUser);
        assert_eq!(role_by(&account("cd", "builder"), users.clone(), &NOBODY), Role::Other);
        assert_eq!(role_by(&user("carol", &["projectcapsule.dev"]), users, &NOBODY), Role::Other);
        let old = json!({ "userNames": ["alice"], "userGroups": ["devs"] });
        assert_eq!(role_by(&user("alice", &[]), old.clone(), &NOBODY), Role::CapsuleUser);
        assert_eq!(role_by(&user("bob", &["devs"]), old.clone(), &NOBODY), Role::CapsuleUser);
        assert_eq!(role_by(&user("devs", &["alice"]), old, &NOBODY), Role::Other);
    }

    #[test]
    fn an_administrator_stays_one_whatever_else_they_are() {
        let configuration = json!({
            "administrators": [{ "kind": "Group", "name": "platform" }, { "kind": "User", "name": "eve" }],
            "ignoreUserWithGroups": ["platform"],
        });
        let found = |user: &UserInfo| role_by(user, configuration.clone(), &NOBODY);
        assert_eq!(found(&user("dan", &["platform", "projectcapsule.dev"])), Role::Administrator);
        assert_eq!(found(&user("eve", &[])), Role::Administrator);
        assert_eq!(found(&account("oil-dev", "eve")), Role::CapsuleUser);
    }

    #[test]
    fn members_of_ignored_groups_are_like_everybody_else() {
        let configuration = json!({ "ignoreUserWithGroups": ["robots"] });
        let robot = user("r2", &["projectcapsule.dev", "robots"]);
        assert_eq!(role_by(&robot, configuration, &NOBODY), Role::Other);
    }

    #[test]
    fn who_is_bound_or_owns_a_tenant_is_held_to_the_rules_of_owners() {
        let ignored =
            json!({ "ignoreUserWithGroups": ["robots"], "users": [{ "kind": "User", "name": "carol" }] });
        let bound = Known { is_bound: true, ..Known::default() };
        let owner = Known { is_owner: true, ..Known::default() };
        for known in [bound, owner] {
            let found = |user: &UserInfo| role_with(user, ignored.clone(), &NOBODY, known);
            for held in [user("alice", &[]), user("r2", &["robots"]), account("ci", "builder")] {
                assert_eq!(found(&held), Role::CapsuleUser, "{held:?}");
            }
            assert_eq!(found(&user("root", &["system:masters"])), Role::Administrator);
            assert_eq!(found(&account("ensemble-system", "ensemble-manager")), Role::Manager);
            assert_eq!(found(&account("kube-system", "namespace-controller")), Role::Other);
        }
    }

    #[test]
    fn a_service_account_of_a_tenant_is_one_of_its_people_and_one_of_the_cluster_never() {
        assert_eq!(role_of(&account("oil-dev", "default")), Role::CapsuleUser);
        assert_eq!(role_of(&account("shop", "default")), Role::Other);
        let controller = account("kube-system", "namespace-controller");
        let configuration = json!({ "users": [{ "kind": "Group", "name": "system:serviceaccounts" }] });
        assert_eq!(role_by(&controller, configuration, &NOBODY), Role::Other);
        // The name alone makes no member of a namespace.
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev", &[])), Role::Other);
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev:", &[])), Role::Other);
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev:a:b", &[])), Role::Other);
    }

    #[test]
    fn a_tenant_owner_counts_unless_it_is_not_to_be_aggregated() {
        let bob = user("bob", &[]);
        let as_owner = |aggregate: bool| {
            [owner(json!({}), json!({ "kind": "User", "name": "bob", "aggregate": aggregate }))]
        };
        assert_eq!(role_by(&bob, json!({}), &as_owner(true)), Role::CapsuleUser);
        assert_eq!(role_by(&bob, json!({}), &as_owner(false)), Role::Other);
    }

    #[test]
    fn owners_are_compared_by_kind_and_full_name_in_the_same_case() {
        let alice = |kind: &str| json!({ "owners": [{ "kind": kind, "name": "alice" }] });
        assert!(owned(&user("alice", &[]), alice("User")));
        assert!(!owned(&user("Alice", &[]), alice("User")));
        assert!(!owned(&user("alice", &[]), alice("Group")));
        assert!(owned(&user("bob", &["alice"]), alice("Group")));
        assert!(!owned(&user("bob", &["alice"]), alice("User")));
        assert!(!owned(&user("alice", &[]), alice("ServiceAccount")), "no name of a ServiceAccount");
    }

    /// CVE-2023-46254: the namespace is part of who a ServiceAccount is.
    #[test]
    fn cve_2023_46254_service_accounts_of_one_name_in_two_namespaces_are_two() {
        let solar = json!({ "owners": [{
            "kind": "ServiceAccount", "name": "system:serviceaccount:solar:tenant-owner",
        }] });
        assert!(owned(&account("solar", "tenant-owner"), solar.clone()));
        assert!(!owned(&account("wind", "tenant-owner"), solar.clone()));
        for name in ["tenant-owner", "solar-tenant-owner", "solar:tenant-owner", "solar/tenant-owner"] {
            assert!(!owned(&user(name, &["solar", "system:serviceaccounts:solar"]), solar.clone()), "{name}");
        }
        let found: Vec<_> = Person::of(&account("wind", "tenant-owner"))
            .subjects()
            .filter(|subject| subject.kind != OwnerKind::Group)
            .map(|subject| subject.name)
            .collect();
        assert_eq!(
            found, ["system:serviceaccount:wind:tenant-owner"; 2],
            "as a user and as a ServiceAccount"
        );
    }

    #[test]
    fn whom_a_tenant_picks_owns_it() {
        let oil = tenant(json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "oil" } }] } }));
        let bob = json!({ "kind": "User", "name": "bob" });
        let user = user("bob", &[]);
        for (labels, is_owner) in [
            (json!({ "team": "oil" }), true),
            (json!({ "projectcapsule.dev/tenant": "oil" }), true),
            (json!({ "team": "gas" }), false),
        ] {
            assert_eq!(owns(&Person::of(&user), &oil, &[owner(labels, bob.clone())]), is_owner);
        }
    }
}
