//! What an object comes to depends on what is asked of it and on nothing that was asked before: after any change it is
//! like a new one with the same spec.
//!
//! The fields are those of the schema, and each of them is set, changed, taken away and set again, at first by itself
//! and then together with others; objects within are taken away as a whole, too. `ENSEMBLE_OPERATIONS` says how many changes of each kind are made, and
//! `ENSEMBLE_OPERATIONS_SEED` in which order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod pages;
mod subject;
mod walk;

use memcached::MemcachedController;
use namespaceplus::NamespacePlusController;
use podset::PodSetController;
use serde_json::json;

use crate::{
    subject::{Children, Subject},
    walk::walk,
};

/// What belongs to a Memcached.
const OF_MEMCACHED: &[&str] = &[
    "apps/v1/Deployment/deployments",
    "v1/Service/services",
    "policy/v1/PodDisruptionBudget/poddisruptionbudgets",
    "networking.k8s.io/v1/NetworkPolicy/networkpolicies",
];
/// What is in the namespace of a NamespacePlus.
const OF_NAMESPACE_PLUS: &[&str] = &[
    "v1/ResourceQuota/resourcequotas",
    "v1/LimitRange/limitranges",
    "networking.k8s.io/v1/NetworkPolicy/networkpolicies",
    "policy/v1/PodDisruptionBudget/poddisruptionbudgets",
    "rbac.authorization.k8s.io/v1/RoleBinding/rolebindings",
];
/// What belongs to a PodSet.
const OF_POD_SET: &[&str] = &["v1/Pod/pods"];

#[tokio::test]
async fn a_memcached_that_was_changed_is_like_a_new_one() {
    let base = json!({ "metrics": {}, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    let subject = Subject::of::<MemcachedController>(base, Children::Owned(OF_MEMCACHED)).await;
    walk(&subject, &[]).await;
}

#[tokio::test]
async fn a_namespaceplus_that_was_changed_is_like_a_new_one() {
    let base = json!({ "deletionPolicy": "Delete" });
    let subject =
        Subject::of::<NamespacePlusController>(base, Children::InItsNamespace(OF_NAMESPACE_PLUS)).await;
    walk(&subject, &[]).await;
}

#[tokio::test]
async fn a_podset_that_was_changed_is_like_a_new_one() {
    // Its pods are what they were made as, like those of a ReplicaSet, so they are made anew after each change.
    let container = json!({ "name": "main", "image": "registry.example.com/main:1" });
    let base = json!({ "template": { "spec": { "containers": [container] } } });
    let subject = Subject::of::<PodSetController>(base, Children::MadeAnew(OF_POD_SET)).await;
    // The first two are refused, and the third takes a single value. A profile on the node goes with the type Localhost only, which is another field.
    let unreached = [
        "activeDeadlineSeconds",
        "ephemeralContainers",
        "restartPolicy",
        "securityContext.appArmorProfile.localhostProfile",
        "securityContext.seccompProfile.localhostProfile",
    ]
    .map(|field| format!("template.spec.{field}"));
    walk(&subject, &unreached).await;
}
