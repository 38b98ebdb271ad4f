//! What holds for all Tenants: the configuration and the cluster roles of owners.

use std::{fmt::Debug, sync::Arc};

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
use tenant::{
    ConfigurationController,
    api::v1beta2::{CapsuleConfiguration, TenantOwner},
};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{PATIENCE, World};

const PROVISIONER: &str = "capsule-namespace-provisioner";
const DELETER: &str = "capsule-namespace-deleter";

/// There is one configuration in a cluster, and one test at a time that changes it.
static TURN: Mutex<()> = Mutex::const_new(());

struct Stage {
    world: World,
    harness: Arc<Harness>,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// With the configuration as it is made when it is missing.
    async fn new() -> Self {
        let turn = TURN.lock().await;
        let world = World::new().await;
        let harness = harness::controller::<ConfigurationController>().await.unwrap();
        let stage = Self { world, harness, _turn: turn };
        let was = stage.configurations().get_opt("default").await.unwrap();
        if let Some(was) = was {
            stage.configurations().delete("default", &DeleteParams::default()).await.unwrap();
            stage.until("the configuration to be made anew", |now| now.uid() != was.uid()).await;
        }
        stage.until_ready().await;
        stage
    }

    fn configurations(&self) -> Api<CapsuleConfiguration> {
        self.all()
    }

    fn all<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.world.client.clone())
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
        eventually(&format!("{} {name} {what}", K::kind(&())), PATIENCE, async || {
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
        eventually(&format!("{} {name} to be gone", K::kind(&())), PATIENCE, async || {
            Ok(self.all::<K>().get_opt(name).await?.is_none())
        })
        .await
        .unwrap();
    }

    async fn until_said(&self, status: &str, words: &str) -> CapsuleConfiguration {
        self.until(&format!("to be {status} with {words:?}"), |configuration| {
            let said = configuration.status.as_ref();
            said.is_some_and(|said| said.observed_generation == configuration.metadata.generation)
                && ready(configuration).is_some_and(|(is, message)| is == status && message.contains(words))
        })
        .await
    }

    async fn until_ready(&self) -> CapsuleConfiguration {
        self.until_said("True", "").await
    }

    /// A name that no other test has.
    fn named(&self, end: &str) -> String {
        self.world.named(end)
    }

    /// Lets the manager keep cluster roles and bindings of these names, as the documentation says.
    async fn permit(&self, names: &[&str]) {
        let name = self.named("names");
        let (resources, verbs) = ("--resource=clusterroles,clusterrolebindings", "--verb=update,delete");
        let names: Vec<_> = names.iter().map(|name| format!("--resource-name={name}")).collect();
        let mut args = vec!["create", "clusterrole", &name, resources, verbs];
        args.extend(names.iter().map(String::as_str));
        self.world.kubectl(&args).await.unwrap();
        let (role, user) = (format!("--clusterrole={name}"), format!("--user={}", self.harness.user));
        self.world.kubectl(&["create", "clusterrolebinding", &name, &role, &user]).await.unwrap();
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

    /// What the controller has written since then.
    fn writes(&self, since: Timestamp) -> Vec<String> {
        let log = self.harness.requests().unwrap();
        let log =
            log.filter(|entry| entry.is_write() && entry.time > since && entry.group != "events.k8s.io");
        let words = log.entries.iter();
        words.map(|entry| format!("{} {} {}", entry.verb, entry.resource, entry.name)).collect()
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
async fn the_configuration_and_the_roles_are_there_without_anybody_asking() {
    let stage = Stage::new().await;
    let configuration = stage.until_ready().await;
    let users = to_value(&configuration.status.unwrap().users).unwrap();
    assert_eq!(users, json!([{ "kind": "Group", "name": "projectcapsule.dev" }]));
    let role = stage.all::<ClusterRole>().get(PROVISIONER).await.unwrap();
    assert_eq!(verbs(&role), ["create", "patch"]);
    assert_eq!(verbs(&stage.all::<ClusterRole>().get(DELETER).await.unwrap()), ["delete"]);

    let group = ["projectcapsule.dev"];
    let alice = stage.harness.cluster.client_as("alice", &group).await.unwrap();
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": stage.named("dry") } })).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("an owner to be allowed to create namespaces", PATIENCE, async || {
        Api::<Namespace>::all(alice.clone()).create(&dry, &namespace).await?;
        Ok(true)
    })
    .await
    .unwrap();
    let eve = stage.harness.cluster.client_as("eve", &[]).await.unwrap();
    let refused = Api::<Namespace>::all(eve).create(&dry, &namespace).await;
    assert!(refused.unwrap_err().to_string().contains("forbidden"));
}

#[tokio::test]
async fn what_is_changed_by_hand_is_put_right_and_what_is_deleted_is_made_anew() {
    let stage = Stage::new().await;
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let patch = Patch::Merge(json!({ "rules": all, "metadata": { "labels": { "note": "mine" } } }));
    stage.all::<ClusterRole>().patch(DELETER, &PatchParams::default(), &patch).await.unwrap();
    let repaired =
        stage.until_one::<ClusterRole>(DELETER, "to be put right", |role| verbs(role) == ["delete"]).await;
    assert_eq!(repaired.labels()["note"], "mine");

    let hide = Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }));
    stage.all::<ClusterRole>().patch(PROVISIONER, &PatchParams::default(), &hide).await.unwrap();
    let is_ours = |role: &ClusterRole| role.labels().contains_key("app.kubernetes.io/managed-by");
    stage.until_one::<ClusterRole>(PROVISIONER, "to be labelled again", is_ours).await;

    let bindings = stage.all::<ClusterRoleBinding>();
    bindings.delete(PROVISIONER, &DeleteParams::default()).await.unwrap();
    let other = json!({
        "metadata": { "name": PROVISIONER, "labels": { "app.kubernetes.io/managed-by": "ensemble" },
            "annotations": { "capsule.clastix.io/configuration": "default" } },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    });
    // DeletePrecondition the controller is quicker, a binding to another role is in its place.
    let _ = bindings.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await;
    let is_right = |binding: &ClusterRoleBinding| {
        binding.role_ref.name == PROVISIONER && subjects(binding) == ["projectcapsule.dev"]
    };
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind the group", is_right).await;
}

