//! Promoted ServiceAccounts and administrators as owners.

use cluster::wait::eventually;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Subject, create_tenant, shared_env};
use crate::support::{PATIENCE, TENANT, TestEnv};

const LABEL: &str = "owner.projectcapsule.dev/promote";

pub(super) async fn configure(env: &TestEnv, spec: Value) {
    let patch = format!("--patch={}", json!({ "spec": spec }));
    env.kubectl(&["patch", "capsuleconfiguration", "default", "--type=merge", &patch]).await.unwrap();
}

/// Creates a ServiceAccount with this value of the label as a dry run.
async fn try_promotion(env: &TestEnv, subject: &Subject, namespace: &str, value: &str) -> Result<(), String> {
    let api = Api::<ServiceAccount>::namespaced(subject.client(env).await, namespace);
    let account = json!({ "metadata": { "name": "try", "labels": { LABEL: value } } });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let created = api.create(&params, &serde_json::from_value(account).unwrap()).await;
    created.map(drop).map_err(|error| error.to_string())
}

async fn until_owner(env: &TestEnv, tenant: &str, name: &str, roles: Option<Value>) {
    eventually(&format!("{name} to be an owner of {tenant} with {roles:?}"), PATIENCE, async || {
        let found = env.read(&["get", "tenant", tenant]).await["status"]["owners"].clone();
        let owner = found.as_array().unwrap().iter().find(|owner| owner["name"] == name);
        Ok(if owner.map(|owner| owner["clusterRoles"].clone()) == roles { Ok(()) } else { Err(found) })
    })
    .await
    .unwrap();
}

/// Waits until the provisioner is, or is not, bound to a ServiceAccount.
async fn until_bound(env: &TestEnv, namespace: &str, is_bound: bool) {
    eventually(&format!("binding of {namespace}/deployer: {is_bound}"), PATIENCE, async || {
        let binding = env.read(&["get", "clusterrolebinding", "capsule-namespace-provisioner"]).await;
        let mut subjects = binding["subjects"].as_array().unwrap().iter();
        let found = subjects.any(|one| one["namespace"] == namespace && one["name"] == "deployer");
        Ok(if found == is_bound { Ok(()) } else { Err(binding) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn promoted_account_owns_the_tenant_until_it_is_demoted() {
    let env = shared_env().await;
    let (owner, namespace) = create_tenant(env, "promotions", json!({})).await;
    for value in ["true", "false"] {
        let denied = try_promotion(env, &owner, &namespace, value).await.unwrap_err();
        assert!(denied.contains("CapsuleConfiguration default does not allow"), "{denied}");
    }
    configure(env, json!({ "allowServiceAccountPromotion": true })).await;
    eventually("promotion to be allowed", PATIENCE, async || {
        Ok(try_promotion(env, &owner, &namespace, "true").await)
    })
    .await
    .unwrap();
    let outsider = Subject::without_groups("outsider-of-promotions");
    let denied = try_promotion(env, &outsider, &namespace, "true").await.unwrap_err();
    assert!(denied.contains("only owners of Tenant promotions and administrators"), "{denied}");

    let accounts = Api::<ServiceAccount>::namespaced(owner.client(env).await, &namespace);
    let account = json!({ "metadata": { "name": "deployer", "labels": { LABEL: "true" } } });
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
    let user = format!("system:serviceaccount:{namespace}:deployer");
    let roles = json!(["capsule-namespace-provisioner", "capsule-namespace-deleter"]);
    until_owner(env, "promotions", &user, Some(roles)).await;
    until_bound(env, &namespace, true).await;
    let promoted = Subject::account(&namespace, "deployer");
    promoted.create(env, "promotions-new").await.unwrap();
    assert_eq!(env.tenant_of("promotions-new").await, "promotions");
    env.until_tenant_ready("promotions", 2).await;
    let denied = try_promotion(env, &promoted, &namespace, "true").await.unwrap_err();
    assert!(denied.contains("only owners of Tenant promotions"), "{denied}");
    promoted.delete(env, "promotions-new").await.unwrap();

    // An account outside of Tenants gains nothing.
    let outside = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "deployer", "namespace": "default", "labels": { LABEL: "true" } },
    });
    env.store(outside).await;
    let refused = Subject::account("default", "deployer").tenant_user().create(env, "outside-new").await;
    assert!(refused.unwrap_err().contains("you own no Tenant"));
    until_bound(env, "default", false).await;

    // Requests at the moment of the demotion are those of an owner, or denied: by the mutating webhook, or by the
    // validating one if the demotion came between the two.
    let demote = Patch::Merge(json!({ "metadata": { "labels": { LABEL: null } } }));
    let names: Vec<_> = (0..24).map(|at| format!("promotions-{at}-{}", ["a", "b"][at % 2])).collect();
    let creations = join_all(names.iter().map(|name| promoted.create(env, name)));
    let params = PatchParams::default();
    let (created, demoted) = tokio::join!(creations, accounts.patch("deployer", &params, &demote));
    demoted.unwrap();
    for created in created {
        match created {
            Ok(name) => assert_eq!(env.tenant_of(&name).await, "promotions"),
            Err(refused) => {
                let causes = [
                    "you own no Tenant",
                    &format!("it belongs to Tenant promotions, which {user} does not own"),
                ];
                assert!(causes.iter().any(|cause| refused.contains(*cause)), "{refused}");
            }
        }
    }
    eventually("the account to be demoted", PATIENCE, async || {
        Ok(match promoted.dry_create(env, "promotions-later").await {
            Err(refused) if refused.contains("you own no Tenant") => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    until_owner(env, "promotions", &user, None).await;
    until_bound(env, &namespace, false).await;

    env.change(&TENANT, "", "promotions", json!({ "permissions": { "allowOwnerPromotion": false } })).await;
    eventually("the Tenant to forbid promotion", PATIENCE, async || {
        Ok(match try_promotion(env, &owner, &namespace, "true").await {
            Err(denied) if denied.contains("Tenant promotions does not allow") => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn administrators_own_every_tenant() {
    let env = shared_env().await;
    let (_, namespace) = create_tenant(env, "administered", json!({})).await;
    // Another test sets the administrators of the shared configuration, too.
    eventually("an administrator to be an owner", PATIENCE, async || {
        configure(env, json!({ "administrators": [{ "kind": "User", "name": "carol" }] })).await;
        let found = env.read(&["get", "tenant", "administered"]).await["status"]["owners"].clone();
        let carol = json!({ "kind": "User", "name": "carol", "clusterRoles": ["capsule-namespace-deleter"] });
        Ok(if found.as_array().unwrap().contains(&carol) { Ok(()) } else { Err(found) })
    })
    .await
    .unwrap();
    let within = format!("--namespace={namespace}");
    eventually("a RoleBinding of the administrator", PATIENCE, async || {
        let bindings = env.read(&["get", "rolebindings", &within]).await;
        let mut all = bindings["items"].as_array().unwrap().iter();
        let is_bound = all.any(|binding| {
            binding["roleRef"]["name"] == "capsule-namespace-deleter"
                && binding["subjects"][0]["name"] == "carol"
        });
        Ok(if is_bound { Ok(()) } else { Err(bindings) })
    })
    .await
    .unwrap();
}
