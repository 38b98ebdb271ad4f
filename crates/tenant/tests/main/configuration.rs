//! The CapsuleConfiguration and the cluster roles of owners.

use std::{fmt::Debug, sync::Arc};

use capsule::api::{
    proxy_settings::{GlobalProxySettings, ProxySetting},
    v1beta2::{CapsuleConfiguration, TenantOwner},
};
use cluster::wait::eventually;
use harness::{
    Harness,
    status::{assert_repairs, edits, patch_status},
};
use k8s_openapi::{
    ClusterResourceScope,
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use operator_core::conditions::find;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, to_value};
use tenant::ConfigurationController;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{TIMEOUT, TestEnv};

const PROVISIONER: &str = "capsule-namespace-provisioner";
const DELETER: &str = "capsule-namespace-deleter";
/// Namespace of the manager.
const NAMESPACE: &str = "ensemble-system";

/// A cluster has one configuration, so only one test at a time may change it.
static LOCK: Mutex<()> = Mutex::const_new(());

struct ConfigurationEnv {
    base: TestEnv,
    harness: Arc<Harness>,
    _guard: MutexGuard<'static, ()>,
}

impl ConfigurationEnv {
    /// Resets the configuration to the one that the controller creates.
    async fn new() -> Self {
        let guard = LOCK.lock().await;
        let base = TestEnv::new().await;
        let harness = harness::controller::<ConfigurationController>().await.unwrap();
        let env = Self { base, harness, _guard: guard };
        let was = env.configurations().get_opt("default").await.unwrap();
        if let Some(was) = was {
            env.configurations().delete("default", &DeleteParams::default()).await.unwrap();
            env.until("the configuration to be recreated", |now| now.uid() != was.uid()).await;
        }
        env.until_ready().await;
        env
    }

    fn configurations(&self) -> Api<CapsuleConfiguration> {
        self.all()
    }

    fn all<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.base.client.clone())
    }

    async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.configurations().patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until(&self, what: &str, is_so: impl Fn(&CapsuleConfiguration) -> bool) -> CapsuleConfiguration {
        self.until_one::<CapsuleConfiguration>("default", what, is_so).await
    }

    async fn until_one<K>(&self, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        eventually(&format!("{} {name} {what}", K::kind(&())), TIMEOUT, async || {
            let there = self.all::<K>().get_opt(name).await?;
            Ok(match there {
                Some(there) if is_so(&there) => Ok(there),
                other => Err(serde_json::to_string(&other)),
            })
        })
        .await
        .unwrap()
    }

    async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        eventually(&format!("{} {name} to be gone", K::kind(&())), TIMEOUT, async || {
            Ok(self.all::<K>().get_opt(name).await?.is_none())
        })
        .await
        .unwrap();
    }

    async fn until_condition(&self, status: &str, text: &str) -> CapsuleConfiguration {
        self.until(&format!("to be {status} with {text:?}"), |configuration| {
            let observed = configuration.status.as_ref().and_then(|status| status.observed_generation);
            configuration.status.is_some()
                && observed == configuration.metadata.generation
                && ready(configuration).is_some_and(|(is, message)| is == status && message.contains(text))
        })
        .await
    }

    async fn until_ready(&self) -> CapsuleConfiguration {
        self.until_condition("True", "").await
    }

    /// Returns a unique name.
    fn prefixed(&self, suffix: &str) -> String {
        self.base.prefixed(suffix)
    }

    /// Permits the manager to update and delete cluster roles and bindings with these names, as
    /// documented.
    async fn permit(&self, names: &[&str]) {
        let name = self.prefixed("names");
        let (resources, verbs) = ("--resource=clusterroles,clusterrolebindings", "--verb=update,delete");
        let names: Vec<_> = names.iter().map(|name| format!("--resource-name={name}")).collect();
        let mut args = vec!["create", "clusterrole", &name, resources, verbs];
        args.extend(names.iter().map(String::as_str));
        self.base.kubectl(&args).await.unwrap();
        let (role, user) = (format!("--clusterrole={name}"), format!("--user={}", self.harness.user));
        self.base.kubectl(&["create", "clusterrolebinding", &name, &role, &user]).await.unwrap();
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        self.all::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap()
    }

    /// Returns the writes of the controller.
    fn writes(&self, since: Timestamp) -> Vec<String> {
        let log = self.harness.requests().unwrap();
        let log =
            log.filter(|entry| entry.is_write() && entry.time > since && entry.group != "events.k8s.io");
        let text = log.entries.iter();
        text.map(|entry| format!("{} {} {}", entry.verb, entry.resource, entry.name)).collect()
    }
}

