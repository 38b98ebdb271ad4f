//! Check that the webhooks respond to the API server.
//!
//! Sends a dry run of a create that a webhook reviews, and a read in a version that a webhook
//! converts. Nothing is stored.

use anyhow::Context;
use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
};
use manager::check::create_webhook;
use operator_core::{
    error::{chain, status},
    manifests::webhooks,
};
use serde_json::json;

use super::Finding;
use crate::{
    cluster::Cluster,
    errors::is_rbac_denial,
    installation::Installation,
    kinds::{Kind, is_not_found},
};

const ADVICE: &str = "the API server must reach the manager on port 9443, through the Service ensemble-webhook or the \
     URL of the configuration; see docs/operations/admission.md";

/// Result of a request that calls a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallResult {
    /// The webhook allowed or denied the request.
    Reviewed,
    /// The API server could not call the webhook.
    Unreachable,
    /// You lack the permission for the request.
    Forbidden,
    /// The response does not depend on the webhook.
    Other,
}

pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    if !installation.serves_webhooks() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for kind in installation.kinds() {
        if let Some(webhook) = create_webhook(&kind.controller, &kind.definition) {
            let webhook = webhook.full_name(kind.controller.name);
            if is_configured(cluster, &kind, &webhook).await {
                findings.push(call_admission(cluster, &kind, &webhook).await);
            }
        }
        if let Some(version) = converted_version(&kind.definition) {
            findings.extend(call_conversion(cluster, &kind, version).await);
        }
    }
    findings
}

/// Returns whether the webhook is configured.
///
/// Without a configuration, the API server allows the request without a review, and another check
/// reports the problem. Returns true if the configuration cannot be read.
async fn is_configured(cluster: &Cluster, kind: &Kind, webhook: &str) -> bool {
    let configurations = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
    let found = configurations.get_opt(&webhooks::name(kind.controller.name)).await;
    found.map_or(true, |found| contains(found.as_ref(), webhook))
}

fn contains(configuration: Option<&ValidatingWebhookConfiguration>, webhook: &str) -> bool {
    let webhooks = configuration.iter().flat_map(|found| found.webhooks.iter().flatten());
    webhooks.into_iter().any(|found| found.name == webhook)
}

/// Returns a served version other than the storage version, if a webhook converts it.
fn converted_version(definition: &CustomResourceDefinition) -> Option<&str> {
    let has_webhook =
        definition.spec.conversion.as_ref().is_some_and(|conversion| conversion.webhook.is_some());
    let other = definition.spec.versions.iter().find(|version| version.served && !version.storage);
    other.filter(|_| has_webhook).map(|version| version.name.as_str())
}

/// Creates an object in a dry run.
async fn call_admission(cluster: &Cluster, kind: &Kind, webhook: &str) -> Finding {
    let what = format!("webhook {webhook}");
    let resource = kind.resource();
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "generateName": "ensemblectl-check-" }, "spec": {},
    });
    let Ok(object) = serde_json::from_value::<DynamicObject>(object) else {
        return Finding::ok(&what, "not called");
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let api = kind.api(&cluster.client, kind.is_namespaced().then(|| cluster.namespace()));
    let created = api.create(&params, &object).await;
    let result = created.as_ref().err().map_or(CallResult::Reviewed, |error| classify(error, webhook));
    match (result, created) {
        (CallResult::Reviewed, _) => Finding::ok(&what, format!("responds (dry run of a {})", kind.name())),
        (CallResult::Unreachable, Err(error)) => {
            Finding::error(&what, format!("does not respond: {}", chain(&error)), ADVICE)
        }
        (CallResult::Forbidden, Err(error)) => {
            let message =
                format!("was not called, because you cannot create a {}: {}", kind.name(), chain(&error));
            Finding::warning(
                &what,
                message,
                "run the check as a user with this permission, or see the manager's readiness probe",
            )
        }
        (_, created) => {
            let created =
                created.map(drop).with_context(|| format!("cannot create a {} in a dry run", kind.name()));
            created.map_or_else(|error| Finding::unknown(&what, &error), |()| Finding::ok(&what, "responds"))
        }
    }
}

