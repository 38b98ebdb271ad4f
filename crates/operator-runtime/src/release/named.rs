//! Deleting what the API server was told, by its names.

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
    admission::configuration::{self, ClientConfig},
    error::{is_conflict, is_not_found},
    kind::Kind,
};

use super::{
    Done, Report,
    error::{ReleaseError, advice},
};

/// Deletes a controller's webhook configurations, whomever they call.
pub(super) async fn configurations(client: &Client, controller: &Registration, report: &mut Report) {
    let Names { validating, mutating, .. } = names(controller);
    if let Some(name) = validating {
        report.note(delete::<ValidatingWebhookConfiguration>(client, &name).await);
    }
    if let Some(name) = mutating {
        report.note(delete::<MutatingWebhookConfiguration>(client, &name).await);
    }
}

/// Deletes a controller's admission policies; first what puts them into effect.
pub(super) async fn policies(client: &Client, controller: &Registration, report: &mut Report) {
    for name in names(controller).policies {
        report.note(delete::<ValidatingAdmissionPolicyBinding>(client, &name).await);
        report.note(delete::<ValidatingAdmissionPolicy>(client, &name).await);
    }
}

/// What the objects are called by which the API server knows of a controller.
pub(super) struct Names {
    pub(super) validating: Option<String>,
    pub(super) mutating: Option<String>,
    pub(super) policies: Vec<String>,
}

pub(super) fn names(controller: &Registration) -> Names {
    // How the API server reaches us makes no difference to what the objects are called.
    let reach = ClientConfig::Service { namespace: String::new() };
    let policies = configuration::policies(controller, reach.namespace());
    Names {
        validating: configuration::validating(controller, &reach).map(|one| one.name_any()),
        mutating: configuration::mutating(controller, &reach).map(|one| one.name_any()),
        policies: policies.iter().map(|(policy, _)| policy.name_any()).collect(),
    }
}

async fn delete<K: Kind>(client: &Client, name: &str) -> Result<Option<Done>, ReleaseError> {
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &resource);
    match api.get_metadata_opt(name).await {
        Ok(None) => Ok(None),
        Ok(Some(there)) => delete_this(client, &resource, &there.metadata).await,
        Err(source) => Err(failed(&resource, name, source)),
    }
}

/// Deletes a cluster-scoped object as it was read, and none that came after it.
pub(super) async fn delete_this(
    client: &Client,
    resource: &ApiResource,
    this: &ObjectMeta,
) -> Result<Option<Done>, ReleaseError> {
    let name = this.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: this.uid.clone(), resource_version: None };
    let api = Api::<DynamicObject>::all_with(client.clone(), resource);
    match api.delete(&name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(_) => Ok(Some(Done::Deleted { kind: resource.kind.clone(), object: name })),
        // Somebody else has deleted it, and perhaps made another.
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(None),
        Err(source) => Err(failed(resource, &name, source)),
    }
}

fn failed(resource: &ApiResource, name: &str, source: kube::Error) -> ReleaseError {
    let (kind, name) = (resource.kind.clone(), name.to_owned());
    ReleaseError::Delete { kind, name, advice: advice(&source), source }
}
