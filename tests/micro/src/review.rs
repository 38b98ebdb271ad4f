//! An admission review.

use std::hint::black_box;

use operator_core::{Environment, admission::Endpoint, register};
use serde_json::json;
use tenant::TenantController;
use tokio::runtime::Runtime;

use crate::offline_client;

/// Answers a review of a Tenant.
pub(crate) fn answer(runtime: &'static Runtime) -> Box<dyn FnMut()> {
    let _guard = runtime.enter();
    let controller = register::<TenantController>();
    let of_tenants = (controller.webhooks)().into_iter();
    let endpoint = of_tenants
        .map(|webhook| Endpoint::build(webhook, controller.name, &Environment::new(offline_client())))
        .find(|endpoint| endpoint.path() == "/tenant/tenants")
        .expect("a webhook for Tenants");
    let review = review();
    Box::new(move || assert!(runtime.block_on(endpoint.answer(black_box(&review))).is_ok()))
}

/// Returns the review of a Tenant's creation.
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
