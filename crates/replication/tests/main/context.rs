//! Generators use existing objects as their context.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::support::{TestEnv, data, generator};

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata:\n  count: '{{ len .secrets }}'\n  \
    first: '{{ if .secrets }}{{ (index .secrets 0).metadata.name }}{{ else }}none{{ end }}'\n";

async fn render(env: &TestEnv, name: &str, context: Value, items: usize) {
    let mut spec = generator(TEMPLATE);
    spec["resources"][0]["context"] = json!({ "resources": [context] });
    env.tenant_resource(name, spec).await;
    env.until_ready(&env.tenant_resources(), name, items).await;
}

#[tokio::test]
async fn context_comes_from_each_rendered_namespace() {
    let env = TestEnv::new(&["a"]).await;
    env.secret("a", "in-a", json!({ "use": "yes" })).await;
    env.secret("home", "other", json!({})).await;
    let context = json!({ "index": "secrets", "apiVersion": "v1", "kind": "Secret", "selector": { "matchLabels": { "use": "yes" } } });
    render(&env, "r", context, 2).await;
    let a = env.api::<ConfigMap>("a").get("x").await.unwrap();
    assert_eq!((data(&a, "count").as_deref(), data(&a, "first").as_deref()), (Some("1"), Some("in-a")));
    let home = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!((data(&home, "count").as_deref(), data(&home, "first").as_deref()), (Some("0"), Some("none")));
}

#[tokio::test]
async fn context_comes_from_a_named_and_from_a_templated_namespace() {
    let env = TestEnv::new(&["a"]).await;
    env.secret("home", "shared", json!({})).await;
    let named = json!({ "index": "secrets", "kind": "Secret", "name": "shared", "namespace": "{{tenant.name}}-home" });
    render(&env, "r", named, 2).await;
    for suffix in ["home", "a"] {
        let x = env.api::<ConfigMap>(suffix).get("x").await.unwrap();
        assert_eq!(data(&x, "first").as_deref(), Some("shared"));
    }
}

#[tokio::test]
async fn a_missing_object_fails_unless_it_is_optional() {
    let env = TestEnv::new(&[]).await;
    let missing = json!({ "index": "secrets", "kind": "Secret", "name": "missing" });
    render(&env, "optional", missing.clone(), 1).await;
    let mut required = missing;
    required["optional"] = false.into();
    let mut spec = generator(TEMPLATE);
    spec["resources"][0]["context"] = json!({ "resources": [required] });
    env.tenant_resource("required", spec).await;
    env.until_failed(&env.tenant_resources(), "required", "does not exist").await;
}