/// Else they could patch every namespace until somebody makes room for the role.
#[tokio::test]
async fn who_is_no_user_any_more_is_unbound_although_the_role_cannot_be_made() {
    let stage = Stage::new().await;
    let user = |name: &str| json!({ "kind": "User", "name": name });
    stage.change(json!({ "users": [user("alice"), user("bob")] })).await;
    let bound = |names: &'static [&str]| move |binding: &ClusterRoleBinding| subjects(binding) == names;
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind both", bound(&["alice", "bob"])).await;
    let taken = stage.named("taken");
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    stage.create::<ClusterRole>(json!({ "metadata": { "name": taken }, "rules": rules })).await;
    stage.change(json!({ "users": [user("alice"), user("carol")], "rbac": { "provisioner": taken } })).await;
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to let bob go", bound(&["alice"])).await;
    stage.until_said("False", "exists and is not ours").await;
}

#[tokio::test]
async fn users_administrators_and_aggregated_owners_may_create_namespaces_and_are_told() {
    let stage = Stage::new().await;
    let (owner, quiet) = (stage.named("owner"), stage.named("quiet"));
    let account = "system:serviceaccount:solar:owner";
    let spec = json!({ "kind": "ServiceAccount", "name": account });
    stage.create::<TenantOwner>(json!({ "metadata": { "name": owner }, "spec": spec })).await;
    let spec = json!({ "kind": "User", "name": "quiet", "aggregate": false });
    stage.create::<TenantOwner>(json!({ "metadata": { "name": quiet }, "spec": spec })).await;
    let users = json!([{ "kind": "User", "name": "alice" }]);
    let administrators = json!([{ "kind": "Group", "name": "operators" }]);
    stage.change(json!({ "users": users, "userGroups": ["devs"], "administrators": administrators })).await;
    let told = stage
        .until("to tell of the users", |configuration| {
            let users = configuration.status.iter().flat_map(|status| &status.users);
            users.map(|user| user.name.as_str()).eq(["alice", "devs", account])
        })
        .await;
    assert_eq!(ready(&told).unwrap().0, "True");
    let bound = |binding: &ClusterRoleBinding| {
        let mut names = subjects(binding);
        names.sort();
        names == ["alice", "devs", "operators", "owner"]
    };
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind all", bound).await;
    for name in [owner, quiet] {
        stage.all::<TenantOwner>().delete(&name, &DeleteParams::default()).await.unwrap();
    }
    let without = |binding: &ClusterRoleBinding| subjects(binding).len() == 3;
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to let the owner go", without).await;
}

