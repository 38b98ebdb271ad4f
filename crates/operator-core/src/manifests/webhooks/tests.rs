use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::{CREATE, DELETE, FailurePolicy, UPDATE, any_namespaced, target},
    manifests::testing::Anything,
};

fn selector(key: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(key.to_owned(), "x".to_owned())].into()),
        ..LabelSelector::default()
    }
}

fn webhooks() -> Vec<Webhook> {
    vec![
        Webhook::validating::<Anything>("pods")
            .on(target::<Pod>(CREATE | UPDATE))
            .on(target::<Pod>(UPDATE).subresource("ephemeralcontainers"))
            .in_namespaces(selector("team"))
            .timeout_seconds(2)
            .side_effects()
            .build(),
        Webhook::mutating::<Anything>("namespaces")
            .on(target::<Namespace>(CREATE | UPDATE | DELETE))
            .match_condition("not-by-nodes", "!('system:nodes' in request.userInfo.groups)")
            .reinvoked()
            .build(),
        Webhook::mutating::<Anything>("anything")
            .on(any_namespaced(CREATE))
            .with_labels(selector("mine"))
            .build(),
    ]
}

const REGISTRATION: Registration = Registration {
    webhooks,
    policies: |own| vec![named_namespaces(own)],
    ..Registration::new("test", |_| unreachable!("the test does not run it"))
};

fn named_namespaces(own: &str) -> Policy {
    Policy::new("names")
        .on(target::<Namespace>(CREATE | UPDATE))
        .on(target::<Namespace>(UPDATE).subresource("status"))
        .named(["default", own])
        .validation("!has(object.metadata.labels)", "no labels here")
}

fn service() -> ClientConfig {
    ClientConfig::Service { namespace: "ensemble-system".to_owned() }
}

fn exempt() -> Value {
    json!({
        "key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["kube-system", "kube-public", "kube-node-lease", "ensemble-system"],
    })
}

#[test]
fn validating_webhook_fails_closed_and_skips_exempt_namespaces() {
    let configuration = serde_json::to_value(validating(&REGISTRATION, &service())).unwrap();
    assert_eq!(configuration["metadata"]["name"], "ensemble-test");
    let rule = |operations: Value, resource: &str| {
        json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource], "scope": "Namespaced",
        })
    };
    let expected = json!([{
        "name": "pods.test.ensemble",
        "admissionReviewVersions": ["v1"],
        "clientConfig": { "service": {
            "name": "ensemble-webhook", "namespace": "ensemble-system", "path": "/test/pods", "port": 443,
        }},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": { "matchLabels": { "team": "x" }, "matchExpressions": [exempt()] },
        "objectSelector": {},
        "rules": [rule(json!(["CREATE", "UPDATE"]), "pods"), rule(json!(["UPDATE"]), "pods/ephemeralcontainers")],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 2,
    }]);
    assert_eq!(configuration["webhooks"], expected);
}

#[test]
fn mutating_webhook_fails_open() {
    let configuration = serde_json::to_value(mutating(&REGISTRATION, &service())).unwrap();
    let webhooks = configuration["webhooks"].as_array().unwrap();
    let [namespaces, anything] = webhooks.as_slice() else { panic!("{webhooks:?}") };
    assert_eq!((&namespaces["failurePolicy"], &namespaces["timeoutSeconds"]), (&json!("Ignore"), &json!(5)));
    assert_eq!(
        (&namespaces["reinvocationPolicy"], &anything["reinvocationPolicy"]),
        (&json!("IfNeeded"), &json!("Never"))
    );
    // A Namespace is selected by its own labels, so kube-system is not excluded.
    assert_eq!(namespaces["namespaceSelector"], json!({}));
    assert_eq!(namespaces["sideEffects"], "None");
    assert_eq!(namespaces["matchConditions"][0]["name"], "not-by-nodes");
    assert_eq!(anything["namespaceSelector"]["matchExpressions"], json!([exempt()]));
    assert_eq!(anything["matchConditions"][0]["name"], "neither-leases-nor-events");
}

#[test]
fn webhooks_of_a_manager_outside_the_cluster_have_its_url() {
    let config = ClientConfig::Url { base: "https://127.0.0.1:9443".to_owned(), namespace: "own".to_owned() };
    let configuration = serde_json::to_value(validating(&REGISTRATION, &config)).unwrap();
    let webhook = &configuration["webhooks"][0];
    assert_eq!(webhook["clientConfig"], json!({ "url": "https://127.0.0.1:9443/test/pods" }));
    assert_eq!(webhook["namespaceSelector"]["matchExpressions"][0]["values"][3], "own");
}

#[test]
fn omits_configurations_without_webhooks() {
    let none = Registration { webhooks: Vec::new, ..REGISTRATION };
    assert!(validating(&none, &service()).is_none() && mutating(&none, &service()).is_none());
}

#[test]
fn policy_with_a_parameter_allows_everything_without_it() {
    let policy = Policy::new("parameter")
        .on(target::<Namespace>(UPDATE))
        .parameter::<Namespace>("settings")
        .failure_policy(FailurePolicy::Ignore)
        .match_condition("by-anna", "request.userInfo.username == 'anna'")
        .validation("object.metadata.name in params.metadata.labels", "not in the settings");
    let metadata = || ObjectMeta { name: Some("parameter".to_owned()), ..ObjectMeta::default() };
    let spec = serde_json::to_value(policy.policy(metadata())).unwrap()["spec"].clone();
    assert_eq!(spec["failurePolicy"], "Ignore");
    assert_eq!(spec["paramKind"], json!({ "apiVersion": "v1", "kind": "Namespace" }));
    let condition = json!({ "name": "by-anna", "expression": "request.userInfo.username == 'anna'" });
    assert_eq!(spec["matchConditions"], json!([condition]));
    let binding = serde_json::to_value(policy.binding(metadata())).unwrap();
    let parameter = json!({ "name": "settings", "parameterNotFoundAction": "Allow" });
    assert_eq!(binding["spec"]["paramRef"], parameter);
}

#[test]
fn policy_is_limited_to_names_and_has_a_binding() {
    let [(policy, binding)] = policies(&REGISTRATION, "own").try_into().unwrap();
    let rule = |operations: Value, resource: &str| {
        json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource],
            "resourceNames": ["default", "own"], "scope": "Cluster",
        })
    };
    let policy = serde_json::to_value(policy).unwrap();
    assert_eq!(policy["metadata"]["name"], "ensemble-test-names");
    let expected = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [rule(json!(["CREATE", "UPDATE"]), "namespaces"), rule(json!(["UPDATE"]), "namespaces/status")],
        },
        "validations": [{
            "expression": "!has(object.metadata.labels)", "message": "no labels here", "reason": "Forbidden",
        }],
    });
    assert_eq!(policy["spec"], expected);
    let binding = serde_json::to_value(binding).unwrap();
    let expected = json!({ "policyName": "ensemble-test-names", "validationActions": ["Deny"] });
    assert_eq!((&binding["metadata"]["name"], &binding["spec"]), (&json!("ensemble-test-names"), &expected));
}
