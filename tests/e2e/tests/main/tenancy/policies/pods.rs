//! Images, classes, and metadata of Pods.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{create_tenant, object, shared_env};
use crate::support::{TENANT, TestEnv};

fn container(image: &str) -> Value {
    json!({ "name": "main", "image": image, "imagePullPolicy": "Always" })
}

fn pod(namespace: &str, name: &str, image: &str) -> Value {
    object("v1", "Pod", namespace, name, json!({ "containers": [container(image)] }))
}

fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

fn priority_class(name: &str, value: i32, tier: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value,
        "metadata": { "name": name, "labels": { "tier": tier } },
    })
}

fn runtime_class(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc",
        "metadata": { "name": name, "labels": { "tier": tier } },
    })
}

async fn patch(env: &TestEnv, namespace: &str, subresource: &str, patch: Value) -> Result<(), String> {
    let api = Api::<Pod>::namespaced(env.cluster.client().await.unwrap(), namespace);
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let patched = match subresource {
        "" => api.patch("web", &params, &patch).await,
        subresource => api.patch_subresource(subresource, "web", &params, &patch).await,
    };
    patched.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn registries_and_pull_policies_apply_to_all_containers_and_updates() {
    let env = shared_env().await;
    let spec = json!({
        "containerRegistries": { "allowed": ["docker.io"], "allowedRegex": "^quay\\.[a-z]+$" },
        "imagePullPolicies": ["Always", "IfNotPresent"],
    });
    let (_, namespace) = create_tenant(env, "registries", spec).await;
    let annotations = env.read(&["get", "namespace", &namespace]).await["metadata"]["annotations"].clone();
    assert_eq!(annotations["capsule.clastix.io/allowed-registries"], "docker.io");
    assert_eq!(annotations["capsule.clastix.io/allowed-registries-regexp"], "^quay\\.[a-z]+$");

    let good = pod(&namespace, "web", "docker.io/library/nginx:1");
    env.until_admitted(&good).await;
    env.until_admitted(&pod(&namespace, "web", "quay.io/a")).await;
    let registry = "registry \"gcr.io\" of image \"gcr.io/pause:3\" is not allowed by Tenant registries";
    for bad in [
        pod(&namespace, "web", "gcr.io/pause:3"),
        with(good.clone(), "initContainers", json!([{ "name": "init", "image": "gcr.io/pause:3" }])),
    ] {
        env.assert_denied(&bad, registry).await;
    }
    env.assert_denied(&pod(&namespace, "web", "nginx"), "image \"nginx\" names no registry").await;
    let mut never = good.clone();
    never["spec"]["containers"][0]["imagePullPolicy"] = "Never".into();
    env.assert_denied(&never, "image pull policy \"Never\" is not allowed").await;

    env.store(good).await;
    let image = |image: &str| json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
    let denied = patch(env, &namespace, "", image("gcr.io/pause:3")).await.unwrap_err();
    assert!(denied.contains(registry), "{denied}");
    patch(env, &namespace, "", image("docker.io/library/nginx:2")).await.unwrap();
    let debug = |image: &str| {
        let container = json!({ "name": "debug", "image": image, "imagePullPolicy": "Always" });
        json!({ "spec": { "ephemeralContainers": [container] } })
    };
    let denied = patch(env, &namespace, "ephemeralcontainers", debug("gcr.io/pause:3")).await.unwrap_err();
    assert!(denied.contains("spec.ephemeralContainers[0].image: registry"), "{denied}");
    patch(env, &namespace, "ephemeralcontainers", debug("docker.io/busybox:1")).await.unwrap();

    // A stricter list does not affect changes that keep the image.
    env.change_tenant(
        "registries",
        json!({ "containerRegistries": { "allowed": ["ghcr.io"], "allowedRegex": null } }),
    )
    .await;
    env.until_denied(&pod(&namespace, "other", "docker.io/a"), "is not allowed by Tenant registries").await;
    patch(env, &namespace, "", json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap();
    patch(env, &namespace, "", json!({ "spec": { "activeDeadlineSeconds": 600 } })).await.unwrap();

    let denied = pod(&namespace, "denied", "gcr.io/pause:3");
    let event = env.assert_denial_event(&denied, "ForbiddenContainerRegistry").await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["action"], "ValidationDenied");
    assert_eq!((&event["regarding"]["kind"], &event["regarding"]["name"]), (&"Pod".into(), &"denied".into()));
    assert_eq!(
        (&event["related"]["kind"], &event["related"]["name"]),
        (&"Tenant".into(), &"registries".into())
    );
}

#[tokio::test]
async fn priority_classes_are_defaulted_and_validated() {
    let env = shared_env().await;
    for (name, value, tier) in
        [("tenant-low", 10, "none"), ("tenant-high", 1000, "oil"), ("tenant-other", 5, "none")]
    {
        env.store(priority_class(name, value, tier)).await;
    }
    let list = json!({ "allowed": ["tenant-low"], "matchLabels": { "tier": "oil" } });
    let (_, namespace) = create_tenant(env, "priorities", json!({ "priorityClasses": list })).await;
    let plain = || pod(&namespace, "web", "docker.io/a");
    let of = |class: &str| with(plain(), "priorityClassName", class.into());
    for class in ["tenant-low", "tenant-high"] {
        env.until_admitted(&of(class)).await;
    }
    let admitted = env.until_admitted(&plain()).await;
    assert_eq!(admitted["spec"]["priorityClassName"], Value::Null);
    for class in ["tenant-other", "system-cluster-critical"] {
        let text =
            format!("spec.priorityClassName: PriorityClass {class:?} is not allowed by Tenant priorities");
        env.assert_denied(&of(class), &text).await;
    }
    let status = env.read(&["get", "tenant", "priorities"]).await["status"]["classes"]["priority"].clone();
    assert_eq!(status, json!(["tenant-high", "tenant-low"]));

    env.change_tenant("priorities", json!({ "priorityClasses": { "default": "tenant-absent" } })).await;
    env.until_denied(&plain(), "PriorityClass \"tenant-absent\", the default of the Tenant").await;
    env.until(&TENANT, "", "priorities", "to report the missing class", |tenant| {
        let conditions = tenant.data["status"]["conditions"].to_string();
        conditions.contains("PriorityClass \\\"tenant-absent\\\" does not exist")
    })
    .await;
    env.change_tenant("priorities", json!({ "priorityClasses": { "default": "tenant-high" } })).await;
    let mut default = priority_class("tenant-global", 7, "none");
    default["globalDefault"] = true.into();
    env.store(default).await;
    let defaulted = cluster::wait::eventually("the default class", crate::support::PATIENCE, async || {
        let pod = env.dry_run(plain()).await;
        Ok(match pod {
            Ok(pod) if pod["spec"]["priorityClassName"] == "tenant-high" => Ok(pod),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    assert_eq!(defaulted["spec"]["priority"], 1000);
    assert_eq!(defaulted["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    // A class that the Pod names is kept, and then validated.
    assert_eq!(env.until_admitted(&of("tenant-low")).await["spec"]["priorityClassName"], "tenant-low");
    env.assert_denied(&of("tenant-other"), "PriorityClass \"tenant-other\" is not allowed").await;
    env.kubectl(&["delete", "priorityclass", "tenant-global"]).await.unwrap();
}

#[tokio::test]
async fn runtime_classes_are_defaulted_and_validated() {
    let env = shared_env().await;
    for (name, tier) in [("tenant-runc", "none"), ("tenant-gvisor", "safe"), ("tenant-kata", "none")] {
        env.store(runtime_class(name, tier)).await;
    }
    let list = json!({ "default": "tenant-runc", "matchLabels": { "tier": "safe" } });
    let (_, namespace) = create_tenant(env, "runtimes", json!({ "runtimeClasses": list })).await;
    let plain = || pod(&namespace, "web", "docker.io/a");
    let of = |class: &str| with(plain(), "runtimeClassName", class.into());
    assert_eq!(env.until_admitted(&plain()).await["spec"]["runtimeClassName"], "tenant-runc");
    for class in ["tenant-runc", "tenant-gvisor"] {
        env.until_admitted(&of(class)).await;
    }
    let text = "spec.runtimeClassName: RuntimeClass \"tenant-kata\" is not allowed by Tenant runtimes";
    env.assert_denied(&of("tenant-kata"), text).await;
    let status = env.read(&["get", "tenant", "runtimes"]).await["status"]["classes"]["runtime"].clone();
    assert_eq!(status, json!(["tenant-gvisor", "tenant-runc"]));
}

#[tokio::test]
async fn pods_get_metadata_of_the_tenant() {
    let env = shared_env().await;
    let (_, namespace) = create_tenant(env, "podmeta", json!({})).await;
    let label = "tenant.ensemble/pod-policies";
    let labels = async || env.read(&["get", "namespace", &namespace]).await["metadata"]["labels"].clone();
    assert_eq!(labels().await[label], Value::Null);
    env.store(pod(&namespace, "web", "docker.io/a")).await;
    let added = json!({ "labels": { "team": "oil" }, "annotations": { "cost": "7" } });
    env.change_tenant("podmeta", json!({ "podOptions": { "additionalMetadata": added } })).await;
    assert_eq!(labels().await[label], "true");
    let within = format!("--namespace={namespace}");
    let metadata = async |name: &str| env.read(&["get", "pod", name, &within]).await["metadata"].clone();
    let existing = metadata("web").await;
    assert_eq!((&existing["labels"]["team"], &existing["annotations"]["cost"]), (&"oil".into(), &"7".into()));
    let mut own = pod(&namespace, "other", "docker.io/a");
    own["metadata"]["labels"] = json!({ "team": "mine", "app": "web" });
    env.store(own).await;
    let labels_of_pod = metadata("other").await["labels"].clone();
    assert_eq!((&labels_of_pod["team"], &labels_of_pod["app"]), (&"oil".into(), &"web".into()));
    env.kubectl(&["label", "pod", "other", &within, "team-"]).await.unwrap();
    assert_eq!(metadata("other").await["labels"]["team"], "oil");
    // Pods keep the metadata, and the API server stops calling the webhook.
    env.change_tenant("podmeta", json!({ "podOptions": null })).await;
    assert_eq!(labels().await[label], Value::Null);
    assert_eq!(metadata("web").await["labels"]["team"], "oil");
}
