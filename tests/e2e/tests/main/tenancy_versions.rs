//! Tenants in their older versions, on a running manager that converts them.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Manager, PATIENCE, Stage, TENANT, Webhooks, sample};

/// The plural in a version, as kubectl takes it.
fn tenants(version: &str) -> String {
    format!("tenants.{version}.capsule.clastix.io")
}

async fn start() -> (Stage, Manager) {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_asked().await;
    eventually("the API server to convert", PATIENCE, async || {
        Ok(stage.kubectl(&["get", &tenants("v1alpha1")]).await.is_ok())
    })
    .await
    .unwrap();
    (stage, manager)
}

impl Stage {
    async fn in_version(&self, version: &str, name: &str) -> Value {
        self.read(&["get", &tenants(version), name]).await
    }

    async fn edit(&self, version: &str, name: &str, patch: Value) {
        let patch = patch.to_string();
        self.kubectl(&["patch", &tenants(version), name, "--type=merge", "-p", &patch]).await.unwrap();
    }
}

#[tokio::test]
async fn the_tenant_of_2020_is_applied_read_and_edited_in_every_version() {
    let (stage, manager) = start().await;
    let manifest = sample("older/tenant-v1alpha1");
    let applied = stage.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert!(applied.contains("tenant.capsule.clastix.io/oil created"), "{applied}");
    stage.until_settled(&TENANT, "", "oil").await;
    stage.join("oil", "oil-development").await;
    stage.until_joined("oil", 1).await;
    let inside = "--namespace=oil-development";
    for (kind, names) in [
        ("limitranges", vec!["capsule-oil-0"]),
        ("networkpolicies", vec!["capsule-oil-0"]),
        ("resourcequotas", vec!["capsule-oil-0", "capsule-oil-1", "capsule-oil-2"]),
    ] {
        stage.until_count(&[kind, inside], names.len()).await;
        assert_eq!(stage.names(&[kind, inside]).await, names);
    }

    // What was written reads back as it was written; the status is there, too.
    let oldest = stage.in_version("v1alpha1", "oil").await;
    assert_eq!(oldest["spec"]["owner"], json!({ "kind": "User", "name": "alice" }));
    assert_eq!(oldest["spec"]["namespaceQuota"], 3);
    assert_eq!(oldest["spec"]["ingressClasses"], json!({ "allowed": ["default"] }));
    assert_eq!(oldest["status"], json!({ "size": 1, "namespaces": ["oil-development"] }));
    let middle = stage.in_version("v1beta1", "oil").await;
    assert_eq!(middle["spec"]["owners"], json!([{ "kind": "User", "name": "alice" }]));
    assert_eq!(middle["spec"]["namespaceOptions"], json!({ "quota": 3 }));
    assert_eq!(middle["status"]["state"], "Active");
    let newest = stage.in_version("v1beta2", "oil").await;
    assert_eq!(newest["spec"]["namespaceOptions"]["quota"], 3);
    assert_eq!(newest["spec"]["ingressOptions"]["allowedClasses"], json!({ "allowed": ["default"] }));
    let unchanged = stage.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert!(unchanged.contains("unchanged"), "{unchanged}");

    // In each version an edit counts, and leaves alone what the version cannot say.
    stage
        .edit(
            "v1beta2",
            "oil",
            json!({ "spec": { "forceTenantPrefix": false, "podOptions": {}, "cordoned": false } }),
        )
        .await;
    let spaces = async || stage.in_version("v1beta2", "oil").await["status"]["spaces"][0]["uid"].clone();
    let uid = spaces().await;
    assert!(uid.is_string());
    stage
        .edit(
            "v1alpha1",
            "oil",
            json!({
                "metadata": { "annotations": { "owners.capsule.clastix.io/group": "drillers" } },
                "spec": { "nodeSelector": { "pool": "oil" } },
            }),
        )
        .await;
    stage.edit("v1beta1", "oil", json!({ "spec": { "imagePullPolicies": ["Always"] } })).await;
    assert_eq!(spaces().await, uid);
    let newest = stage.until_settled(&TENANT, "", "oil").await;
    let spec = &newest.data["spec"];
    assert_eq!((&spec["forceTenantPrefix"], &spec["podOptions"]), (&json!(false), &json!({})));
    assert_eq!(spec["imagePullPolicies"], json!(["Always"]));
    assert_eq!(spec["owners"][1]["name"], "drillers");
    eventually("the edits to arrive in the namespace", PATIENCE, async || {
        let namespace = stage.read(&["get", "namespace", "oil-development"]).await;
        let selector = &namespace["metadata"]["annotations"]["scheduler.alpha.kubernetes.io/node-selector"];
        let bindings = stage.read(&["get", "rolebindings", inside]).await.to_string();
        Ok(selector == "kubernetes.io/os=linux,pool=oil" && bindings.contains("drillers"))
    })
    .await
    .unwrap();
    // The manifest still knows all of its own fields, and takes nothing else away.
    stage.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert_eq!(stage.in_version("v1beta2", "oil").await["spec"]["forceTenantPrefix"], false);

    stage.assert_nothing_was_forbidden();
    stage.kubectl(&["delete", &tenants("v1alpha1"), "oil", "--timeout=60s"]).await.unwrap();
    manager.ask_to_end().await;
}