/// Classifies the error of a request that calls a webhook.
fn classify(error: &kube::Error, webhook: &str) -> CallResult {
    let Some(status) = status(error) else { return CallResult::Other };
    if status.message.contains("denied the request") && status.message.contains(webhook) {
        return CallResult::Reviewed;
    }
    if status.message.contains("failed calling webhook") || status.message.contains("conversion webhook") {
        return CallResult::Unreachable;
    }
    if is_rbac_denial(status) { CallResult::Forbidden } else { CallResult::Other }
}

/// Reads one object in a version that must be converted. Returns `None` without objects.
///
/// The object is read by name, which the API server serves from etcd. A list could come from its
/// cache, which contains converted objects.
async fn call_conversion(cluster: &Cluster, kind: &Kind, version: &str) -> Option<Finding> {
    let what = format!("conversion of {}", kind.definition.name_any());
    let stored = kind.api(&cluster.client, None).list(&ListParams::default().limit(1)).await;
    let converted = match stored {
        Ok(list) => {
            let one = list.items.into_iter().next()?;
            let (name, resource) = (one.name_any(), kind.resource_in(version));
            let api: Api<DynamicObject> = match one.namespace() {
                Some(namespace) => Api::namespaced_with(cluster.client.clone(), &namespace, &resource),
                None => Api::all_with(cluster.client.clone(), &resource),
            };
            api.get(&name).await.map(|_| name)
        }
        Err(error) => Err(error),
    };
    match converted {
        Ok(name) => Some(Finding::ok(&what, format!("responds (read of {name} in {version})"))),
        Err(error) if is_not_found(&error) => None,
        Err(error) if classify(&error, "") == CallResult::Unreachable => {
            Some(Finding::error(&what, format!("does not respond: {}", chain(&error)), ADVICE))
        }
        Err(error) => {
            let context = format!("cannot read a {} in {version}", kind.name());
            Some(Finding::unknown(&what, &anyhow::Error::new(error).context(context)))
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::kinds::find;

    fn classify_status(code: u16, reason: &str, message: &str) -> CallResult {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        classify(&kube::Error::Api(Box::new(status)), "tenants.tenant.ensemble")
    }

    #[test]
    fn classifies_denials_and_failed_calls() {
        let denied = "admission webhook \"tenants.tenant.ensemble\" denied the request: no";
        assert_eq!(classify_status(403, "Forbidden", denied), CallResult::Reviewed);
        let unreachable =
            "Internal error occurred: failed calling webhook \"tenants.tenant.ensemble\": connection refused";
        assert_eq!(classify_status(500, "InternalError", unreachable), CallResult::Unreachable);
        let unconverted =
            "conversion webhook for capsule.clastix.io/v1beta2, Kind=Tenant failed: connection refused";
        assert_eq!(classify_status(500, "InternalError", unconverted), CallResult::Unreachable);
        assert_eq!(
            classify_status(403, "Forbidden", "tenants is forbidden: User \"eve\" cannot create"),
            CallResult::Forbidden
        );
        assert_eq!(classify_status(422, "Invalid", "spec.x: Required value"), CallResult::Other);
        assert_eq!(
            classify_status(403, "Forbidden", "admission webhook \"other\" denied the request"),
            CallResult::Other
        );
    }

    #[test]
    fn only_tenants_have_a_create_webhook_and_a_conversion() {
        let tenant = find("tenant").unwrap();
        assert_eq!(
            create_webhook(&tenant.controller, &tenant.definition).unwrap().full_name("tenant"),
            "tenants.tenant.ensemble"
        );
        assert_eq!(converted_version(&tenant.definition), Some("v1beta1"));
        let podset = find("podset").unwrap();
        assert!(
            create_webhook(&podset.controller, &podset.definition).is_none()
                && converted_version(&podset.definition).is_none()
        );
    }
}