fn ready(configuration: &CapsuleConfiguration) -> Option<(String, String)> {
    let conditions = &configuration.status.as_ref()?.conditions;
    find(conditions, "Ready").map(|ready| (ready.status.clone(), ready.message.clone()))
}

fn verbs(role: &ClusterRole) -> Vec<String> {
    role.rules.iter().flatten().flat_map(|rule| rule.verbs.clone()).collect()
}

fn subjects(binding: &ClusterRoleBinding) -> Vec<String> {
    binding.subjects.iter().flatten().map(|subject| subject.name.clone()).collect()
}

#[tokio::test]
async fn creates_configuration_and_roles_by_default() {
    let env = ConfigurationEnv::new().await;
    let configuration = env.until_ready().await;
    let account = &configuration.spec.impersonation.as_ref().unwrap()["tenantDefaultServiceAccount"];
    assert_eq!(account, "default", "as in the chart of Capsule");
    let users = to_value(&configuration.status.unwrap().users).unwrap();
    assert_eq!(users, json!([{ "kind": "Group", "name": "projectcapsule.dev" }]));
    let role = env.all::<ClusterRole>().get(PROVISIONER).await.unwrap();
    assert_eq!(verbs(&role), ["create", "patch"]);
    assert_eq!(verbs(&env.all::<ClusterRole>().get(DELETER).await.unwrap()), ["delete"]);

    let group = ["projectcapsule.dev"];
    let alice = env.harness.cluster.client_as("alice", &group).await.unwrap();
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": env.prefixed("dry") } })).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("an owner to be allowed to create namespaces", TIMEOUT, async || {
        Api::<Namespace>::all(alice.clone()).create(&dry, &namespace).await?;
        Ok(true)
    })
    .await
    .unwrap();
    let eve = env.harness.cluster.client_as("eve", &[]).await.unwrap();
    let error = Api::<Namespace>::all(eve).create(&dry, &namespace).await;
    assert!(error.unwrap_err().to_string().contains("forbidden"));
}

#[tokio::test]
async fn repairs_changed_roles_and_recreates_deleted_ones() {
    let env = ConfigurationEnv::new().await;
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let patch = Patch::Merge(json!({ "rules": all, "metadata": { "labels": { "note": "mine" } } }));
    env.all::<ClusterRole>().patch(DELETER, &PatchParams::default(), &patch).await.unwrap();
    let repaired =
        env.until_one::<ClusterRole>(DELETER, "to be repaired", |role| verbs(role) == ["delete"]).await;
    assert_eq!(repaired.labels()["note"], "mine");

    let hide = Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }));
    env.all::<ClusterRole>().patch(PROVISIONER, &PatchParams::default(), &hide).await.unwrap();
    let is_ours = |role: &ClusterRole| role.labels().contains_key("app.kubernetes.io/managed-by");
    env.until_one::<ClusterRole>(PROVISIONER, "to be labelled again", is_ours).await;

    let bindings = env.all::<ClusterRoleBinding>();
    bindings.delete(PROVISIONER, &DeleteParams::default()).await.unwrap();
    let other = json!({
        "metadata": { "name": PROVISIONER, "labels": { "app.kubernetes.io/managed-by": "ensemble" },
            "annotations": { "capsule.clastix.io/configuration": "default" } },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    });
    // Fails if the controller recreates the binding first.
    let _ = bindings.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await;
    let is_right = |binding: &ClusterRoleBinding| {
        binding.role_ref.name == PROVISIONER && subjects(binding) == ["projectcapsule.dev"]
    };
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind the group", is_right).await;
}