/// What alice does, and others.
async fn walk_through(manifest: &str) {
    let (stage, manager) = start().await;
    let alice = ["--as=alice", "--as-group=projectcapsule.dev"];
    let create = async |person: &[&str], name: &str| {
        let answer = stage.kubectl(&[&["create", "namespace", name], person].concat()).await;
        answer.map_err(|error| format!("{error:#}"))
    };
    stage.kubectl(&["apply", "-f", &sample(manifest)]).await.unwrap();
    stage.until_settled(&TENANT, "", "oil").await;
    // Until her rights have arrived with the API server.
    eventually("alice to get her first namespace", PATIENCE, async || {
        Ok(create(&alice, "oil-development").await)
    })
    .await
    .unwrap();
    create(&alice, "oil-staging").await.unwrap();
    create(&alice, "oil-production").await.unwrap();
    let refused = create(&alice, "oil-test").await.unwrap_err();
    assert!(refused.contains("oil") && refused.contains("quota"), "{refused}");
    stage.until_joined("oil", 3).await;

    for name in ["oil-development", "oil-staging", "oil-production"] {
        let inside = format!("--namespace={name}");
        for (kind, count) in
            [("limitranges", 1), ("networkpolicies", 1), ("resourcequotas", 3), ("rolebindings", 2)]
        {
            stage.until_count(&[kind, &inside], count).await;
        }
        let namespace = stage.read(&["get", "namespace", name]).await;
        let annotations = &namespace["metadata"]["annotations"];
        assert_eq!(annotations["scheduler.alpha.kubernetes.io/node-selector"], "kubernetes.io/os=linux");
        let policy = stage.read(&["get", "networkpolicy", "capsule-oil-0", &inside]).await;
        assert!(policy.to_string().contains("192.160.0.0/12"), "{policy}");
        let may = [&["auth", "can-i", "create", "deployments", &inside], &alice[..]].concat();
        eventually("alice to have her rights", PATIENCE, async || Ok(stage.kubectl(&may).await.is_ok()))
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
    let refused = format!("{:#}", stage.kubectl(&create_claim).await.unwrap_err());
    assert!(refused.contains("is none of the StorageClasses that Tenant oil allows: default"), "{refused}");

    // Another user of the Tenants, who owns none, gets none of alice's; an administrator's namespace stays outside.
    assert!(create(&["--as=mallory", "--as-group=projectcapsule.dev"], "oil-mine").await.is_err());
    create(&[], "gas-production").await.unwrap();
    let stranger = stage.read(&["get", "namespace", "gas-production"]).await;
    assert!(stranger["metadata"]["labels"]["capsule.clastix.io/tenant"].is_null(), "{stranger}");
    assert_eq!(stage.table(&["tenants"]).await[1][..4], ["oil", "Active", "3", "3"]);

    stage.assert_nothing_was_forbidden();
    stage.kubectl(&["delete", "tenant", "oil", "--timeout=120s"]).await.unwrap();
    stage.until_none(&["namespaces", "--selector=capsule.clastix.io/tenant=oil"]).await;
    manager.ask_to_end().await;
}

#[tokio::test]
async fn the_walk_through_of_2020_works_with_its_own_manifest() {
    walk_through("older/tenant-v1alpha1").await;
}

#[tokio::test]
async fn the_walk_through_works_with_the_manifest_of_today() {
    walk_through("tenant").await;
}

#[tokio::test]
async fn an_older_version_is_judged_like_the_newest() {
    let (stage, manager) = start().await;
    let create = async |version: &str, name: &str, spec: Value| {
        let tenant = json!({
            "apiVersion": format!("capsule.clastix.io/{version}"), "kind": "Tenant",
            "metadata": { "name": name }, "spec": spec,
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), tenant.to_string()).unwrap();
        let created = stage.kubectl(&["create", "-f", file.path().to_str().unwrap()]).await;
        created.map_err(|error| format!("{error:#}"))
    };
    // As it was written in the first weeks.
    let first = json!({ "owner": "alice", "namespaceQuota": 3, "ingressClasses": ["nginx"], "storageClasses": ["fast"] });
    create("v1alpha1", "oil", first.clone()).await.unwrap();
    assert_eq!(stage.in_version("v1alpha1", "oil").await["spec"], first);
    let newest = stage.until_settled(&TENANT, "", "oil").await;
    assert_eq!(newest.data["spec"]["storageClasses"], json!({ "allowed": ["fast"] }));
    let columns = stage.table(&[&tenants("v1alpha1")]).await;
    assert_eq!(
        columns[0].join(" "),
        "NAME NAMESPACE QUOTA NAMESPACE COUNT OWNER NAME OWNER KIND NODE SELECTOR AGE"
    );

    for (version, spec, says) in [
        ("v1alpha1", json!({ "namespaceQuota": 3 }), "spec.owner: Required value"),
        ("v1alpha1", json!({ "owner": "alice", "namespaceQuota": 0 }), "spec.namespaceQuota"),
        ("v1alpha1", json!({ "owner": { "kind": "Robot", "name": "r2" } }), "cannot convert Tenant gas"),
        (
            "v1alpha1",
            json!({ "owner": "alice", "ingressClasses": { "allowedRegex": "(" } }),
            "spec.ingressOptions.allowedClasses.allowedRegex: the pattern",
        ),
        ("v1beta1", json!({}), "spec.owners: Required value"),
        ("v1beta1", json!({ "owners": [], "storageClasses": { "allowedRegex": "(" } }), "valid RE2"),
        (
            "v1beta1",
            json!({ "owners": [{ "kind": "ServiceAccount", "name": "x" }] }),
            "system:serviceaccount:",
        ),
    ] {
        let refused = create(version, "gas", spec).await.unwrap_err();
        assert!(refused.contains(says), "{refused} should say {says}");
    }
    manager.ask_to_end().await;
}
