//! The labels and annotations that Services get. Kubernetes itself hands the labels on to their EndpointSlices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use operator_core::admission::{
    BoxError, CREATE, Caches, Metadata, Mutation, Mutator, Request, UPDATE, Webhook, target,
};

use super::{in_tenants, tenancy::Tenancy};
use crate::api::v1beta2::{AdditionalMetadata, Tenant};

/// The webhook about them.
pub(super) fn webhooks() -> Vec<Webhook> {
    vec![
        Webhook::mutating::<Marker>("service-metadata")
            .on(target::<Service>(CREATE | UPDATE))
            .in_namespaces(in_tenants())
            .build(),
    ]
}

/// Writes the metadata that a Tenant wants on its Services.
struct Marker {
    tenancy: Tenancy,
}

impl Mutator for Marker {
    type Object = Metadata;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { tenancy: Tenancy::build(caches) }
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let (Some(object), Some(tenant)) = (&request.new, self.tenancy.of(namespace).await?) else {
            return Ok(Mutation::keep());
        };
        Ok(wanted(&tenant)
            .and_then(|wanted| marked(object, wanted))
            .map_or_else(Mutation::keep, Mutation::change))
    }
}

fn wanted(tenant: &Tenant) -> Option<&AdditionalMetadata> {
    tenant.spec.service_options.as_ref()?.additional_metadata.as_ref()
}

/// The object with what is wanted, unless it has that already, or is on its way out.
fn marked(object: &Metadata, wanted: &AdditionalMetadata) -> Option<Metadata> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut marked = object.clone();
    add(&mut marked.metadata.labels, &wanted.labels);
    add(&mut marked.metadata.annotations, &wanted.annotations);
    (marked != *object).then_some(marked)
}

fn add(entries: &mut Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, String>) {
    if !wanted.is_empty() {
        entries.get_or_insert_default().extend(wanted.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(value: serde_json::Value) -> Metadata {
        serde_json::from_value(json!({ "metadata": value })).unwrap()
    }

    #[test]
    fn what_is_wanted_comes_and_the_rest_stays() {
        let wanted: AdditionalMetadata =
            serde_json::from_value(json!({ "labels": { "team": "oil" }, "annotations": { "a": "b" } }))
                .unwrap();
        let service = metadata(json!({ "labels": { "team": "gas", "app": "web" } }));
        let expected =
            metadata(json!({ "labels": { "team": "oil", "app": "web" }, "annotations": { "a": "b" } }));
        assert_eq!(marked(&service, &wanted), Some(expected.clone()));
        assert_eq!(marked(&expected, &wanted), None);
        assert_eq!(marked(&service, &AdditionalMetadata::default()), None);
    }
}