/// Otherwise former users could patch every namespace until the conflict with the role is resolved.
#[tokio::test]
async fn unbinds_removed_users_even_if_the_role_cannot_be_created() {
    let env = ConfigurationEnv::new().await;
    let user = |name: &str| json!({ "kind": "User", "name": name });
    env.change(json!({ "users": [user("alice"), user("bob")] })).await;
    let bound = |names: &'static [&str]| move |binding: &ClusterRoleBinding| subjects(binding) == names;
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind both", bound(&["alice", "bob"])).await;
    let taken = env.prefixed("taken");
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    env.create::<ClusterRole>(json!({ "metadata": { "name": taken }, "rules": rules })).await;
    env.change(json!({ "users": [user("alice"), user("carol")], "rbac": { "provisioner": taken } })).await;
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to unbind bob", bound(&["alice"])).await;
    env.until_condition("False", "exists and is not owned by this object").await;
}

#[tokio::test]
async fn binds_and_reports_users_administrators_and_aggregated_owners() {
    let env = ConfigurationEnv::new().await;
    let (owner, quiet) = (env.prefixed("owner"), env.prefixed("quiet"));
    let account = "system:serviceaccount:solar:owner";
    let spec = json!({ "kind": "ServiceAccount", "name": account });
    env.create::<TenantOwner>(json!({ "metadata": { "name": owner }, "spec": spec })).await;
    let spec = json!({ "kind": "User", "name": "quiet", "aggregate": false });
    env.create::<TenantOwner>(json!({ "metadata": { "name": quiet }, "spec": spec })).await;
    let users = json!([{ "kind": "User", "name": "alice" }]);
    let administrators = json!([{ "kind": "Group", "name": "operators" }]);
    env.change(json!({ "users": users, "userGroups": ["devs"], "administrators": administrators })).await;
    let configuration = env
        .until("to list the users", |configuration| {
            let users = configuration.status.iter().flat_map(|status| &status.users);
            users.map(|user| user.name.as_str()).eq(["alice", "devs", account])
        })
        .await;
    assert_eq!(ready(&configuration).unwrap().0, "True");
    let bound = |binding: &ClusterRoleBinding| {
        let mut names = subjects(binding);
        names.sort();
        names == ["alice", "devs", "operators", "owner"]
    };
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind all", bound).await;
    for name in [owner, quiet] {
        env.all::<TenantOwner>().delete(&name, &DeleteParams::default()).await.unwrap();
    }
    let without = |binding: &ClusterRoleBinding| subjects(binding).len() == 3;
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to unbind the owner", without).await;
}

#[tokio::test]
async fn renames_roles_and_needs_permissions_to_update_them() {
    let env = ConfigurationEnv::new().await;
    let (provisioner, deleter) = (env.prefixed("provisioner"), env.prefixed("deleter"));
    env.change(json!({ "rbac": { "provisioner": provisioner, "deleter": deleter } })).await;
    env.until_ready().await;
    env.until_gone::<ClusterRole>(DELETER).await;
    env.until_gone::<ClusterRole>(PROVISIONER).await;
    env.until_gone::<ClusterRoleBinding>(PROVISIONER).await;
    let binding = env.all::<ClusterRoleBinding>().get(&provisioner).await.unwrap();
    assert_eq!(binding.role_ref.name, provisioner);

    env.change(json!({ "userNames": ["alice"] })).await;
    env.until_condition("False", "it is allowed to manage the default names").await;
    env.permit(&[&provisioner, &deleter]).await;
    // A change of the spec triggers a reconcile before the retry.
    env.change(json!({ "userNames": ["alice", "bob"] })).await;
    env.until_ready().await;
    let bound = |binding: &ClusterRoleBinding| subjects(binding) == ["alice", "bob"];
    env.until_one::<ClusterRoleBinding>(&provisioner, "to bind both", bound).await;

    env.change(json!({ "rbac": null })).await;
    env.until_ready().await;
    env.until_gone::<ClusterRole>(&deleter).await;
    env.until_gone::<ClusterRole>(&provisioner).await;
    env.until_gone::<ClusterRoleBinding>(&provisioner).await;
    env.all::<ClusterRole>().get(DELETER).await.unwrap();
}

