//! Older API versions of Tenants, converted by a running manager.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Manager, PATIENCE, TENANT, TestEnv, sample, webhooks_env};

/// Returns the resource in a version, as an argument of kubectl.
fn tenants(version: &str) -> String {
    format!("tenants.{version}.capsule.clastix.io")
}

async fn start() -> (TestEnv, Manager) {
    let (env, manager) = TestEnv::with_webhooks().await;
    env.until_converting().await;
    (env, manager)
}

impl TestEnv {
    async fn until_converting(&self) {
        eventually("the API server to convert", PATIENCE, async || {
            Ok(self.kubectl(&["get", &tenants("v1alpha1")]).await.is_ok())
        })
        .await
        .unwrap();
    }

    async fn in_version(&self, version: &str, name: &str) -> Value {
        self.read(&["get", &tenants(version), name]).await
    }

    async fn edit(&self, version: &str, name: &str, patch: Value) {
        let patch = patch.to_string();
        self.kubectl(&["patch", &tenants(version), name, "--type=merge", "-p", &patch]).await.unwrap();
    }
}

#[tokio::test]
async fn oldest_manifest_works_in_every_version() {
    let (env, manager) = start().await;
    let manifest = sample("older/tenant-v1alpha1");
    let applied = env.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert!(applied.contains("tenant.capsule.clastix.io/oil created"), "{applied}");
    env.until_ready(&TENANT, "", "oil").await;
    env.join("oil", "oil-development").await;
    env.until_tenant_ready("oil", 1).await;
    let inside = "--namespace=oil-development";
    for (kind, names) in [
        ("limitranges", vec!["capsule-oil-0"]),
        ("networkpolicies", vec!["capsule-oil-0"]),
        ("resourcequotas", vec!["capsule-oil-0", "capsule-oil-1", "capsule-oil-2"]),
    ] {
        env.until_count(&[kind, inside], names.len()).await;
        assert_eq!(env.names(&[kind, inside]).await, names);
    }

    // The spec is returned as written, with the status.
    let oldest = env.in_version("v1alpha1", "oil").await;
    assert_eq!(oldest["spec"]["owner"], json!({ "kind": "User", "name": "alice" }));
    assert_eq!(oldest["spec"]["namespaceQuota"], 3);
    assert_eq!(oldest["spec"]["ingressClasses"], json!({ "allowed": ["default"] }));
    assert_eq!(oldest["status"], json!({ "size": 1, "namespaces": ["oil-development"] }));
    let middle = env.in_version("v1beta1", "oil").await;
    assert_eq!(middle["spec"]["owners"], json!([{ "kind": "User", "name": "alice" }]));
    assert_eq!(middle["spec"]["namespaceOptions"], json!({ "quota": 3 }));
    assert_eq!(middle["status"]["state"], "Active");
    let newest = env.in_version("v1beta2", "oil").await;
    assert_eq!(newest["spec"]["namespaceOptions"]["quota"], 3);
    assert_eq!(newest["spec"]["ingressOptions"]["allowedClasses"], json!({ "allowed": ["default"] }));
    let unchanged = env.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert!(unchanged.contains("unchanged"), "{unchanged}");

    // An edit in one version keeps the fields that this version does not have.
    env.edit(
        "v1beta2",
        "oil",
        json!({ "spec": { "forceTenantPrefix": false, "podOptions": {}, "cordoned": false } }),
    )
    .await;
    let spaces = async || env.in_version("v1beta2", "oil").await["status"]["spaces"][0]["uid"].clone();
    let uid = spaces().await;
    assert!(uid.is_string());
    env.edit(
        "v1alpha1",
        "oil",
        json!({
            "metadata": { "annotations": { "owners.capsule.clastix.io/group": "drillers" } },
            "spec": { "nodeSelector": { "pool": "oil" } },
        }),
    )
    .await;
    env.edit("v1beta1", "oil", json!({ "spec": { "imagePullPolicies": ["Always"] } })).await;
    assert_eq!(spaces().await, uid);
    let newest = env.until_ready(&TENANT, "", "oil").await;
    let spec = &newest.data["spec"];
    assert_eq!((&spec["forceTenantPrefix"], &spec["podOptions"]), (&json!(false), &json!({})));
    assert_eq!(spec["imagePullPolicies"], json!(["Always"]));
    assert_eq!(spec["owners"][1]["name"], "drillers");
    eventually("the edits to arrive in the namespace", PATIENCE, async || {
        let namespace = env.read(&["get", "namespace", "oil-development"]).await;
        let selector = &namespace["metadata"]["annotations"]["scheduler.alpha.kubernetes.io/node-selector"];
        let bindings = env.read(&["get", "rolebindings", inside]).await.to_string();
        Ok(selector == "kubernetes.io/os=linux,pool=oil" && bindings.contains("drillers"))
    })
    .await
    .unwrap();
    // Applying the manifest again removes nothing.
    env.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert_eq!(env.in_version("v1beta2", "oil").await["spec"]["forceTenantPrefix"], false);

    env.assert_no_forbidden_requests();
    env.kubectl(&["delete", &tenants("v1alpha1"), "oil", "--timeout=60s"]).await.unwrap();
    manager.stop().await;
}

