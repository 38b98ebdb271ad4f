//! Sets the label `kubernetes.io/metadata.name` of Tenants. Capsule sets it too, and clients select
//! Tenants by it.
//!
//! A mutating webhook sets the label in the request that writes the Tenant, so that it needs no
//! additional write. If an update removes the label, the webhook sets it again.

use capsule::api::{names::NAMESPACE_NAME_LABEL, v1alpha1, v1beta1, v1beta2};
use operator_core::admission::{
    BoxError, CREATE, Caches, Metadata, Mutation, Mutator, Request, UPDATE, Webhook, target,
};

/// Skips Tenants that have the label, that are being deleted, or that have no generated name yet.
const LACKS_LABEL: &str = "has(object.metadata.name) && !has(object.metadata.deletionTimestamp) && \
    (!has(object.metadata.labels) || \
    object.metadata.labels[?'kubernetes.io/metadata.name'].orValue('') != object.metadata.name)";

/// Skips older versions. Their Tenants get the label when they are next written in this version,
/// for example when the controller adds the finalizer.
const IS_NEWEST: &str = "request.kind.version == 'v1beta2'";

/// Returns the webhook that sets the label.
///
/// The rules list each version, and [`IS_NEWEST`] excludes older ones. Otherwise the API server
/// would convert Tenants before it validates them, and report a failed conversion for an invalid
/// Tenant of an older version.
pub(super) fn webhook() -> Webhook {
    Webhook::mutating::<NameLabelMutator>("tenant-name-label")
        .on(target::<v1beta2::Tenant>(CREATE | UPDATE))
        .on(target::<v1beta1::Tenant>(CREATE | UPDATE))
        .on(target::<v1alpha1::Tenant>(CREATE | UPDATE))
        .match_condition("is-newest", IS_NEWEST)
        .match_condition("lacks-label", LACKS_LABEL)
        .build()
}

struct NameLabelMutator;

impl Mutator for NameLabelMutator {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        Ok(request.new.as_ref().and_then(with_name_label).map_or_else(Mutation::keep, Mutation::change))
    }
}

/// Returns the Tenant with the label, or `None` if it already has the label.
fn with_name_label(tenant: &Metadata) -> Option<Metadata> {
    let name = tenant.metadata.name.as_ref()?;
    let mut labelled = tenant.clone();
    let labels = labelled.metadata.labels.get_or_insert_default();
    let former = labels.insert(NAMESPACE_NAME_LABEL.to_owned(), name.clone());
    (former.as_ref() != Some(name)).then_some(labelled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(value: serde_json::Value) -> Metadata {
        serde_json::from_value(json!({ "metadata": value })).unwrap()
    }

    #[test]
    fn sets_missing_or_wrong_label() {
        let expected =
            metadata(json!({ "name": "oil", "labels": { "a": "b", "kubernetes.io/metadata.name": "oil" } }));
        for labels in [json!({ "a": "b" }), json!({ "a": "b", "kubernetes.io/metadata.name": "gas" })] {
            let tenant = metadata(json!({ "name": "oil", "labels": labels }));
            assert_eq!(with_name_label(&tenant), Some(expected.clone()));
        }
        assert_eq!(with_name_label(&expected), None);
        assert_eq!(with_name_label(&metadata(json!({ "generateName": "oil-" }))), None);
    }
}