#[tokio::test]
async fn adopts_roles_of_capsule_but_not_foreign_roles() {
    let env = ConfigurationEnv::new().await;
    let (theirs, foreign) = (env.prefixed("theirs"), env.prefixed("foreign"));
    env.permit(&[&theirs, &foreign]).await;
    let rules = |verbs: Value| json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": verbs }]);
    let labels = json!({ "projectcapsule.dev/created-by": "rbac-controller" });
    let role = json!({ "metadata": { "name": theirs, "labels": labels }, "rules": rules(json!(["create"])) });
    env.create::<ClusterRole>(role).await;
    let binding = json!({
        "metadata": { "name": theirs, "labels": labels },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": theirs },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody" }],
    });
    env.create::<ClusterRoleBinding>(binding).await;
    let role = json!({ "metadata": { "name": foreign }, "rules": rules(json!(["get"])) });
    let before = env.create::<ClusterRole>(role).await;

    env.change(json!({ "rbac": { "provisioner": theirs } })).await;
    env.until_ready().await;
    let taken = env.all::<ClusterRole>().get(&theirs).await.unwrap();
    assert_eq!(verbs(&taken), ["create", "patch"]);
    assert_eq!(
        taken.labels()["projectcapsule.dev/created-by"],
        "rbac-controller",
        "so that Capsule can be reinstalled"
    );
    let binding = env.all::<ClusterRoleBinding>().get(&theirs).await.unwrap();
    assert_eq!(subjects(&binding), ["projectcapsule.dev"]);

    for rbac in [json!({ "deleter": foreign }), json!({ "deleter": DELETER, "provisioner": foreign })] {
        env.change(json!({ "rbac": rbac })).await;
        let text = format!("ClusterRole {foreign} exists and is not owned by this object");
        env.until_condition("False", &text).await;
    }
    let after = env.all::<ClusterRole>().get(&foreign).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert!(env.all::<ClusterRoleBinding>().get_opt(&foreign).await.unwrap().is_none(), "no binding exists");
    env.change(json!({ "rbac": null })).await;
    env.until_ready().await;
    env.until_gone::<ClusterRole>(&theirs).await;
}

