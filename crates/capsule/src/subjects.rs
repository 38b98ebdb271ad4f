//! Users and their roles. Pure.
//!
//! Users are compared by kind and full name, as authenticated by the API server. The name of a
//! ServiceAccount includes its namespace, so ServiceAccounts with equal names are never confused.

use k8s_openapi::api::authentication::v1::UserInfo;

use crate::{
    api::v1beta2::{CapsuleConfigurationSpec, OwnerKind, Tenant, TenantOwner, UserSpec},
    owners::OwnerSelectors,
};

/// Group whose members have all permissions, regardless of RBAC.
pub const MASTERS: &str = "system:masters";
/// Group of the ServiceAccounts of the control plane.
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";
/// Prefix of the user names of ServiceAccounts.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// User who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'u> {
    name: &'u str,
    groups: &'u [String],
}

/// Role of a user for the namespaces of Tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The manager itself, which may do everything.
    Manager,
    /// May manage the namespaces of every Tenant, within the rules that keep Tenants consistent.
    Administrator,
    /// May manage only the namespaces of the Tenants that they own.
    CapsuleUser,
    /// May do what RBAC allows, except changes of the membership of namespaces.
    Other,
}

impl<'u> Requester<'u> {
    /// Returns the authenticated user of a request.
    pub fn of(user: &'u UserInfo) -> Self {
        Self {
            name: user.username.as_deref().unwrap_or_default(),
            groups: user.groups.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the user name.
    pub fn name(&self) -> &'u str {
        self.name
    }

    /// Returns namespace and name of the ServiceAccount, or `None` if the user is not one.
    pub fn account(&self) -> Option<(&'u str, &'u str)> {
        let namespace = account_namespace(self.name)?;
        Some((namespace, self.name.rsplit_once(':')?.1))
    }

    /// Returns whether a kind and a name refer to this user.
    pub fn is(&self, kind: OwnerKind, name: &str) -> bool {
        match kind {
            OwnerKind::User => self.name == name,
            OwnerKind::Group => self.is_in_group(name),
            OwnerKind::ServiceAccount => self.name == name && account_namespace(name).is_some(),
        }
    }

    /// Returns all subjects that refer to this user: the name, and each group.
    pub fn subjects(&self) -> impl Iterator<Item = UserSpec> + use<'u> {
        let subject = |kind, name: &str| UserSpec { kind, name: name.to_owned() };
        let name = self.name;
        let account = account_namespace(name).map(|_| subject(OwnerKind::ServiceAccount, name));
        let groups = self.groups.iter().map(move |group| subject(OwnerKind::Group, group));
        [subject(OwnerKind::User, name)].into_iter().chain(account).chain(groups)
    }

    /// Returns whether this is a ServiceAccount of the control plane.
    pub fn is_system(&self) -> bool {
        self.is_in_group(SYSTEM_ACCOUNTS)
    }

    fn is_in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    fn is_listed(&self, users: &[UserSpec]) -> bool {
        users.iter().any(|user| self.is(user.kind, &user.name))
    }
}

/// Returns the namespace of a ServiceAccount, or `None` if the user name is not that of one.
fn account_namespace(name: &str) -> Option<&str> {
    let (namespace, name) = name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(namespace)
}

/// Relations of a user to the objects of the cluster. Evaluated only if the configuration does not
/// determine the role.
pub trait Relations {
    /// Returns whether a ClusterRoleBinding or RoleBinding grants the user the permissions of
    /// owners.
    fn is_bound(&self) -> bool;

    /// Returns whether the user owns a Tenant.
    fn is_owner(&self) -> bool;

    /// Returns whether a namespace belongs to a Tenant.
    fn is_member(&self, namespace: &str) -> bool;
}

