//! The label `kubernetes.io/metadata.name` of Tenants. Capsule sets it, and clients select Tenants by it.
//!
//! It is set in the request that writes the Tenant, so that it costs no write of its own. Whoever removes it gets it
//! back in the same way.

use operator_core::admission::{
    BoxError, CREATE, Caches, Metadata, Mutation, Mutator, Request, UPDATE, Webhook, target,
};

use crate::api::{names::NAMESPACE_NAME_LABEL, v1alpha1, v1beta1, v1beta2};

/// Tenants that have the label, that are being deleted, or whose name the API server has yet to generate need no review.
const LACKS_LABEL: &str = "has(object.metadata.name) && !has(object.metadata.deletionTimestamp) && \
    (!has(object.metadata.labels) || \
    object.metadata.labels[?'kubernetes.io/metadata.name'].orValue('') != object.metadata.name)";

/// A Tenant in an older version gets the label when it is next written in this one, such as with its finalizer.
const IS_NEWEST: &str = "request.kind.version == 'v1beta2'";

/// Returns the webhook that sets the label.
///
/// The rules name each version, and [`IS_NEWEST`] leaves older ones out. Otherwise the API server would convert Tenants
/// before it validates them, and whoever writes an invalid one in an older version would be told of a failed conversion.
pub(super) fn webhook() -> Webhook {
    Webhook::mutating::<Labeller>("tenant-name-label")
        .on(target::<v1beta2::Tenant>(CREATE | UPDATE))
        .on(target::<v1beta1::Tenant>(CREATE | UPDATE))
        .on(target::<v1alpha1::Tenant>(CREATE | UPDATE))
        .match_condition("is-newest", IS_NEWEST)
        .match_condition("lacks-label", LACKS_LABEL)
        .build()
}

/// Sets the label.
struct Labeller;

impl Mutator for Labeller {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        Ok(request.new.as_ref().and_then(labelled).map_or_else(Mutation::keep, Mutation::change))
    }
}

/// Returns the Tenant with the label, unless it has it already.
fn labelled(tenant: &Metadata) -> Option<Metadata> {
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
    fn the_label_is_set_once() {
        let expected =
            metadata(json!({ "name": "oil", "labels": { "a": "b", "kubernetes.io/metadata.name": "oil" } }));
        for labels in [json!({ "a": "b" }), json!({ "a": "b", "kubernetes.io/metadata.name": "gas" })] {
            let tenant = metadata(json!({ "name": "oil", "labels": labels }));
            assert_eq!(labelled(&tenant), Some(expected.clone()));
        }
        assert_eq!(labelled(&expected), None);
        assert_eq!(labelled(&metadata(json!({ "generateName": "oil-" }))), None);
    }
}
