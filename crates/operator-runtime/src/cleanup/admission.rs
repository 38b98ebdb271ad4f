//! Deletion of webhook configurations and admission policies by name.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Preconditions},
    core::{ObjectMeta, PartialObjectMeta},
};
use operator_core::{
    Registration,
    error::{is_conflict, is_not_found},
    kind::Kind,
    manifests::webhooks::{self, ClientConfig},
};

use super::{
    Change, Report,
    error::{CleanupError, advice},
};

/// Deletes the webhook configurations of a controller, whatever their client configuration is.
pub(super) async fn delete_webhook_configurations(
    client: &Client,
    controller: &Registration,
    report: &mut Report,
) {
    let AdmissionNames { validating, mutating, .. } = admission_names(controller);
    if let Some(name) = validating {
        report.record(delete::<ValidatingWebhookConfiguration>(client, &name).await);
    }
    if let Some(name) = mutating {
        report.record(delete::<MutatingWebhookConfiguration>(client, &name).await);
    }
}

/// Deletes the admission policies of a controller, each after its binding.
pub(super) async fn delete_policies(client: &Client, controller: &Registration, report: &mut Report) {
    for name in admission_names(controller).policies {
        report.record(delete::<ValidatingAdmissionPolicyBinding>(client, &name).await);
        report.record(delete::<ValidatingAdmissionPolicy>(client, &name).await);
    }
}

/// Names of the webhook configurations and admission policies of a controller.
pub(super) struct AdmissionNames {
    pub(super) validating: Option<String>,
    pub(super) mutating: Option<String>,
    pub(super) policies: Vec<String>,
}

pub(super) fn admission_names(controller: &Registration) -> AdmissionNames {
    // The names do not depend on the client configuration.
    let client_config = ClientConfig::Service { namespace: String::new() };
    let policies = webhooks::policies(controller, client_config.namespace());
    AdmissionNames {
        validating: webhooks::validating(controller, &client_config).map(|one| one.name_any()),
        mutating: webhooks::mutating(controller, &client_config).map(|one| one.name_any()),
        policies: policies.iter().map(|(policy, _)| policy.name_any()).collect(),
    }
}

async fn delete<K: Kind>(client: &Client, name: &str) -> Result<Option<Change>, CleanupError> {
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &resource);
    match api.get_metadata_opt(name).await {
        Ok(None) => Ok(None),
        Ok(Some(current)) => delete_object(client, &resource, &current.metadata).await,
        Err(source) => Err(delete_error(&resource, name, source)),
    }
}

/// Deletes one cluster-scoped object by UID. Returns `None` if it no longer exists.
pub(super) async fn delete_object(
    client: &Client,
    resource: &ApiResource,
    meta: &ObjectMeta,
) -> Result<Option<Change>, CleanupError> {
    let name = meta.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: None };
    let api = Api::<DynamicObject>::all_with(client.clone(), resource);
    match api.delete(&name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(_) => Ok(Some(Change::Deletion { kind: resource.kind.clone(), object: name })),
        // A conflict means that the name belongs to a new object with another UID.
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(None),
        Err(source) => Err(delete_error(resource, &name, source)),
    }
}

fn delete_error(resource: &ApiResource, name: &str, source: kube::Error) -> CleanupError {
    let (kind, name) = (resource.kind.clone(), name.to_owned());
    CleanupError::Delete { kind, name, advice: advice(&source), source }
}