#[tokio::test]
async fn reports_that_another_configuration_has_no_effect() {
    let env = ConfigurationEnv::new().await;
    let name = env.prefixed("other");
    let spec = json!({ "userNames": ["mallory"], "rbac": { "provisioner": env.prefixed("p") } });
    env.create::<CapsuleConfiguration>(json!({ "metadata": { "name": name }, "spec": spec })).await;
    let says = |configuration: &CapsuleConfiguration| {
        ready(configuration).is_some_and(|(is, message)| is == "False" && message.contains("has no effect"))
    };
    env.until_one::<CapsuleConfiguration>(&name, "to report it", says).await;
    let tenants = ["get", "capsuleconfiguration", &name, "--output=jsonpath={.status.tenants}"];
    assert_eq!(env.base.kubectl(&tenants).await.unwrap(), "[]", "an empty list, and not absent");
    let default = env.until_ready().await;
    assert!(default.status.unwrap().users.iter().all(|user| user.name != "mallory"));
    assert!(env.all::<ClusterRole>().get_opt(&env.prefixed("p")).await.unwrap().is_none());
    env.configurations().delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn lists_tenants_of_owners_and_ignores_unrelated_changes() {
    let env = ConfigurationEnv::new().await;
    let name = env.base.name.clone();
    let selecting = json!({ "matchOwners": [{ "matchLabels": { "team": name } }] });
    env.base.create(json!({ "permissions": selecting })).await;
    let lists = |configuration: &CapsuleConfiguration| {
        let tenants = configuration.status.iter().flat_map(|status| &status.tenants);
        tenants.collect::<Vec<_>>().contains(&&name)
    };
    env.until("to list the Tenant", lists).await;
    let owner = env.prefixed("owner");
    let metadata = json!({ "name": owner, "labels": { "team": name } });
    let spec = json!({ "kind": "User", "name": "anna" });
    env.create::<TenantOwner>(json!({ "metadata": metadata, "spec": spec })).await;
    let has = |tenants: &'static [&'static str]| {
        let tenants: Vec<_> = tenants.iter().map(|_| name.clone()).collect();
        move |owner: &TenantOwner| {
            owner
                .status
                .as_ref()
                .is_some_and(|status| status.tenants == tenants && status.conditions[0].status == "True")
        }
    };
    env.until_one::<TenantOwner>(&owner, "to have the Tenant", has(&["it"])).await;

    // Neither a new namespace nor another field changes the owners.
    env.until_ready().await;
    let before = Timestamp::now();
    env.base.join("a").await;
    env.base.change(json!({ "nodeSelector": { "pool": "a" } })).await;
    env.base.until_ready(&["a"]).await;
    let ours = |write: &&String| write.contains(&name);
    assert_eq!(env.writes(before).iter().filter(ours).count(), 0);

    env.base.change(json!({ "permissions": null })).await;
    env.until_one::<TenantOwner>(&owner, "to have lost the Tenant", has(&[])).await;
    env.all::<TenantOwner>().delete(&owner, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn accepts_configuration_of_the_capsule_chart() {
    let env = ConfigurationEnv::new().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chart-configuration.yaml");
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", file];
    env.base.kubectl(&apply).await.unwrap();
    let configuration = env.until_condition("True", "spec.admission has no effect").await;
    let conditions = configuration.status.unwrap().conditions;
    let enforced = find(&conditions, "FieldsEnforced").unwrap();
    assert_eq!(enforced.status, "True", "{}", enforced.message);
}

#[tokio::test]
async fn rejects_or_reports_invalid_configuration() {
    let env = ConfigurationEnv::new().await;
    for (spec, text) in [
        (json!({ "rbac": { "deleter": "one", "provisioner": "one" } }), "need two names"),
        (json!({ "protectedNamespaceRegex": "(" }), "a pattern must be valid RE2 syntax"),
    ] {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let error = env.configurations().patch("default", &PatchParams::default(), &patch).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    // The API server accepts patterns that the manager does not support.
    env.change(json!({ "protectedNamespaceRegex": "\\Qa\\E" })).await;
    env.until_condition("False", "spec.protectedNamespaceRegex: invalid pattern").await;
    env.change(json!({ "protectedNamespaceRegex": "" })).await;
    env.until_ready().await;
    let malformed = json!([{ "kind": "ServiceAccount", "name": "x" }, { "kind": "User", "name": "anna" }]);
    env.change(json!({ "users": malformed })).await;
    env.until_condition("False", "the name of a ServiceAccount must have the form").await;
    let bound = |binding: &ClusterRoleBinding| subjects(binding) == ["anna"];
    env.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind the valid user", bound).await;
}

#[tokio::test]
async fn repairs_statuses_that_were_changed_by_hand_and_then_writes_nothing() {
    let env = ConfigurationEnv::new().await;
    let owner = env.prefixed("owner");
    let spec = json!({ "kind": "User", "name": "anna" });
    env.create::<TenantOwner>(json!({ "metadata": { "name": owner }, "spec": spec })).await;
    let has_status = |owner: &TenantOwner| owner.status.is_some();
    env.until_one::<TenantOwner>(&owner, "to have a status", has_status).await;
    env.until("to list the user", |configuration| {
        configuration.status.iter().flat_map(|status| &status.users).any(|user| user.name == "anna")
    })
    .await;
    let before = Timestamp::now();
    let of_owner = edits("/status/conditions/0/status", json!("False"));
    assert_repairs(&env.all::<TenantOwner>(), &owner, &of_owner).await.unwrap();

    // Other tests change its list of Tenants.
    for edit in edits("/status/users", json!([{ "kind": "User", "name": "mallory" }])) {
        patch_status(&env.configurations(), "default", &edit).await.unwrap();
        env.until(&format!("to be repaired after {edit}"), |configuration| {
            let status = configuration.status.clone().unwrap_or_default();
            let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
            let users: Vec<_> = status.users.iter().map(|user| user.name.as_str()).collect();
            types == ["Ready", "FieldsEnforced"] && users.contains(&"anna") && !users.contains(&"mallory")
        })
        .await;
    }

    let writes = env.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.time > before && entry.name == owner).entries;
    assert_eq!(writes.len(), of_owner.len(), "{writes:?}");
    // Other tests count the users.
    env.all::<TenantOwner>().delete(&owner, &DeleteParams::default()).await.unwrap();
    env.until("to remove the user", |configuration| {
        configuration.status.iter().flat_map(|status| &status.users).all(|user| user.name != "anna")
    })
    .await;
}

#[tokio::test]
async fn reports_whether_the_proxy_can_show_what_settings_grant() {
    let env = ConfigurationEnv::new().await;
    let name = env.prefixed("proxy");
    let rules = |selector: Value| {
        let resource = json!({ "apiGroups": [""], "resources": ["nodes"], "selector": selector });
        json!([{ "subjects": [{ "kind": "User", "name": "anna" }], "clusterResources": [resource] }])
    };
    let api = env.all::<GlobalProxySettings>();
    let change = async |selector: Value| {
        let patch = Patch::Merge(json!({ "spec": { "rules": rules(selector) } }));
        api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    let has = |status: &'static str, reason: &'static str| {
        move |settings: &GlobalProxySettings| {
            let conditions = settings.status.iter().flat_map(|status| &status.conditions);
            let generation = settings.metadata.generation;
            conditions.into_iter().any(|ready| {
                (ready.status.as_str(), ready.reason.as_str()) == (status, reason)
                    && ready.observed_generation == generation
            })
        }
    };
    let spec = json!({ "rules": rules(json!({ "matchLabels": { "pool": "a" } })) });
    env.create::<GlobalProxySettings>(json!({ "metadata": { "name": name }, "spec": spec })).await;
    env.until_one(&name, "to lack a right", has("False", "MissingRight")).await;
    change(json!({})).await;
    env.until_one(&name, "to have an empty selector", has("False", "Failed")).await;

    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "ensemble-proxy" }],
    });
    let rule = json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] });
    env.create::<ClusterRole>(json!({ "metadata": { "name": name }, "rules": [rule] })).await;
    env.create::<ClusterRoleBinding>(binding).await;
    change(json!({ "matchLabels": { "pool": "b" } })).await;
    env.until_one(&name, "to be ready", has("True", "Succeeded")).await;
    for (kind, result) in [
        ("GlobalProxySettings", api.delete(&name, &DeleteParams::default()).await.map(drop)),
        ("ClusterRole", env.all::<ClusterRole>().delete(&name, &DeleteParams::default()).await.map(drop)),
    ] {
        result.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
    env.all::<ClusterRoleBinding>().delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn proxy_setting_needs_a_namespace_of_a_tenant() {
    let env = ConfigurationEnv::new().await;
    env.base.create(json!({})).await;
    let namespace = env.base.join("guests").await.name_any();
    env.base.until_ready(&["guests"]).await;
    let settings = json!({
        "metadata": { "name": "guests" }, "spec": { "subjects": [{ "kind": "User", "name": "anna" }] },
    });
    let create = async |namespace: &str| {
        let api = Api::<ProxySetting>::namespaced(env.base.client.clone(), namespace);
        let settings = serde_json::from_value(settings.clone()).unwrap();
        api.create(&PostParams::default(), &settings).await.unwrap();
        api
    };
    for (namespace, status, reason) in
        [(namespace.as_str(), "True", "Succeeded"), ("default", "False", "NotInTenant")]
    {
        let api = create(namespace).await;
        eventually("the status of the ProxySetting", TIMEOUT, async || {
            let found = api.get("guests").await?;
            let conditions = found.status.map(|status| status.conditions).unwrap_or_default();
            let ready = conditions.first().map(|ready| (ready.status.clone(), ready.reason.clone()));
            Ok(ready == Some((status.to_owned(), reason.to_owned())))
        })
        .await
        .unwrap();
        api.delete("guests", &DeleteParams::default()).await.unwrap();
    }
}
