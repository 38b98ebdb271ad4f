//! Decoding and storing Pods.

use std::{hint::black_box, ops::Range};

use operator_core::{
    informer::{Index, Informer, Informers, Selection},
    owner::controller_of,
    pod::PodView,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::offline_client;

/// Number of Pods in the cluster, and of each owner.
const PODS: usize = 10_000;
const EACH: usize = 10;

/// Decodes the Pod of a watch event.
pub(crate) fn decode(_: &'static Runtime) -> Box<dyn FnMut()> {
    let event = pod(1).to_string().into_bytes();
    Box::new(move || {
        black_box(serde_json::from_slice::<PodView>(black_box(&event)).expect("a pod"));
    })
}

/// Finds the Pods of one owner through the index.
pub(crate) fn find_by_owner(runtime: &'static Runtime) -> Box<dyn FnMut()> {
    let pods = CachedPods::new(runtime);
    pods.add(0..PODS);
    let owner = "owner-500".to_owned();
    assert_eq!(pods.by_owner.get(&owner).len(), EACH);
    Box::new(move || {
        black_box(pods.by_owner.get(black_box(&owner)));
    })
}

/// Updates one Pod in an indexed store.
pub(crate) fn update(runtime: &'static Runtime) -> Box<dyn FnMut()> {
    let pods = CachedPods::new(runtime);
    pods.add(0..PODS);
    let mut versions = ["4712", "4713"].map(|version| {
        let mut one = serde_json::from_value::<PodView>(pod(1)).expect("a pod");
        one.metadata.resource_version = Some(version.to_owned());
        one
    });
    Box::new(move || {
        versions.reverse();
        let [next, _] = &versions;
        pods.write(next.clone());
    })
}

/// A cache of Pods, indexed by their owners.
pub struct CachedPods {
    informer: Informer<PodView>,
    by_owner: Index<PodView, String>,
}

impl CachedPods {
    /// Returns an empty cache.
    pub fn new(runtime: &Runtime) -> Self {
        let _guard = runtime.enter();
        let informer = Informers::new(offline_client()).get_packed::<PodView>(Selection::All);
        let by_owner = informer.store().index(|pod: &PodView| {
            controller_of(&pod.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
        });
        Self { informer, by_owner }
    }

    /// Adds Pods with these numbers. Ten after each other have the same owner.
    pub fn add(&self, numbers: Range<usize>) {
        for number in numbers {
            self.write(serde_json::from_value(pod(number)).expect("a pod"));
        }
    }

    fn write(&self, pod: PodView) {
        self.informer.record_write(self.informer.store().epoch(), pod);
    }
}

/// Returns a Pod with the fields that a kubelet sets.
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