/// Returns the role of a user. `manager` is the manager's own user name. `tenant_owners` are the
/// `TenantOwner`s that refer to the user.
///
/// A user who owns a Tenant, or who is bound to the ClusterRoles of owners, is always a
/// [`Role::CapsuleUser`]. This holds even if the configuration does not list the user or ignores
/// one of the user's groups, because the binding grants permissions on all namespaces.
pub fn role(
    user: &Requester<'_>,
    manager: &str,
    configuration: &CapsuleConfigurationSpec,
    tenant_owners: &[impl AsRef<TenantOwner>],
    relations: &impl Relations,
) -> Role {
    if !manager.is_empty() && user.name == manager {
        return Role::Manager;
    }
    if user.is_in_group(MASTERS) || user.is_listed(&configuration.administrators) {
        return Role::Administrator;
    }
    if user.is_system() {
        return Role::Other;
    }
    if relations.is_bound() || relations.is_owner() {
        return Role::CapsuleUser;
    }
    if configuration.ignore_user_with_groups.iter().any(|group| user.is_in_group(group)) {
        return Role::Other;
    }
    let is_capsule_user = user.is_listed(&configuration.owners())
        || tenant_owners.iter().any(|owner| owner.as_ref().spec.aggregate)
        || account_namespace(user.name).is_some_and(|namespace| relations.is_member(namespace));
    if is_capsule_user { Role::CapsuleUser } else { Role::Other }
}

/// Returns whether a user owns a Tenant, by its spec or by one of `tenant_owners`, which refer to
/// the user.
pub fn owns(user: &Requester<'_>, tenant: &Tenant, tenant_owners: &[impl AsRef<TenantOwner>]) -> bool {
    let is_selected = || {
        let selectors = OwnerSelectors::of(tenant);
        tenant_owners.iter().any(|owner| selectors.matches(owner.as_ref()))
    };
    tenant.spec.owners.iter().any(|owner| user.is(owner.kind, &owner.name)) || is_selected()
}

/// Returns the ServiceAccounts that own a Tenant according to its status: promoted ones, and those in
/// its spec. Only the manager writes the status.
pub fn account_owners(tenant: &Tenant) -> impl Iterator<Item = &str> {
    let status = tenant.status.iter();
    let owners = status.flat_map(|status| {
        status.owners.iter().filter(|owner| {
            let namespace = account_namespace(&owner.name);
            owner.kind == OwnerKind::ServiceAccount
                && namespace.is_some_and(|namespace| status.namespaces.iter().any(|one| one == namespace))
        })
    });
    owners.map(|owner| owner.name.as_str())
}