#[tokio::test]
async fn renamed_roles_replace_the_old_ones_and_need_rights_of_their_own_to_be_kept() {
    let stage = Stage::new().await;
    let (provisioner, deleter) = (stage.named("provisioner"), stage.named("deleter"));
    stage.change(json!({ "rbac": { "provisioner": provisioner, "deleter": deleter } })).await;
    stage.until_ready().await;
    stage.until_gone::<ClusterRole>(DELETER).await;
    stage.until_gone::<ClusterRole>(PROVISIONER).await;
    stage.until_gone::<ClusterRoleBinding>(PROVISIONER).await;
    let binding = stage.all::<ClusterRoleBinding>().get(&provisioner).await.unwrap();
    assert_eq!(binding.role_ref.name, provisioner);

    stage.change(json!({ "userNames": ["alice"] })).await;
    stage.until_said("False", "under the default names it has").await;
    stage.permit(&[&provisioner, &deleter]).await;
    // A change, so that the test need not wait for the next attempt.
    stage.change(json!({ "userNames": ["alice", "bob"] })).await;
    stage.until_ready().await;
    let bound = |binding: &ClusterRoleBinding| subjects(binding) == ["alice", "bob"];
    stage.until_one::<ClusterRoleBinding>(&provisioner, "to bind both", bound).await;

    stage.change(json!({ "rbac": null })).await;
    stage.until_ready().await;
    stage.until_gone::<ClusterRole>(&deleter).await;
    stage.until_gone::<ClusterRole>(&provisioner).await;
    stage.until_gone::<ClusterRoleBinding>(&provisioner).await;
    stage.all::<ClusterRole>().get(DELETER).await.unwrap();
}

#[tokio::test]
async fn what_capsule_has_made_is_taken_over_and_what_a_stranger_has_made_is_not() {
    let stage = Stage::new().await;
    let (theirs, strangers) = (stage.named("theirs"), stage.named("strangers"));
    stage.permit(&[&theirs, &strangers]).await;
    let rules = |verbs: Value| json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": verbs }]);
    let labels = json!({ "projectcapsule.dev/created-by": "rbac-controller" });
    let role = json!({ "metadata": { "name": theirs, "labels": labels }, "rules": rules(json!(["create"])) });
    stage.create::<ClusterRole>(role).await;
    let binding = json!({
        "metadata": { "name": theirs, "labels": labels },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": theirs },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody" }],
    });
    stage.create::<ClusterRoleBinding>(binding).await;
    let role = json!({ "metadata": { "name": strangers }, "rules": rules(json!(["get"])) });
    let before = stage.create::<ClusterRole>(role).await;

    stage.change(json!({ "rbac": { "provisioner": theirs } })).await;
    stage.until_ready().await;
    let taken = stage.all::<ClusterRole>().get(&theirs).await.unwrap();
    assert_eq!(verbs(&taken), ["create", "patch"]);
    assert_eq!(taken.labels()["projectcapsule.dev/created-by"], "rbac-controller", "so that one can go back");
    let binding = stage.all::<ClusterRoleBinding>().get(&theirs).await.unwrap();
    assert_eq!(subjects(&binding), ["projectcapsule.dev"]);

    for rbac in [json!({ "deleter": strangers }), json!({ "deleter": DELETER, "provisioner": strangers })] {
        stage.change(json!({ "rbac": rbac })).await;
        let words = format!("ClusterRole {strangers} exists and is not ours");
        stage.until_said("False", &words).await;
    }
    let after = stage.all::<ClusterRole>().get(&strangers).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert!(
        stage.all::<ClusterRoleBinding>().get_opt(&strangers).await.unwrap().is_none(),
        "nobody is bound to it"
    );
    stage.change(json!({ "rbac": null })).await;
    stage.until_ready().await;
    stage.until_gone::<ClusterRole>(&theirs).await;
}

