//! Sets the labels and annotations of Services, and of EndpointSlices that Kubernetes does not
//! write itself.
//!
//! Kubernetes copies the labels of a Service to its EndpointSlices, and overwrites their
//! annotations.

use capsule::api::v1beta2::{AdditionalMetadata, Tenant};
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use operator_core::admission::{
    BoxError, CREATE, Caches, Metadata, Mutation, Mutator, Request, UPDATE, Webhook, target,
};

use super::{in_tenants, tenant_resolver::TenantResolver};
use crate::additional_metadata::add;

/// Label with the author of an EndpointSlice.
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Kubernetes as the author.
const KUBERNETES: &str = "endpointslice-controller.k8s.io";

/// Returns the webhooks.
pub(super) fn webhooks() -> [Webhook; 2] {
    let webhook = Webhook::mutating::<ServiceMetadataMutator>;
    let services = webhook("service-metadata").on(target::<Service>(CREATE | UPDATE));
    let slices = webhook("endpointslice-metadata").on(target::<EndpointSlice>(CREATE | UPDATE));
    [services, slices.with_labels(by_others())].map(|webhook| webhook.in_namespaces(in_tenants()).build())
}

/// Selects the EndpointSlices that Kubernetes does not write.
fn by_others() -> LabelSelector {
    let by_others = LabelSelectorRequirement {
        key: MANAGED_BY_LABEL.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![KUBERNETES.to_owned()]),
    };
    LabelSelector { match_expressions: Some(vec![by_others]), match_labels: None }
}

/// Adds the metadata from `spec.serviceOptions` of the Tenant.
struct ServiceMetadataMutator {
    resolver: TenantResolver,
}

impl Mutator for ServiceMetadataMutator {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { resolver: TenantResolver::build(caches) }
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let (Some(object), Some(tenant)) = (&request.new, self.resolver.resolve(namespace).await?) else {
            return Ok(Mutation::keep());
        };
        Ok(service_metadata(&tenant)
            .and_then(|metadata| with_metadata(object, metadata))
            .map_or_else(Mutation::keep, Mutation::change))
    }
}

fn service_metadata(tenant: &Tenant) -> Option<&AdditionalMetadata> {
    tenant.spec.service_options.as_ref()?.additional_metadata.as_ref()
}

/// Returns the object with the metadata. Returns `None` if it already has it or is being deleted.
fn with_metadata(object: &Metadata, added: &AdditionalMetadata) -> Option<Metadata> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut changed = object.clone();
    add(&mut changed.metadata, added);
    (changed != *object).then_some(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(value: serde_json::Value) -> Metadata {
        serde_json::from_value(json!({ "metadata": value })).unwrap()
    }

    #[test]
    fn sets_metadata_of_the_tenant_and_keeps_other_metadata() {
        let added: AdditionalMetadata =
            serde_json::from_value(json!({ "labels": { "team": "oil" }, "annotations": { "a": "b" } }))
                .unwrap();
        let service = metadata(json!({ "labels": { "team": "gas", "app": "web" } }));
        let expected =
            metadata(json!({ "labels": { "team": "oil", "app": "web" }, "annotations": { "a": "b" } }));
        assert_eq!(with_metadata(&service, &added), Some(expected.clone()));
        assert_eq!(with_metadata(&expected, &added), None);
        assert_eq!(with_metadata(&service, &AdditionalMetadata::default()), None);
    }
}