/// Runs the walk-through with the users alice and mallory.
async fn walk_through(manifest: &str) {
    let (env, manager) = start().await;
    let alice = ["--as=alice", "--as-group=projectcapsule.dev"];
    let create = async |user_flags: &[&str], name: &str| {
        let answer = env.kubectl(&[&["create", "namespace", name], user_flags].concat()).await;
        answer.map_err(|error| format!("{error:#}"))
    };
    env.kubectl(&["apply", "-f", &sample(manifest)]).await.unwrap();
    env.until_ready(&TENANT, "", "oil").await;
    // alice's RoleBindings take a moment.
    eventually("alice to get her first namespace", PATIENCE, async || {
        Ok(create(&alice, "oil-development").await)
    })
    .await
    .unwrap();
    create(&alice, "oil-staging").await.unwrap();
    create(&alice, "oil-production").await.unwrap();
    let refused = create(&alice, "oil-test").await.unwrap_err();
    assert!(refused.contains("oil") && refused.contains("quota"), "{refused}");
    env.until_tenant_ready("oil", 3).await;

    for name in ["oil-development", "oil-staging", "oil-production"] {
        let inside = format!("--namespace={name}");
        for (kind, count) in
            [("limitranges", 1), ("networkpolicies", 1), ("resourcequotas", 3), ("rolebindings", 2)]
        {
            env.until_count(&[kind, &inside], count).await;
        }
        let namespace = env.read(&["get", "namespace", name]).await;
        let annotations = &namespace["metadata"]["annotations"];
        assert_eq!(annotations["scheduler.alpha.kubernetes.io/node-selector"], "kubernetes.io/os=linux");
        let policy = env.read(&["get", "networkpolicy", "capsule-oil-0", &inside]).await;
        assert!(policy.to_string().contains("192.160.0.0/12"), "{policy}");
        let may = [&["auth", "can-i", "create", "deployments", &inside], &alice[..]].concat();
        eventually("alice to have her rights", PATIENCE, async || Ok(env.kubectl(&may).await.is_ok()))
            .await
            .unwrap();
    }
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data", "namespace": "oil-production" },
        "spec": {
            "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), claim.to_string()).unwrap();
    let create_claim = [&["create", "-f", file.path().to_str().unwrap()], &alice[..]].concat();
    let refused = format!("{:#}", env.kubectl(&create_claim).await.unwrap_err());
    assert!(refused.contains("is not allowed by Tenant oil; allowed StorageClasses: default"), "{refused}");

    // A Tenant user without a Tenant gets no rights of alice. An administrator's namespace
    // belongs to no Tenant.
    assert!(create(&["--as=mallory", "--as-group=projectcapsule.dev"], "oil-mine").await.is_err());
    create(&[], "gas-production").await.unwrap();
    let administrators = env.read(&["get", "namespace", "gas-production"]).await;
    assert!(administrators["metadata"]["labels"]["capsule.clastix.io/tenant"].is_null(), "{administrators}");
    assert_eq!(env.table(&["tenants"]).await[1][..4], ["oil", "Active", "3", "3"]);

    env.assert_no_forbidden_requests();
    env.kubectl(&["delete", "tenant", "oil", "--timeout=120s"]).await.unwrap();
    env.until_empty(&["namespaces", "--selector=capsule.clastix.io/tenant=oil"]).await;
    manager.stop().await;
}

#[tokio::test]
async fn walk_through_works_with_oldest_manifest() {
    walk_through("older/tenant-v1alpha1").await;
}

#[tokio::test]
async fn walk_through_works_with_newest_manifest() {
    walk_through("tenant").await;
}

#[tokio::test]
async fn older_versions_are_validated_like_the_newest() {
    let env = webhooks_env().await;
    env.until_converting().await;
    let create = async |version: &str, name: &str, spec: Value| {
        let tenant = json!({
            "apiVersion": format!("capsule.clastix.io/{version}"), "kind": "Tenant",
            "metadata": { "name": name }, "spec": spec,
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), tenant.to_string()).unwrap();
        let created = env.kubectl(&["create", "-f", file.path().to_str().unwrap()]).await;
        created.map_err(|error| format!("{error:#}"))
    };
    // The form of the first releases.
    let first = json!({ "owner": "gerda", "namespaceQuota": 3, "ingressClasses": ["nginx"], "storageClasses": ["fast"] });
    create("v1alpha1", "aged", first.clone()).await.unwrap();
    assert_eq!(env.in_version("v1alpha1", "aged").await["spec"], first);
    let newest = env.until_ready(&TENANT, "", "aged").await;
    assert_eq!(newest.data["spec"]["storageClasses"], json!({ "allowed": ["fast"] }));
    let columns = env.table(&[&tenants("v1alpha1")]).await;
    assert_eq!(
        columns[0].join(" "),
        "NAME NAMESPACE QUOTA NAMESPACE COUNT OWNER NAME OWNER KIND NODE SELECTOR AGE"
    );

    for (version, spec, expected) in [
        ("v1alpha1", json!({ "namespaceQuota": 3 }), "spec.owner: Required value"),
        ("v1alpha1", json!({ "owner": "alice", "namespaceQuota": 0 }), "spec.namespaceQuota"),
        ("v1alpha1", json!({ "owner": { "kind": "Robot", "name": "r2" } }), "cannot convert Tenant wrong"),
        (
            "v1alpha1",
            json!({ "owner": "alice", "ingressClasses": { "allowedRegex": "(" } }),
            "spec.ingressOptions.allowedClasses.allowedRegex: invalid pattern",
        ),
        ("v1beta1", json!({}), "spec.owners: Required value"),
        ("v1beta1", json!({ "owners": [], "storageClasses": { "allowedRegex": "(" } }), "valid RE2"),
        (
            "v1beta1",
            json!({ "owners": [{ "kind": "ServiceAccount", "name": "x" }] }),
            "system:serviceaccount:",
        ),
    ] {
        let refused = create(version, "wrong", spec).await.unwrap_err();
        assert!(refused.contains(expected), "{refused} does not contain {expected}");
    }
}
