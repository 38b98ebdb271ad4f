//! What the conditions say.

use serde_json::{json, to_value};

use crate::support::{World, said, status};

#[tokio::test]
async fn fields_that_are_not_enforced_yet_are_named() {
    let world = World::new().await;
    let spec = json!({ "namespaceOptions": { "managedMetadataOnly": true }, "priorityClasses": { "allowed": ["low"] } });
    let tenant = world.ready(spec, &[]).await;
    let (is, reason, message) = said(&tenant, "FieldsEnforced").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("False", "NotEnforced"));
    assert!(
        message.ends_with("spec.priorityClasses, spec.namespaceOptions.managedMetadataOnly"),
        "{message}"
    );
    world.change(json!({ "namespaceOptions": null, "priorityClasses": null })).await;
    let tenant = world.until_said("FieldsEnforced", "True", "every field").await;
    assert_eq!(said(&tenant, "FieldsEnforced").unwrap().1, "Enforced");
}

#[tokio::test]
async fn a_tenant_without_a_spec_is_one() {
    let world = World::new().await;
    let manifest = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": world.name },
    });
    world.harness.cluster.apply_yaml(&manifest.to_string()).await.unwrap();
    world.join("a").await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn a_cordoned_tenant_says_so_everywhere() {
    let world = World::new().await;
    world.ready(json!({ "cordoned": true }), &["a"]).await;
    let tenant = world.until_said("Cordoned", "True", "").await;
    assert_eq!(said(&tenant, "Cordoned").unwrap().1, "Cordoned");
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Cordoned");
    let space = status(&tenant).spaces.remove(0);
    assert!(operator_core::conditions::is_true(&space.conditions, "Cordoned"));
    assert!(said(&tenant, "FieldsEnforced").unwrap().2.contains("spec.cordoned"));
    world.change(json!({ "cordoned": false })).await;
    let tenant = world.until_said("Cordoned", "False", "").await;
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Active");
}
