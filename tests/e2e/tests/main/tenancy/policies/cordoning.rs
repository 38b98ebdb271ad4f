//! Cordoned Tenants and namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Subject, create_tenant, object, shared_env};
use crate::support::{PATIENCE, TestEnv};

const LABEL: &str = "projectcapsule.dev/cordoned";

async fn config_maps(env: &TestEnv, subject: &Subject, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(subject.client(env).await, namespace)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

/// Waits until a create of the user is denied because of the cordon.
async fn until_cordoned(api: &Api<ConfigMap>) {
    cluster::wait::eventually("the cordon to take effect", PATIENCE, async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let tried = api.create(&params, &config_map("probe")).await.map_err(|error| error.to_string());
        Ok(match tried {
            Err(denied) if denied.contains("is cordoned") => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn users_cannot_change_a_cordoned_tenant() {
    let env = shared_env().await;
    let (owner, namespace) = create_tenant(env, "cordoned", json!({})).await;
    let api = config_maps(env, &owner, &namespace).await;
    let pod =
        object("v1", "Pod", &namespace, "web", json!({ "containers": [{ "name": "a", "image": "a" }] }));
    env.store(pod).await;
    api.create(&PostParams::default(), &config_map("before")).await.unwrap();

    env.change_tenant("cordoned", json!({ "cordoned": true })).await;
    env.until_label("namespace", &namespace, LABEL, &json!("true")).await;
    until_cordoned(&api).await;
    let denied = |error: kube::Error| {
        let text = error.to_string();
        assert!(text.contains("is cordoned"), "{text}");
    };
    denied(api.create(&PostParams::default(), &config_map("after")).await.unwrap_err());
    denied(api.delete("before", &DeleteParams::default()).await.unwrap_err());
    let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
    denied(api.patch("before", &PatchParams::default(), &patch).await.unwrap_err());
    let inside = config_maps(env, &Subject::account(&namespace, "default"), &namespace).await;
    denied(inside.create(&PostParams::default(), &config_map("inside")).await.unwrap_err());
    let pods = Api::<Pod>::namespaced(owner.client(env).await, &namespace);
    denied(pods.delete("web", &DeleteParams::default()).await.unwrap_err());
    denied(pods.evict("web", &kube::api::EvictParams::default()).await.unwrap_err());

    for refused in [
        owner.create(env, "cordoned-new").await.unwrap_err(),
        owner.delete(env, &namespace).await.unwrap_err(),
    ] {
        assert!(refused.contains("Tenant cordoned is cordoned"), "{refused}");
    }
    let namespaces = Api::<Namespace>::all(owner.client(env).await);
    let remove = Patch::Merge(json!({ "metadata": { "labels": { LABEL: null } } }));
    let refused =
        namespaces.patch(&namespace, &PatchParams::default(), &remove).await.unwrap_err().to_string();
    assert!(refused.contains("is cordoned"), "{refused}");
    // Reading, administrators, and other users are not affected.
    api.get("before").await.unwrap();
    env.store(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "admin", "namespace": namespace },
    }))
    .await;
    let outsider = config_maps(env, &Subject::without_groups("outsider-of-cordoned"), &namespace).await;
    outsider.create(&PostParams::default(), &config_map("outsider")).await.unwrap();

    // The status is written after the label.
    cluster::wait::eventually("the condition Cordoned", PATIENCE, async || {
        let tenant = env.read(&["get", "tenant", "cordoned"]).await;
        let conditions = tenant["status"]["spaces"][0]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == "Cordoned");
        let is_so = found.is_some_and(|it| it["status"] == "True" && it["reason"] == "Cordoned");
        Ok(if is_so { Ok(()) } else { Err(tenant) })
    })
    .await
    .unwrap();

    env.change_tenant("cordoned", json!({ "cordoned": false })).await;
    env.until_label("namespace", &namespace, LABEL, &Value::Null).await;
    cluster::wait::eventually("the cordon to end", PATIENCE, async || {
        let deleted = api.delete("before", &DeleteParams::default()).await;
        Ok(deleted.map(drop).map_err(|error| error.to_string()))
    })
    .await
    .unwrap();
    owner.delete(env, &namespace).await.unwrap();
    // Events are sent beside what they tell of.
    cluster::wait::eventually("the Events of the Tenant", PATIENCE, async || {
        let events = env.read(&["get", "events.v1.events.k8s.io", "--namespace=default"]).await;
        let events = events["items"].as_array().unwrap();
        let of_tenant = events.iter().filter(|event| event["regarding"]["name"] == "cordoned");
        let actions: Vec<_> = of_tenant.filter_map(|event| event["action"].as_str()).collect();
        let has_all = ["Cordoned", "UnCordoned", "ValidationDenied"].iter().all(|it| actions.contains(it));
        Ok(if has_all { Ok(()) } else { Err(actions.join(", ")) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn owner_cordons_a_namespace() {
    let env = shared_env().await;
    let (owner, namespace) = create_tenant(env, "selfcordon", json!({})).await;
    let namespaces = Api::<Namespace>::all(owner.client(env).await);
    let label = async |value: Value| {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: value } } }));
        namespaces.patch(&namespace, &PatchParams::default(), &patch).await.unwrap();
    };
    let api = config_maps(env, &owner, &namespace).await;
    // Only this value counts.
    label(json!("yes")).await;
    api.create(&PostParams::default(), &config_map("one")).await.unwrap();
    label(json!("true")).await;
    until_cordoned(&api).await;
    label(Value::Null).await;
    cluster::wait::eventually("the cordon to end", PATIENCE, async || {
        let created = api.create(&PostParams::default(), &config_map("two")).await;
        Ok(created.map(drop).map_err(|error| error.to_string()))
    })
    .await
    .unwrap();
    // The deletion of a namespace does not wait for the cordon.
    label(json!("true")).await;
    until_cordoned(&api).await;
    owner.delete(env, &namespace).await.unwrap();
    env.until_no_namespace(&namespace).await;
}
