//! The cluster's own namespaces belong to no Tenant, whoever asks and whether the manager runs or not.

use k8s_openapi::api::core::v1::Namespace;
use operator_core::admission::{CREATE, Policy, UPDATE, configuration::EXEMPT, target};

/// Part of every cluster, like those that no webhook is asked about.
const DEFAULT: &str = "default";

/// A label that was there before stays where it is: what a cluster needs is never held up by what it has.
const NO_LABEL: &str = "!has(object.metadata.labels) || !('capsule.clastix.io/tenant' in object.metadata.labels) || \
    (oldObject != null && has(oldObject.metadata.labels) && 'capsule.clastix.io/tenant' in oldObject.metadata.labels && \
    oldObject.metadata.labels['capsule.clastix.io/tenant'] == object.metadata.labels['capsule.clastix.io/tenant'])";
/// As for the label.
const NO_REFERENCE: &str = "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(owner, \
    owner.kind != 'Tenant' || !owner.apiVersion.startsWith('capsule.clastix.io/') || \
    (oldObject != null && has(oldObject.metadata.ownerReferences) && \
    oldObject.metadata.ownerReferences.exists(old, old.uid == owner.uid && old.name == owner.name)))";

/// The policies of the controller.
pub(crate) fn policies(manager_namespace: &str) -> Vec<Policy> {
    let part_of = "is part of the cluster, and belongs to no Tenant";
    vec![
        Policy::new("system-namespaces")
            .on(target::<Namespace>(CREATE | UPDATE))
            .on(target::<Namespace>(UPDATE).subresource("status"))
            .on(target::<Namespace>(UPDATE).subresource("finalize"))
            .named(EXEMPT.into_iter().chain([DEFAULT, manager_namespace]))
            .holds(
                NO_LABEL,
                format!("this namespace {part_of}: leave out the label capsule.clastix.io/tenant"),
            )
            .holds(NO_REFERENCE, format!("this namespace {part_of}: leave out owner references to Tenants")),
    ]
}
