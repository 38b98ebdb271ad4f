//! The values that the Tenant webhook denies are the ones that the API server rejects in other
//! objects.

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::support::TestEnv;

const NAMESPACE: &str = "default";

/// Returns whether the API server accepts an object. Panics on an error other than invalid content.
async fn is_accepted(
    env: &TestEnv,
    (group, kind): (&str, &str),
    metadata: Value,
    spec: Option<&Value>,
) -> bool {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api = Api::<DynamicObject>::namespaced_with(env.client.clone(), NAMESPACE, &kind);
    let mut object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": { "name": env.name },
    });
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    if let Some(spec) = spec {
        object["spec"] = spec.clone();
    }
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&dry, &serde_json::from_value(object.clone()).unwrap()).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 422 => false,
        Err(error) => panic!("{object}: {error}"),
    }
}

#[tokio::test]
async fn api_server_rejects_the_same_propagated_values() {
    let env = TestEnv::new().await;
    let cases: Value =
        serde_json::from_str(include_str!("../../../capsule/tests/fixtures/propagated-values.json")).unwrap();
    let text = |key: &str, value: &str| json!({ key: value });
    for (list, expected) in [("valid", true), ("invalid", false)] {
        let each = |name: &str| {
            let texts = cases[name][list].as_array().unwrap().iter();
            texts.map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let labels = each("labelKeys").into_iter().map(|key| json!({ "labels": text(&key, "") }));
        let values = each("labelValues").into_iter().map(|value| json!({ "labels": text("a", &value) }));
        let annotations =
            each("annotationKeys").into_iter().map(|key| json!({ "annotations": text(&key, "") }));
        for metadata in labels.chain(values).chain(annotations) {
            let accepted = is_accepted(&env, ("", "ConfigMap"), metadata.clone(), None).await;
            assert_eq!(accepted, expected, "{metadata}");
        }
    }
    for case in cases["specs"].as_array().unwrap() {
        let kind = case["kind"].as_str().unwrap();
        let group = if kind == "LimitRange" { "" } else { "networking.k8s.io" };
        let accepted = is_accepted(&env, (group, kind), json!({}), Some(&case["spec"])).await;
        assert_eq!(accepted, case["error"].is_null(), "{case}");
    }
    // The maximum size and one byte more.
    for (size, expected) in [(256 * 1024 - 1, true), (256 * 1024, false)] {
        let annotations = json!({ "annotations": { "a": "x".repeat(size) } });
        assert_eq!(is_accepted(&env, ("", "ConfigMap"), annotations, None).await, expected, "{size}");
    }
}
