//! What a manager does for each event, each reconcile and each review, without a cluster.
#![allow(missing_docs, reason = "the macros of criterion make functions without any")]
#![allow(clippy::expect_used, reason = "a benchmark that cannot be set up ends")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, Config};
use operator_core::{
    Environment, ObjectKey,
    admission::Endpoint,
    informer::{Informers, Selection},
    owner::{Owner, controller_of},
    pod::PodView,
    register,
    write::{Children, Written},
};
use serde_json::{Value, json};
use tenant::TenantController;
use tokio::runtime::Runtime;

/// The pods of the cluster, and of each owner.
const PODS: usize = 10_000;
const EACH: usize = 10;

/// A pod as a kubelet leaves it.
fn pod(number: usize) -> Value {
    let owner = format!("owner-{}", number / EACH);
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-pod-{number}"),
            "namespace": "shop",
            "uid": format!("0d5d7c9e-0000-4000-8000-{number:012}"),
            "resourceVersion": "4711",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "web", "version": "v0.1", "app.kubernetes.io/name": "web" },
            "ownerReferences": [{
                "apiVersion": "app.example.com/v1alpha1", "kind": "PodSet", "name": "web", "uid": owner,
                "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [{
                "manager": "kwok", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "subresource": "status",
                "fieldsV1": { "f:status": { "f:conditions": { "k:{\"type\":\"Ready\"}": { "f:status": {}, "f:type": {} } }, "f:phase": {} } },
            }],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{
                "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": { "requests": { "cpu": "100m" } },
                "volumeMounts": [{ "name": "kube-api-access-abcde", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }],
            }],
            "volumes": [{ "name": "kube-api-access-abcde", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
            "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" }],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.244.0.7",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [{ "name": "main", "ready": true, "restartCount": 0, "image": "pause", "imageID": "" }],
        },
    })
}

fn deployment(deployment: &mut Deployment) {
    let wanted = json!({
        "metadata": deployment.metadata,
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "memcached", "memcached_cr": "cache" } },
            "template": {
                "metadata": { "labels": { "app": "memcached", "memcached_cr": "cache" } },
                "spec": { "containers": [{
                    "name": "memcached", "image": "memcached:1.4.36-alpine", "args": ["-m", "64", "-o", "modern", "-v"],
                    "ports": [{ "name": "memcached", "containerPort": 11211 }],
                    "resources": { "requests": { "memory": "96Mi" }, "limits": { "memory": "96Mi" } },
                }] },
            },
        },
    });
    *deployment = serde_json::from_value(wanted).expect("a Deployment");
}

/// The creation of a Tenant, as the API server asks about it.
fn review() -> Vec<u8> {
    let (group, version) = ("capsule.clastix.io", "v1beta2");
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": group, "version": version, "kind": "Tenant" },
            "resource": { "group": group, "version": version, "resource": "tenants" },
            "name": "oil",
            "operation": "CREATE",
            "userInfo": { "username": "admin", "groups": ["system:masters"] },
            "object": {
                "apiVersion": format!("{group}/{version}"), "kind": "Tenant", "metadata": { "name": "oil" },
                "spec": {
                    "owners": [{ "kind": "User", "name": "alice" }],
                    "namespaceOptions": { "quota": 3 },
                    "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": { "limits.cpu": "8", "pods": "10" } }] },
                },
            },
            "dryRun": false,
        },
    });
    review.to_string().into_bytes()
}

/// A client of nobody: what is measured sends nothing.
fn nobody() -> Client {
    let mut config = Config::new("http://127.0.0.1:1".parse().expect("a URI"));
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

fn pods(criterion: &mut Criterion, runtime: &Runtime) {
    let event = pod(1).to_string().into_bytes();
    criterion.bench_function("pod of an event decoded", |bencher| {
        bencher.iter(|| serde_json::from_slice::<PodView>(black_box(&event)).expect("a pod"));
    });

    let _guard = runtime.enter();
    let informer = Informers::new(nobody()).get::<PodView>(Selection::All);
    let by_owner = informer.store().index(|pod: &PodView| {
        controller_of(&pod.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
    });
    for number in 0..PODS {
        let pod = serde_json::from_value(pod(number)).expect("a pod");
        informer.wrote(informer.store().now(), pod);
    }
    let owner = "owner-500".to_owned();
    assert_eq!(by_owner.get(&owner).len(), EACH);
    criterion.bench_function("pods of one owner of 1,000", |bencher| {
        bencher.iter(|| by_owner.get(black_box(&owner)));
    });
    let versions = ["4712", "4713"].map(|version| {
        let mut one = serde_json::from_value::<PodView>(pod(1)).expect("a pod");
        one.metadata.resource_version = Some(version.to_owned());
        one
    });
    let mut next = versions.iter().cycle().cloned();
    criterion.bench_function("pod changed in a store of 10,000", |bencher| {
        bencher.iter(|| informer.wrote(informer.store().now(), next.next().expect("another version")));
    });
}

fn unchanged(criterion: &mut Criterion, runtime: &Runtime) {
    let _guard = runtime.enter();
    let informer = Informers::new(nobody()).get::<Deployment>(Selection::All);
    let children = Children::new(nobody(), informer.clone());
    let key = ObjectKey::namespaced("shop", "cache");
    let owner = Owner::Mark { key: "example.com/owner", value: "shop/cache".to_owned() };
    let mut present = Deployment::default();
    present.metadata.name = Some("cache".to_owned());
    present.metadata.namespace = Some("shop".to_owned());
    present.metadata.resource_version = Some("1".to_owned());
    owner.stamp(&mut present.metadata);
    deployment(&mut present);
    informer.wrote(informer.store().now(), present.clone());
    criterion.bench_function("Deployment compared, nothing to write", |bencher| {
        bencher.iter(|| {
            let written = runtime.block_on(children.create_or_update(&key, &owner, |child| {
                child.spec.clone_from(&present.spec);
            }));
            assert!(matches!(written, Ok(Written::Unchanged)));
        });
    });
}

fn admission(criterion: &mut Criterion, runtime: &Runtime) {
    let _guard = runtime.enter();
    let controller = register::<TenantController>();
    let of_tenants = (controller.webhooks)().into_iter();
    let endpoints =
        of_tenants.map(|webhook| Endpoint::wire(webhook, controller.name, &Environment::new(nobody())));
    let endpoint = endpoints
        .into_iter()
        .find(|endpoint| endpoint.path() == "/tenant/tenants")
        .expect("a webhook for Tenants");
    let review = review();
    criterion.bench_function("review of a Tenant", |bencher| {
        bencher.iter(|| assert!(runtime.block_on(endpoint.answer(black_box(&review))).is_ok()));
    });
}

fn hot_paths(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    pods(criterion, &runtime);
    unchanged(criterion, &runtime);
    admission(criterion, &runtime);
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
