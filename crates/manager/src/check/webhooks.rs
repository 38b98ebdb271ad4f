//! Check that the webhooks are configured, and that the API server can call them: it applies objects
//! that they review, in dry runs.

use k8s_openapi::{
    api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use operator_core::{
    Registration,
    admission::{CREATE, FailurePolicy, TargetRule, Webhook},
    error::{chain, status},
    manifests::webhooks,
};
use serde_json::json;

/// Name of the objects in dry runs.
pub(super) const OBJECT: &str = "ensemble-check";

/// What to do if the API server cannot call a webhook.
const REMEDY: &str = "; the API server must reach the manager on port 9443, through the Service ensemble-webhook; \
                      see docs/operations/admission.md";

/// A dry run that calls a webhook.
pub(super) struct Call {
    pub(super) configuration: String,
    webhook: String,
    pub(super) resource: ApiResource,
}

/// Returns the dry runs that call the webhooks of a controller.
pub(super) fn calls(controller: &Registration) -> Vec<Call> {
    let definitions = (controller.crds)();
    let cluster_scoped = definitions.iter().filter(|definition| definition.spec.scope == "Cluster");
    let call = |definition| {
        let webhook = create_webhook(controller, definition)?.full_name(controller.name);
        Some(Call { configuration: webhooks::name(controller.name), webhook, resource: stored(definition) })
    };
    cluster_scoped.filter_map(call).collect()
}

/// Returns the webhook that must allow a create of a kind with an empty spec.
pub fn create_webhook(controller: &Registration, definition: &CustomResourceDefinition) -> Option<Webhook> {
    // The API server validates the schema before it calls the webhook.
    if !accepts_empty_spec(definition) {
        return None;
    }
    let (group, resource) = (&definition.spec.group, &definition.spec.names.plural);
    let matches_create = |target: &TargetRule| {
        target.operations.contains(CREATE)
            && target.subresource.is_none()
            && (&target.group, &target.resource) == (group, resource)
    };
    let webhooks = (controller.webhooks)();
    webhooks.into_iter().find(|webhook| {
        webhook.failure_policy == FailurePolicy::Fail
            && webhook.object_selector == LabelSelector::default()
            && webhook.targets.iter().any(matches_create)
    })
}

/// Returns whether the schema of the storage version accepts an empty spec.
fn accepts_empty_spec(definition: &CustomResourceDefinition) -> bool {
    let stored = definition.spec.versions.iter().find(|version| version.storage);
    let schema = stored.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
    spec.and_then(|spec| spec.required.as_ref()).is_none_or(Vec::is_empty)
}

/// Returns the kind in its storage version.
fn stored(definition: &CustomResourceDefinition) -> ApiResource {
    let spec = &definition.spec;
    let stored = spec.versions.iter().find(|version| version.storage);
    let version = stored.map_or("", |version| &version.name).to_owned();
    ApiResource {
        api_version: format!("{}/{version}", spec.group),
        group: spec.group.clone(),
        version,
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    }
}

/// Returns what does not work.
pub(super) async fn failures(client: &Client, controllers: &[Registration]) -> Vec<String> {
    let mut failures = Vec::new();
    for call in controllers.iter().flat_map(calls) {
        failures.extend(failure(client, &call).await);
    }
    failures
}

async fn failure(client: &Client, call: &Call) -> Option<String> {
    // Without a configuration, the API server allows the dry run without a review.
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let failure = configuration_failure(call, configurations.get_opt(&call.configuration).await);
    if failure.is_some() {
        return failure;
    }
    call_failure(call, &dry_run(client, &call.resource).await.err()?)
}

fn configuration_failure(
    Call { configuration, webhook, .. }: &Call,
    found: kube::Result<Option<ValidatingWebhookConfiguration>>,
) -> Option<String> {
    let object = format!("ValidatingWebhookConfiguration {configuration}");
    let found = match found {
        Ok(found) => found.and_then(|found| found.webhooks).unwrap_or_default(),
        Err(error) => return Some(format!("cannot read the {object}: {}", chain(&error))),
    };
    let cause = match found.iter().find(|found| found.name == *webhook) {
        Some(found) if has_ca_bundle(found) => return None,
        Some(_) => "has no caBundle; the manager writes it, see its log",
        None => "does not exist; install the release again or run `helm upgrade`",
    };
    Some(format!("webhook {webhook} of the {object} {cause}"))
}

fn has_ca_bundle(webhook: &ValidatingWebhook) -> bool {
    webhook.client_config.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty())
}

