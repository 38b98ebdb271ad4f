//! Labels and annotations of nodes that owners cannot change.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Subject, create_tenant, promotion::configure, shared_env};
use crate::support::{PATIENCE, TestEnv};

async fn patch(env: &TestEnv, subject: &Subject, metadata: Value) -> Result<(), String> {
    let nodes = Api::<Node>::all(subject.client(env).await);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let patched = nodes.patch("metadata-node", &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(|error| error.to_string())
}

/// The policy is evaluated by the API server, without a webhook on nodes.
#[tokio::test]
async fn owners_keep_forbidden_metadata_of_nodes() {
    let env = shared_env().await;
    let (owner, _) = create_tenant(env, "nodekeys", json!({})).await;
    let operator = Subject::without_groups("operator-of-nodes");
    let metadata =
        json!({ "name": "metadata-node", "labels": { "pool": "blue" }, "annotations": { "cost": "1" } });
    env.store(json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata })).await;
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "patch-nodes" },
        "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"] }],
    });
    env.store(grant).await;
    let binding = ["create", "clusterrolebinding", "patch-nodes", "--clusterrole=patch-nodes"];
    env.kubectl(&[&binding[..], &["--group=system:authenticated"]].concat()).await.unwrap();
    eventually("the rights on nodes", PATIENCE, async || {
        Ok(patch(env, &owner, json!({ "labels": { "free": "before" } })).await)
    })
    .await
    .unwrap();

    let keys = |field: &str| json!({ "denied": [if field == "labels" { "pool" } else { "cost" }], "deniedRegex": "^secure\\." });
    configure(
        env,
        json!({ "nodeMetadata": { "forbiddenLabels": keys("labels"), "forbiddenAnnotations": keys("annotations") } }),
    )
    .await;
    let labels = "some labels are marked as forbidden: spec.nodeMetadata.forbiddenLabels";
    let annotations = "some annotations are marked as forbidden: spec.nodeMetadata.forbiddenAnnotations";
    eventually("the policy to use the configuration", PATIENCE, async || {
        let tried = patch(env, &owner, json!({ "labels": { "secure.zone": "b" } })).await;
        Ok(match tried {
            Err(denied) if denied.contains(labels) => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    for (change, text) in [
        (json!({ "labels": { "pool": "red" } }), labels),
        (json!({ "labels": { "pool": null } }), labels),
        (json!({ "labels": { "secure.zone": "a" } }), labels),
        (json!({ "annotations": { "cost": "2" } }), annotations),
        (json!({ "annotations": { "cost": null } }), annotations),
        (json!({ "annotations": { "secure.note": "" } }), annotations),
    ] {
        let denied = patch(env, &owner, change.clone()).await.unwrap_err();
        assert!(denied.contains(text), "{change}: {denied}");
    }
    for free in [
        json!({ "labels": { "free": "a", "pool": "blue" } }),
        json!({ "annotations": { "free": "a", "cost": "1" } }),
        json!({ "labels": { "free": null } }),
    ] {
        patch(env, &owner, free).await.unwrap();
    }
    // Users who are no tenant users, and administrators, may change every key.
    patch(env, &operator, json!({ "labels": { "pool": "green" } })).await.unwrap();
    let administrators = ["carol", "owner-of-nodekeys"].map(|name| json!({ "kind": "User", "name": name }));
    eventually("the owner to be an administrator", PATIENCE, async || {
        // Other tests set the administrators of the shared configuration, too.
        configure(env, json!({ "administrators": administrators })).await;
        Ok(patch(env, &owner, json!({ "labels": { "pool": "blue" } })).await)
    })
    .await
    .unwrap();
    configure(env, json!({ "nodeMetadata": null })).await;
    let pattern = json!({ "spec": { "nodeMetadata": { "forbiddenLabels": { "deniedRegex": "(" } } } });
    let patch = format!("--patch={pattern}");
    let refused = env.kubectl(&["patch", "capsuleconfiguration", "default", "--type=merge", &patch]).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("spec.nodeMetadata.forbiddenLabels.deniedRegex"), "{refused}");
}