/// Returns whether a user is one of the [`account_owners`] of a Tenant.
pub fn is_account_owner(user: &Requester<'_>, tenant: &Tenant) -> bool {
    account_owners(tenant).any(|name| name == user.name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const MANAGER: &str = "system:serviceaccount:ensemble-system:ensemble-manager";
    const NO_OWNERS: [Arc<TenantOwner>; 0] = [];

    #[test]
    fn accounts_in_namespaces_of_a_tenant_own_it_according_to_its_status() {
        let owner = |kind: &str, name: &str| json!({ "kind": kind, "name": name, "clusterRoles": [] });
        let tenant: Tenant = serde_json::from_value(json!({
            "metadata": { "name": "oil" }, "spec": {},
            "status": { "size": 1, "state": "Active", "namespaces": ["oil-dev"], "owners": [
                owner("ServiceAccount", "system:serviceaccount:oil-dev:deployer"),
                owner("ServiceAccount", "system:serviceaccount:gas-dev:deployer"),
                owner("User", "system:serviceaccount:oil-dev:other"), owner("User", "alice"),
            ] },
        }))
        .unwrap();
        assert_eq!(account_owners(&tenant).collect::<Vec<_>>(), ["system:serviceaccount:oil-dev:deployer"]);
        for (name, expected) in [
            ("system:serviceaccount:oil-dev:deployer", true),
            ("system:serviceaccount:gas-dev:deployer", false),
            ("system:serviceaccount:oil-dev:other", false),
            ("alice", false),
        ] {
            assert_eq!(is_account_owner(&Requester::of(&user(name, &[])), &tenant), expected, "{name}");
        }
    }

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

    /// Relations in a cluster whose namespace `oil-dev` belongs to a Tenant.
    #[derive(Clone, Copy, Default)]
    struct TestRelations {
        is_bound: bool,
        is_owner: bool,
    }

    impl Relations for TestRelations {
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

    fn role_by(user: &UserInfo, configuration: Value, tenant_owners: &[Arc<TenantOwner>]) -> Role {
        role_with(user, configuration, tenant_owners, TestRelations::default())
    }

    fn role_with(
        user: &UserInfo,
        configuration: Value,
        tenant_owners: &[Arc<TenantOwner>],
        relations: TestRelations,
    ) -> Role {
        let configuration = serde_json::from_value(configuration).unwrap();
        role(&Requester::of(user), MANAGER, &configuration, tenant_owners, &relations)
    }

    fn role_of(user: &UserInfo) -> Role {
        role_by(user, json!({}), &NO_OWNERS)
    }

    fn owned(user: &UserInfo, spec: Value) -> bool {
        owns(&Requester::of(user), &tenant(spec), &NO_OWNERS)
    }

    #[test]
    fn default_group_is_used_without_configuration() {
        assert_eq!(role_of(&user("alice", &["projectcapsule.dev"])), Role::CapsuleUser);
        assert_eq!(role_of(&user("alice", &["system:authenticated"])), Role::Other);
        assert_eq!(role_of(&user("root", &["system:masters", "projectcapsule.dev"])), Role::Administrator);
        assert_eq!(role_of(&account("ensemble-system", "ensemble-manager")), Role::Manager);
        assert_eq!(role_of(&UserInfo::default()), Role::Other);
    }

    /// The name of the manager is empty if the API server does not report it.
    #[test]
    fn user_without_name_is_not_the_manager() {
        let found = role(
            &Requester::of(&UserInfo::default()),
            "",
            &CapsuleConfigurationSpec::default(),
            &NO_OWNERS,
            &TestRelations::default(),
        );
        assert_eq!(found, Role::Other);
    }

    #[test]
    fn configuration_lists_users_groups_and_service_accounts() {
        let users = json!({ "users": [
            { "kind": "User", "name": "alice" },
            { "kind": "ServiceAccount", "name": "system:serviceaccount:ci:builder" },
        ] });
        assert_eq!(role_by(&user("alice", &[]), users.clone(), &NO_OWNERS), Role::CapsuleUser);
        assert_eq!(role_by(&account("ci", "builder"), users.clone(), &NO_OWNERS), Role::CapsuleUser);
        assert_eq!(role_by(&account("cd", "builder"), users.clone(), &NO_OWNERS), Role::Other);
        assert_eq!(role_by(&user("carol", &["projectcapsule.dev"]), users, &NO_OWNERS), Role::Other);
        let deprecated = json!({ "userNames": ["alice"], "userGroups": ["devs"] });
        assert_eq!(role_by(&user("alice", &[]), deprecated.clone(), &NO_OWNERS), Role::CapsuleUser);
        assert_eq!(role_by(&user("bob", &["devs"]), deprecated.clone(), &NO_OWNERS), Role::CapsuleUser);
        assert_eq!(role_by(&user("devs", &["alice"]), deprecated, &NO_OWNERS), Role::Other);
    }

    #[test]
    fn administrator_takes_precedence_over_other_roles() {
        let configuration = json!({
            "administrators": [{ "kind": "Group", "name": "platform" }, { "kind": "User", "name": "eve" }],
            "ignoreUserWithGroups": ["platform"],
        });
        let found = |user: &UserInfo| role_by(user, configuration.clone(), &NO_OWNERS);
        assert_eq!(found(&user("dan", &["platform", "projectcapsule.dev"])), Role::Administrator);
        assert_eq!(found(&user("eve", &[])), Role::Administrator);
        assert_eq!(found(&account("oil-dev", "eve")), Role::CapsuleUser);
    }

    #[test]
    fn members_of_ignored_groups_are_not_capsule_users() {
        let configuration = json!({ "ignoreUserWithGroups": ["robots"] });
        let robot = user("r2", &["projectcapsule.dev", "robots"]);
        assert_eq!(role_by(&robot, configuration, &NO_OWNERS), Role::Other);
    }

    #[test]
    fn bound_users_and_owners_are_capsule_users_even_if_ignored() {
        let ignored =
            json!({ "ignoreUserWithGroups": ["robots"], "users": [{ "kind": "User", "name": "carol" }] });
        let bound = TestRelations { is_bound: true, ..TestRelations::default() };
        let owner = TestRelations { is_owner: true, ..TestRelations::default() };
        for relations in [bound, owner] {
            let found = |user: &UserInfo| role_with(user, ignored.clone(), &NO_OWNERS, relations);
            for user in [user("alice", &[]), user("r2", &["robots"]), account("ci", "builder")] {
                assert_eq!(found(&user), Role::CapsuleUser, "{user:?}");
            }
            assert_eq!(found(&user("root", &["system:masters"])), Role::Administrator);
            assert_eq!(found(&account("ensemble-system", "ensemble-manager")), Role::Manager);
            assert_eq!(found(&account("kube-system", "namespace-controller")), Role::Other);
        }
    }

    #[test]
    fn service_accounts_of_tenants_are_capsule_users_and_those_of_the_control_plane_are_not() {
        assert_eq!(role_of(&account("oil-dev", "default")), Role::CapsuleUser);
        assert_eq!(role_of(&account("shop", "default")), Role::Other);
        let controller = account("kube-system", "namespace-controller");
        let configuration = json!({ "users": [{ "kind": "Group", "name": "system:serviceaccounts" }] });
        assert_eq!(role_by(&controller, configuration, &NO_OWNERS), Role::Other);
        // Names that are not those of ServiceAccounts.
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev", &[])), Role::Other);
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev:", &[])), Role::Other);
        assert_eq!(role_of(&user("system:serviceaccount:oil-dev:a:b", &[])), Role::Other);
    }

    #[test]
    fn tenant_owner_is_a_capsule_user_unless_not_aggregated() {
        let bob = user("bob", &[]);
        let as_owner = |aggregate: bool| {
            [owner(json!({}), json!({ "kind": "User", "name": "bob", "aggregate": aggregate }))]
        };
        assert_eq!(role_by(&bob, json!({}), &as_owner(true)), Role::CapsuleUser);
        assert_eq!(role_by(&bob, json!({}), &as_owner(false)), Role::Other);
    }

    #[test]
    fn owners_are_compared_by_kind_and_exact_name() {
        let alice = |kind: &str| json!({ "owners": [{ "kind": kind, "name": "alice" }] });
        assert!(owned(&user("alice", &[]), alice("User")));
        assert!(!owned(&user("Alice", &[]), alice("User")));
        assert!(!owned(&user("alice", &[]), alice("Group")));
        assert!(owned(&user("bob", &["alice"]), alice("Group")));
        assert!(!owned(&user("bob", &["alice"]), alice("User")));
        assert!(!owned(&user("alice", &[]), alice("ServiceAccount")), "not the name of a ServiceAccount");
    }

    /// CVE-2023-46254: the namespace is part of the identity of a ServiceAccount.
    #[test]
    fn cve_2023_46254_service_accounts_of_equal_name_in_two_namespaces_differ() {
        let solar = json!({ "owners": [{
            "kind": "ServiceAccount", "name": "system:serviceaccount:solar:tenant-owner",
        }] });
        assert!(owned(&account("solar", "tenant-owner"), solar.clone()));
        assert!(!owned(&account("wind", "tenant-owner"), solar.clone()));
        for name in ["tenant-owner", "solar-tenant-owner", "solar:tenant-owner", "solar/tenant-owner"] {
            assert!(!owned(&user(name, &["solar", "system:serviceaccounts:solar"]), solar.clone()), "{name}");
        }
        let found: Vec<_> = Requester::of(&account("wind", "tenant-owner"))
            .subjects()
            .filter(|subject| subject.kind != OwnerKind::Group)
            .map(|subject| subject.name)
            .collect();
        assert_eq!(found, ["system:serviceaccount:wind:tenant-owner"; 2], "a User and a ServiceAccount");
    }

    #[test]
    fn selected_tenant_owner_owns_the_tenant() {
        let oil = tenant(json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "oil" } }] } }));
        let bob = json!({ "kind": "User", "name": "bob" });
        let user = user("bob", &[]);
        for (labels, is_owner) in [
            (json!({ "team": "oil" }), true),
            (json!({ "projectcapsule.dev/tenant": "oil" }), true),
            (json!({ "team": "gas" }), false),
        ] {
            assert_eq!(owns(&Requester::of(&user), &oil, &[owner(labels, bob.clone())]), is_owner);
        }
    }
}
