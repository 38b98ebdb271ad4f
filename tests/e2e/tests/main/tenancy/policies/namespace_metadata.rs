//! Forbidden, required, and managed metadata of namespaces.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Subject, create_tenant, shared_env};
use crate::support::TestEnv;

async fn patch(env: &TestEnv, subject: &Subject, namespace: &str, metadata: Value) -> Result<Value, String> {
    let api = Api::<Namespace>::all(subject.client(env).await);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let patched = api.patch(namespace, &PatchParams::default(), &patch).await;
    patched.map(|found| serde_json::to_value(found.metadata).unwrap()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn owners_cannot_set_forbidden_keys() {
    let env = shared_env().await;
    let options = json!({
        "forbiddenLabels": { "denied": ["secret"], "deniedRegex": "^x-" }, "forbiddenAnnotations": { "denied": ["note"] },
        "additionalMetadata": { "labels": { "secret": "own" } },
    });
    let (owner, namespace) = create_tenant(env, "forbidden", json!({ "namespaceOptions": options })).await;
    for (metadata, text) in [
        (json!({ "labels": { "x-a": "1" } }), "the label x-a is forbidden by Tenant forbidden"),
        (json!({ "annotations": { "note": "1" } }), "the annotation note is forbidden by Tenant forbidden"),
    ] {
        let created = owner.create_with(env, "forbidden-new", metadata.clone()).await.unwrap_err();
        assert!(created.contains(text), "{created}");
        let patched = patch(env, &owner, &namespace, metadata).await.unwrap_err();
        assert!(patched.contains(text), "{patched}");
    }
    // The value of the Tenant is restored, and administrators are free.
    let restored = patch(env, &owner, &namespace, json!({ "labels": { "secret": "mine" } })).await.unwrap();
    assert_eq!(restored["labels"]["secret"], "own");
    env.kubectl(&["label", "namespace", &namespace, "x-a=1"]).await.unwrap();
    patch(env, &owner, &namespace, json!({ "labels": { "x-a": null } })).await.unwrap();
    assert!(patch(env, &owner, &namespace, json!({ "labels": { "x-a": "1" } })).await.is_err());
    for field in ["forbiddenLabels", "forbiddenAnnotations"] {
        let spec = json!({ "namespaceOptions": { field: { "deniedRegex": "(" } } });
        let refused = env.try_tenant("badregex", spec).await.unwrap_err();
        assert!(refused.contains(field), "{refused}");
    }
}

#[tokio::test]
async fn namespaces_have_required_metadata() {
    let env = shared_env().await;
    let owner = Subject::user("owner-of-required");
    let required = json!({ "labels": { "env": "^(prod|dev)$" }, "annotations": { "cost": "" } });
    env.tenant("required", &[&owner], json!({ "namespaceOptions": { "requiredMetadata": required } })).await;
    let with = |env: &str| json!({ "labels": { "env": env }, "annotations": { "cost": "7" } });
    for (metadata, text) in [
        (json!({}), "the label env is missing"),
        (json!({ "labels": { "env": "prod" } }), "the annotation cost is missing"),
        (with("test"), "the label env has the value \"test\"; Tenant required requires"),
    ] {
        let denied = owner.create_with(env, "required-dev", metadata).await.unwrap_err();
        assert!(denied.contains(text), "{denied}");
    }
    owner.create_with(env, "required-dev", with("dev")).await.unwrap();
    env.until_tenant_ready("required", 1).await;
    let change = async |subject: &Subject, env_value: Value| {
        patch(env, subject, "required-dev", json!({ "labels": { "env": env_value } })).await
    };
    for subject in [&owner, &Subject::without_groups("outsider-of-required")] {
        let denied = change(subject, Value::Null).await.unwrap_err();
        assert!(denied.contains("the label env is missing"), "{denied}");
        change(subject, json!("prod")).await.unwrap();
        change(subject, json!("dev")).await.unwrap();
    }
    patch(env, &owner, "required-dev", json!({ "labels": { "other": "free" } })).await.unwrap();
}

#[tokio::test]
async fn tenant_defines_all_metadata_of_its_namespaces() {
    let env = shared_env().await;
    let own = json!({ "labels": { "team": "oil" }, "annotations": { "cost": "7" } });
    let (owner, namespace) =
        create_tenant(env, "managedonly", json!({ "namespaceOptions": { "additionalMetadata": own } })).await;
    let metadata = json!({ "labels": { "mine": "1" }, "annotations": { "mine": "1" } });
    patch(env, &owner, &namespace, metadata.clone()).await.unwrap();

    // The controller removes what exists, and admission what is added.
    env.change_tenant("managedonly", json!({ "namespaceOptions": { "managedMetadataOnly": true } })).await;
    let labels = |namespace: &str| json!({ "team": "oil", "capsule.clastix.io/tenant": "managedonly", "kubernetes.io/metadata.name": namespace });
    let assert_managed = async |namespace: &str| {
        let found = env.read(&["get", "namespace", namespace]).await["metadata"].clone();
        assert_eq!(found["labels"], labels(namespace));
        assert_eq!(found["annotations"], json!({ "cost": "7" }));
    };
    assert_managed(&namespace).await;
    patch(env, &owner, &namespace, metadata.clone()).await.unwrap();
    assert_managed(&namespace).await;
    owner.create_with(env, "managedonly-new", metadata).await.unwrap();
    env.until_tenant_ready("managedonly", 2).await;
    assert_managed("managedonly-new").await;
}
