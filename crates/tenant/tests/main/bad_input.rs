//! What is wrong is refused by the API server, with a sentence.

use serde_json::{Value, json};

use crate::support::{World, tenant};

/// What the API server says to a Tenant with that name and spec.
async fn refused(world: &World, name: &str, spec: Value) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let manifest = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": name }, "spec": spec,
    });
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let error = world.kubectl(&["create", "-f", path]).await.expect_err("it should have been refused");
    format!("{error:#}")
}

async fn assert_refused(spec: Value, place: &str, sentence: &str) {
    let world = World::new().await;
    let error = refused(&world, &world.name, spec).await;
    assert!(error.contains(place) && error.contains(sentence), "{place}: {error}");
}

#[tokio::test]
async fn amounts_must_be_quantities() {
    let quota = json!({ "resourceQuotas": { "items": [{ "hard": { "limits.cpu": "eight" } }] } });
    assert_refused(quota, "spec.resourceQuotas.items[0].hard", "every amount must be a quantity").await;
    let negative = json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "-1" } }] } });
    assert_refused(negative, "spec.resourceQuotas.items[0].hard", "no amount may be negative").await;
    let limit = json!({ "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1 core" } }] }] } });
    assert_refused(limit, "spec.limitRanges.items[0].limits[0].max", "every amount must be a quantity").await;
}

#[tokio::test]
async fn patterns_must_be_patterns() {
    for (spec, place) in [
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
        assert_refused(spec, place, "a pattern must be valid RE2 syntax").await;
    }
}

#[tokio::test]
async fn networks_must_be_networks() {
    let block = json!({ "cidr": "10.0.0.0" });
    let policy = json!({ "podSelector": {}, "egress": [{ "to": [{ "ipBlock": block }] }] });
    let spec = json!({ "networkPolicies": { "items": [policy] } });
    assert_refused(spec, "spec.networkPolicies.items[0].egress[0].to[0].ipBlock.cidr", "cidr").await;
    let spec = json!({ "serviceOptions": { "externalIPs": { "allowed": ["10.0.0.0/33"] } } });
    assert_refused(spec, "spec.serviceOptions.externalIPs.allowed", "a network such as 10.20.0.0/16").await;
}

#[tokio::test]
async fn owners_must_say_whom_they_mean() {
    let malformed = "must have the form system:serviceaccount:<namespace>:<name>";
    for name in ["deployer", "system:serviceaccount:default", "system:serviceaccount:a:b:c"] {
        let spec = json!({ "owners": [{ "kind": "ServiceAccount", "name": name }] });
        assert_refused(spec, "spec.owners[0].name", malformed).await;
    }
    let spec = json!({ "owners": [{ "kind": "Robot", "name": "r" }] });
    assert_refused(spec, "spec.owners[0].kind", "\"User\", \"Group\", \"ServiceAccount\"").await;
    let spec = json!({ "additionalRoleBindings": [{ "clusterRoleName": "view", "subjects": [] }] });
    assert_refused(spec, "spec.additionalRoleBindings[0].subjects", "should have at least 1 items").await;
}

#[tokio::test]
async fn numbers_and_choices_are_checked() {
    let spec = json!({ "namespaceOptions": { "quota": 0 } });
    assert_refused(spec, "spec.namespaceOptions.quota", "should be greater than or equal to 1").await;
    let spec = json!({ "resourceQuotas": { "scope": "Cluster" } });
    assert_refused(spec, "spec.resourceQuotas.scope", "\"Tenant\", \"Namespace\"").await;
    assert_refused(json!({ "cordon": true }), "spec.cordon", "unknown field").await;
}

#[tokio::test]
async fn a_name_that_does_not_fit_into_a_label_is_refused() {
    let world = World::new().await;
    let error = refused(&world, &"a".repeat(64), json!({})).await;
    assert!(error.contains("may have at most 63 characters"), "{error}");
    let longest = format!("{}-{}", world.name, "a".repeat(62 - world.name.len()));
    world.tenants().create(&kube::api::PostParams::default(), &tenant(&longest, json!({}))).await.unwrap();
    world.tenants().delete(&longest, &kube::api::DeleteParams::default()).await.unwrap();
}
