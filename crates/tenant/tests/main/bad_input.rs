//! The API server rejects invalid Tenants with a clear message.

use serde_json::{Value, json};

use crate::support::{TestEnv, tenant};

/// Creates a Tenant with this name and spec, and returns the error.
async fn create_error(env: &TestEnv, name: &str, spec: Value) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let manifest = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": name }, "spec": spec,
    });
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let error = env.kubectl(&["create", "-f", path]).await.expect_err("the Tenant should be rejected");
    format!("{error:#}")
}

async fn assert_rejected(spec: Value, path: &str, text: &str) {
    let env = TestEnv::new().await;
    let error = create_error(&env, &env.name, spec).await;
    assert!(error.contains(path) && error.contains(text), "{path}: {error}");
}

#[tokio::test]
async fn rejects_invalid_quantities() {
    let quota = json!({ "resourceQuotas": { "items": [{ "hard": { "limits.cpu": "eight" } }] } });
    assert_rejected(quota, "spec.resourceQuotas.items[0].hard.limits.cpu", "should match").await;
    let negative = json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "-1" } }] } });
    assert_rejected(negative, "spec.resourceQuotas.items[0].hard.pods", "should match").await;
    let negative = json!({ "resourceQuotas": { "items": [{ "hard": { "pods": -1 } }] } });
    assert_rejected(negative, "spec.resourceQuotas.items[0].hard.pods", "greater than or equal to 0").await;
    let limit = json!({ "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1 core" } }] }] } });
    assert_rejected(limit, "spec.limitRanges.items[0].limits[0].max.cpu", "should match").await;
}

#[tokio::test]
async fn rejects_invalid_patterns() {
    for (spec, path) in [
        (json!({ "storageClasses": { "allowedRegex": "(" } }), "spec.storageClasses.allowedRegex"),
        (
            json!({ "ingressOptions": { "allowedClasses": { "allowedRegex": "a(?=b)" } } }),
            "spec.ingressOptions.allowedClasses.allowedRegex",
        ),
        (
            json!({ "namespaceOptions": { "requiredMetadata": { "labels": { "env": "[" } } } }),
            "spec.namespaceOptions.requiredMetadata.labels",
        ),
        (
            json!({ "namespaceOptions": { "requiredMetadata": { "annotations": { "env": "[" } } } }),
            "spec.namespaceOptions.requiredMetadata.annotations",
        ),
        (
            json!({ "namespaceOptions": { "forbiddenLabels": { "deniedRegex": "*" } } }),
            "spec.namespaceOptions.forbiddenLabels.deniedRegex",
        ),
    ] {
        assert_rejected(spec, path, "a pattern must be valid RE2 syntax").await;
    }
}

#[tokio::test]
async fn rejects_invalid_cidrs() {
    let block = json!({ "cidr": "10.0.0.0" });
    let policy = json!({ "podSelector": {}, "egress": [{ "to": [{ "ipBlock": block }] }] });
    let spec = json!({ "networkPolicies": { "items": [policy] } });
    assert_rejected(spec, "spec.networkPolicies.items[0].egress[0].to[0].ipBlock.cidr", "cidr").await;
    let spec = json!({ "serviceOptions": { "externalIPs": { "allowed": ["10.0.0.0/33"] } } });
    assert_rejected(spec, "spec.serviceOptions.externalIPs.allowed", "a network such as 10.20.0.0/16").await;
}

#[tokio::test]
async fn rejects_invalid_owners_and_subjects() {
    let malformed = "must have the form system:serviceaccount:<namespace>:<name>";
    for name in ["deployer", "system:serviceaccount:default", "system:serviceaccount:a:b:c"] {
        let spec = json!({ "owners": [{ "kind": "ServiceAccount", "name": name }] });
        assert_rejected(spec, "spec.owners[0].name", malformed).await;
    }
    let spec = json!({ "owners": [{ "kind": "Robot", "name": "r" }] });
    assert_rejected(spec, "spec.owners[0].kind", "\"User\", \"Group\", \"ServiceAccount\"").await;
    let spec = json!({ "additionalRoleBindings": [{ "clusterRoleName": "view", "subjects": [] }] });
    assert_rejected(spec, "spec.additionalRoleBindings[0].subjects", "should have at least 1 items").await;
}

#[tokio::test]
async fn rejects_invalid_numbers_enums_and_unknown_fields() {
    let spec = json!({ "namespaceOptions": { "quota": 0 } });
    assert_rejected(spec, "spec.namespaceOptions.quota", "should be greater than or equal to 1").await;
    let spec = json!({ "resourceQuotas": { "scope": "Cluster" } });
    assert_rejected(spec, "spec.resourceQuotas.scope", "\"Tenant\", \"Namespace\"").await;
    assert_rejected(json!({ "cordon": true }), "spec.cordon", "unknown field").await;
}

#[tokio::test]
async fn rejects_name_that_is_too_long_for_a_label() {
    let env = TestEnv::new().await;
    let error = create_error(&env, &"a".repeat(64), json!({})).await;
    assert!(error.contains("may have at most 63 characters"), "{error}");
    let longest = format!("{}-{}", env.name, "a".repeat(62 - env.name.len()));
    env.tenants().create(&kube::api::PostParams::default(), &tenant(&longest, json!({}))).await.unwrap();
    env.tenants().delete(&longest, &kube::api::DeleteParams::default()).await.unwrap();
}