/// Applies an object in a dry run. A create by apply has a name, so that the permission can be
/// limited to it.
async fn dry_run(client: &Client, resource: &ApiResource) -> kube::Result<DynamicObject> {
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": { "name": OBJECT }, "spec": {},
    });
    let api = Api::<DynamicObject>::all_with(client.clone(), resource);
    let params = PatchParams { dry_run: true, ..PatchParams::apply(OBJECT) };
    api.patch(OBJECT, &params, &Patch::Apply(&object)).await
}

fn call_failure(Call { webhook, resource, .. }: &Call, error: &kube::Error) -> Option<String> {
    if is_review(error, webhook) {
        return None;
    }
    let message = chain(error);
    let remedy = if message.contains("failed calling webhook") { REMEDY } else { "" };
    Some(format!("webhook {webhook} does not review the dry run of a {}: {message}{remedy}", resource.kind))
}

/// Returns whether the webhook denied the request.
fn is_review(error: &kube::Error, webhook: &str) -> bool {
    let denial = format!("admission webhook \"{webhook}\" denied the request");
    status(error).is_some_and(|status| status.message.contains(&denial))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value};

    use super::*;
    use crate::{CONTROLLERS, check::testing::api_error};

    const WEBHOOK: &str = "tenants.tenant.ensemble";

    fn call() -> Call {
        let [call] = <[Call; 1]>::try_from(CONTROLLERS.iter().flat_map(calls).collect::<Vec<_>>())
            .unwrap_or_else(|calls| panic!("{} calls", calls.len()));
        call
    }

    #[test]
    fn calls_the_webhook_of_tenants() {
        let Call { configuration, webhook, resource } = call();
        assert_eq!((&*configuration, &*webhook), ("ensemble-tenant", WEBHOOK));
        assert_eq!(resource.api_version, "capsule.clastix.io/v1beta2");
    }

    #[test]
    fn webhook_must_be_configured_with_a_ca_bundle() {
        let failure = |found: Option<Value>| {
            configuration_failure(&call(), Ok(found.map(|found| from_value(found).unwrap())))
        };
        let webhook = |name: &str, bundle: Value| {
            let client = json!({ "caBundle": bundle });
            let webhook = json!({ "name": name, "clientConfig": client, "admissionReviewVersions": [], "sideEffects": "None" });
            Some(json!({ "webhooks": [webhook] }))
        };
        assert_eq!(failure(webhook(WEBHOOK, json!("Y2E="))), None);
        for found in [None, Some(json!({})), webhook("other", json!("Y2E="))] {
            assert!(failure(found).unwrap().contains("does not exist; install the release again"));
        }
        for bundle in [Value::Null, json!("")] {
            let failure = failure(webhook(WEBHOOK, bundle)).unwrap();
            assert!(
                failure.contains("of the ValidatingWebhookConfiguration ensemble-tenant has no caBundle")
            );
        }
        let forbidden = configuration_failure(&call(), Err(api_error(403, "configurations is forbidden")));
        let expected =
            "cannot read the ValidatingWebhookConfiguration ensemble-tenant: configurations is forbidden";
        assert_eq!(forbidden.unwrap(), expected);
    }

    #[test]
    fn only_a_denial_of_the_webhook_is_a_review() {
        let failure = |message: &str| call_failure(&call(), &api_error(403, message));
        assert_eq!(failure("admission webhook \"tenants.tenant.ensemble\" denied the request: no"), None);
        for message in [
            "admission webhook \"other\" denied the request: no",
            "tenants is forbidden: User \"eve\" cannot create",
        ] {
            let failure = failure(message).unwrap();
            let expected = format!("webhook {WEBHOOK} does not review the dry run of a Tenant: {message}");
            assert_eq!(failure, expected);
        }
    }

    #[test]
    fn names_the_port_if_the_api_server_cannot_call_the_webhook() {
        for cause in ["no endpoints available for service \"ensemble-webhook\"", "connection refused"] {
            let message = format!("failed calling webhook \"{WEBHOOK}\": failed to call webhook: {cause}");
            let failure = call_failure(&call(), &api_error(500, &message)).unwrap();
            assert!(failure.contains(cause) && failure.contains("port 9443"), "{failure}");
        }
    }
}