#[tokio::test]
async fn another_configuration_has_no_effect_and_says_so() {
    let stage = Stage::new().await;
    let name = stage.named("other");
    let spec = json!({ "userNames": ["mallory"], "rbac": { "provisioner": stage.named("p") } });
    stage.create::<CapsuleConfiguration>(json!({ "metadata": { "name": name }, "spec": spec })).await;
    let says = |configuration: &CapsuleConfiguration| {
        ready(configuration).is_some_and(|(is, message)| is == "False" && message.contains("has no effect"))
    };
    stage.until_one::<CapsuleConfiguration>(&name, "to say so", says).await;
    let tenants = ["get", "capsuleconfiguration", &name, "--output=jsonpath={.status.tenants}"];
    assert_eq!(stage.world.kubectl(&tenants).await.unwrap(), "[]", "an empty list, and not absent");
    let default = stage.until_ready().await;
    assert!(default.status.unwrap().users.iter().all(|user| user.name != "mallory"));
    assert!(stage.all::<ClusterRole>().get_opt(&stage.named("p")).await.unwrap().is_none());
    stage.configurations().delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn tenants_and_their_owners_are_told_and_what_does_not_concern_them_costs_nothing() {
    let stage = Stage::new().await;
    let name = stage.world.name.clone();
    let selecting = json!({ "matchOwners": [{ "matchLabels": { "team": name } }] });
    stage.world.create(json!({ "permissions": selecting })).await;
    let lists = |configuration: &CapsuleConfiguration| {
        let tenants = configuration.status.iter().flat_map(|status| &status.tenants);
        tenants.collect::<Vec<_>>().contains(&&name)
    };
    stage.until("to list the Tenant", lists).await;
    let owner = stage.named("owner");
    let metadata = json!({ "name": owner, "labels": { "team": name } });
    let spec = json!({ "kind": "User", "name": "anna" });
    stage.create::<TenantOwner>(json!({ "metadata": metadata, "spec": spec })).await;
    let has = |tenants: &'static [&'static str]| {
        let tenants: Vec<_> = tenants.iter().map(|_| name.clone()).collect();
        move |owner: &TenantOwner| {
            owner
                .status
                .as_ref()
                .is_some_and(|status| status.tenants == tenants && status.conditions[0].status == "True")
        }
    };
    stage.until_one::<TenantOwner>(&owner, "to have the Tenant", has(&["it"])).await;

    // A namespace joins, and another field changes: neither has to do with who owns what.
    stage.until_ready().await;
    let before = Timestamp::now();
    stage.world.join("a").await;
    stage.world.change(json!({ "nodeSelector": { "pool": "a" } })).await;
    stage.world.until_ready(&["a"]).await;
    let ours = |write: &&String| write.contains(&name);
    assert_eq!(stage.writes(before).iter().filter(ours).count(), 0);

    stage.world.change(json!({ "permissions": null })).await;
    stage.until_one::<TenantOwner>(&owner, "to have lost the Tenant", has(&[])).await;
    stage.all::<TenantOwner>().delete(&owner, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_configuration_that_the_chart_of_capsule_writes_is_in_effect() {
    let stage = Stage::new().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chart-configuration.yaml");
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", file];
    stage.world.kubectl(&apply).await.unwrap();
    let configuration = stage.until_said("True", "spec.admission has no effect").await;
    let conditions = configuration.status.unwrap().conditions;
    let enforced = find(&conditions, "FieldsEnforced").unwrap();
    assert_eq!(enforced.status, "True", "{}", enforced.message);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let stage = Stage::new().await;
    for (spec, words) in [
        (json!({ "rbac": { "deleter": "one", "provisioner": "one" } }), "need two names"),
        (json!({ "protectedNamespaceRegex": "(" }), "a pattern must be valid RE2 syntax"),
    ] {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let refused = stage.configurations().patch("default", &PatchParams::default(), &patch).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    // The API server reads more patterns than the manager, and owners cannot create namespaces meanwhile.
    stage.change(json!({ "protectedNamespaceRegex": "\\Qa\\E" })).await;
    stage.until_said("False", "spec.protectedNamespaceRegex: invalid pattern").await;
    stage.change(json!({ "protectedNamespaceRegex": "" })).await;
    stage.until_ready().await;
    let malformed = json!([{ "kind": "ServiceAccount", "name": "x" }, { "kind": "User", "name": "anna" }]);
    stage.change(json!({ "users": malformed })).await;
    stage.until_said("False", "the name of a ServiceAccount must have the form").await;
    let bound = |binding: &ClusterRoleBinding| subjects(binding) == ["anna"];
    stage.until_one::<ClusterRoleBinding>(PROVISIONER, "to bind who can be", bound).await;
}

#[tokio::test]
async fn statuses_that_somebody_changed_are_repaired_and_then_nothing_is_written() {
    let stage = Stage::new().await;
    let owner = stage.named("owner");
    let spec = json!({ "kind": "User", "name": "anna" });
    stage.create::<TenantOwner>(json!({ "metadata": { "name": owner }, "spec": spec })).await;
    let is_told = |owner: &TenantOwner| owner.status.is_some();
    stage.until_one::<TenantOwner>(&owner, "to be told of", is_told).await;
    stage
        .until("to tell of the user", |configuration| {
            configuration.status.iter().flat_map(|status| &status.users).any(|user| user.name == "anna")
        })
        .await;
    let before = Timestamp::now();
    let of_owner = edits("/status/conditions/0/status", json!("False"));
    assert_repairs(&stage.all::<TenantOwner>(), &owner, &of_owner).await.unwrap();

    // Its list of Tenants changes with what other tests make.
    for edit in edits("/status/users", json!([{ "kind": "User", "name": "mallory" }])) {
        patch_status(&stage.configurations(), "default", &edit).await.unwrap();
        stage
            .until(&format!("to be repaired after {edit}"), |configuration| {
                let status = configuration.status.clone().unwrap_or_default();
                let types: Vec<_> =
                    status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
                let users: Vec<_> = status.users.iter().map(|user| user.name.as_str()).collect();
                types == ["Ready", "FieldsEnforced"] && users.contains(&"anna") && !users.contains(&"mallory")
            })
            .await;
    }

    let writes = stage.harness.requests().unwrap().writes();
    let writes = writes.filter(|entry| entry.time > before && entry.name == owner).entries;
    assert_eq!(writes.len(), of_owner.len(), "{writes:?}");
    // Other tests count the users.
    stage.all::<TenantOwner>().delete(&owner, &DeleteParams::default()).await.unwrap();
    stage
        .until("to forget the user", |configuration| {
            configuration.status.iter().flat_map(|status| &status.users).all(|user| user.name != "anna")
        })
        .await;
}
