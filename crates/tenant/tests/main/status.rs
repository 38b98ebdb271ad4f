//! Conditions and state of the Tenant.

use serde_json::{json, to_value};

use crate::support::{TestEnv, condition, status};

#[tokio::test]
async fn reports_fields_that_are_not_enforced() {
    let env = TestEnv::new().await;
    let rules = json!([{ "enforce": { "services": { "types": ["NodePort"] } } }]);
    let tenant = env.ready(json!({ "rules": rules }), &[]).await;
    let (is, reason, message) = condition(&tenant, "FieldsEnforced").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("False", "NotEnforced"));
    assert!(message.ends_with("spec.rules"), "{message}");
    env.change(json!({ "rules": null })).await;
    let tenant = env.until_condition("FieldsEnforced", "True", "every field").await;
    assert_eq!(condition(&tenant, "FieldsEnforced").unwrap().1, "Enforced");
}

#[tokio::test]
async fn accepts_tenant_without_spec() {
    let env = TestEnv::new().await;
    let manifest = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": env.name },
    });
    env.harness.cluster.apply_yaml(&manifest.to_string()).await.unwrap();
    env.join("a").await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn reports_cordoned_tenant_in_state_conditions_and_spaces() {
    let env = TestEnv::new().await;
    env.ready(json!({ "cordoned": true }), &["a"]).await;
    let tenant = env.until_condition("Cordoned", "True", "").await;
    assert_eq!(condition(&tenant, "Cordoned").unwrap().1, "Cordoned");
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Cordoned");
    let space = status(&tenant).spaces.remove(0);
    assert!(operator_core::conditions::is_true(&space.conditions, "Cordoned"));
    assert_eq!(condition(&tenant, "FieldsEnforced").unwrap().0, "True");
    env.change(json!({ "cordoned": false })).await;
    let tenant = env.until_condition("Cordoned", "False", "").await;
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Active");
}
