//! PersistentVolumes of Tenants.

use serde_json::{Value, json};

use super::{create_tenant, object, shared_env};
use crate::support::TestEnv;

const LABEL: &str = "capsule.clastix.io/tenant";

fn volume(name: &str, labels: Value, claim: Option<(&str, &str)>) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name, "labels": labels },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "hostPath": { "path": "/tmp/none" },
        },
    });
    if let Some((namespace, name)) = claim {
        volume["spec"]["claimRef"] = json!({ "namespace": namespace, "name": name });
    }
    volume
}

fn claim(namespace: &str, name: &str, spec: Value) -> Value {
    let mut all = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        "storageClassName": "manual",
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object("v1", "PersistentVolumeClaim", namespace, name, all)
}

async fn until_owned(env: &TestEnv, volume: &str) {
    env.until_label("persistentvolume", volume, LABEL, &json!("volumes")).await;
}

#[tokio::test]
async fn claims_use_only_volumes_of_their_tenant() {
    let env = shared_env().await;
    let (_, namespace) = create_tenant(env, "volumes", json!({})).await;
    let (_, other) = create_tenant(env, "volthief", json!({})).await;
    for (name, labels) in [
        ("vol-none", json!({})),
        ("vol-empty", json!({ LABEL: "" })),
        ("vol-stale", json!({ LABEL: "gone" })),
    ] {
        env.store(volume(name, labels, Some((&namespace, name)))).await;
        until_owned(env, name).await;
    }
    env.store(volume("vol-free", json!({}), None)).await;
    let named = |namespace: &str, volume: &str| claim(namespace, "data", json!({ "volumeName": volume }));
    let selector = json!([{ "key": LABEL, "operator": "In", "values": ["volumes"] }]);
    let admitted = env.until_admitted(&named(&namespace, "vol-none")).await;
    assert_eq!(admitted["spec"]["selector"]["matchExpressions"], selector);
    for (volume, text) in [
        ("vol-none", "PersistentVolume vol-none belongs to another Tenant"),
        ("vol-free", "PersistentVolume vol-free does not have the label"),
        ("vol-absent", "PersistentVolume vol-absent does not exist"),
    ] {
        env.assert_denied(&named(&other, volume), text).await;
    }
    env.assert_denial_event(&named(&other, "vol-free"), "CrossTenantReference").await;

    // Selectors are limited to the volumes of the Tenant, and plain claims stay plain.
    let foreign = json!({ "selector": { "matchLabels": { LABEL: "volumes", "tier": "fast" } } });
    let admitted = env.until_admitted(&claim(&other, "data", foreign)).await;
    let own = json!([{ "key": LABEL, "operator": "In", "values": ["volthief"] }]);
    assert_eq!(
        admitted["spec"]["selector"],
        json!({ "matchLabels": { "tier": "fast" }, "matchExpressions": own })
    );
    let plain = env.until_admitted(&claim(&other, "data", json!({}))).await;
    assert_eq!(plain["spec"]["selector"], Value::Null);

    // The name cannot be set later either.
    env.store(claim(&other, "later", json!({ "storageClassName": "none" }))).await;
    let within = format!("--namespace={other}");
    let patch = json!({ "spec": { "volumeName": "vol-none" } }).to_string();
    let denied = env.kubectl(&["patch", "pvc", "later", &within, "--type=merge", "-p", &patch]).await;
    let denied = format!("{:#}", denied.unwrap_err());
    assert!(denied.contains("vol-none belongs to another Tenant"), "{denied}");

    // The volume stays with the Tenant when its claim is gone.
    env.store(named(&namespace, "vol-none")).await;
    let within = format!("--namespace={namespace}");
    env.kubectl(&["delete", "pvc", "data", &within, "--wait=false"]).await.unwrap();
    until_owned(env, "vol-none").await;
    env.assert_denied(&named(&other, "vol-none"), "belongs to another Tenant").await;
}
