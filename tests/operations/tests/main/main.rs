//! Tests that the state of an object depends only on its current spec, not on earlier specs: after
//! any change it equals a new object with the same spec.
//!
//! The fields come from the schema. Each field is set, changed, removed, and set again, alone and
//! together with others. Nested objects are also removed as a whole. `ENSEMBLE_OPERATIONS` sets the
//! number of changes per kind, `ENSEMBLE_OPERATIONS_SEED` the order.
//!
//! Also tests of the pages and of the modules of the crates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod builds;
mod modules;
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

/// Children of a Memcached.
const MEMCACHED_CHILDREN: &[&str] = &[
    "apps/v1/Deployment/deployments",
    "v1/Service/services",
    "policy/v1/PodDisruptionBudget/poddisruptionbudgets",
    "networking.k8s.io/v1/NetworkPolicy/networkpolicies",
];
/// Objects in the namespace of a NamespacePlus.
const NAMESPACE_PLUS_CHILDREN: &[&str] = &[
    "v1/ResourceQuota/resourcequotas",
    "v1/LimitRange/limitranges",
    "networking.k8s.io/v1/NetworkPolicy/networkpolicies",
    "policy/v1/PodDisruptionBudget/poddisruptionbudgets",
    "rbac.authorization.k8s.io/v1/RoleBinding/rolebindings",
];
/// Children of a PodSet.
const POD_SET_CHILDREN: &[&str] = &["v1/Pod/pods"];

#[tokio::test]
async fn changed_memcached_equals_new_one() {
    let base = json!({ "metrics": {}, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    let subject = Subject::of::<MemcachedController>(base, Children::Owned(MEMCACHED_CHILDREN)).await;
    walk(&subject, &[]).await;
}

#[tokio::test]
async fn changed_namespaceplus_equals_new_one() {
    let base = json!({ "deletionPolicy": "Delete" });
    let subject =
        Subject::of::<NamespacePlusController>(base, Children::InNamespace(NAMESPACE_PLUS_CHILDREN)).await;
    walk(&subject, &[]).await;
}

#[tokio::test]
async fn changed_podset_equals_new_one() {
    // // As with a ReplicaSet, a changed template applies only to new Pods. The Pods are therefore
    // recreated after each change.
    let container = json!({ "name": "main", "image": "registry.example.com/main:1" });
    let base = json!({ "template": { "spec": { "containers": [container] } } });
    let subject = Subject::of::<PodSetController>(base, Children::Recreated(POD_SET_CHILDREN)).await;
    // // The first two are rejected, and the third has a single valid value. A node's seccomp
    // profile is valid only with the type Localhost, which is another field.
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
