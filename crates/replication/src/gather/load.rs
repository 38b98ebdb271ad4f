//! Reads the objects of a reference.

use kube::{Api, Client, api::ListParams, core::DynamicObject};
use serde_json::{Value, json};

use super::{GatherError, MAX_SOURCES};
use crate::{
    discovery::{ApiKind, Discovery},
    reference::{Filter, Reference},
};

/// Reads the objects as the account of the client, sorted by namespace and name. `is_limited`
/// rejects cluster-scoped kinds.
pub(super) async fn load(
    client: &Client,
    discovery: &Discovery,
    reference: &Reference,
    is_limited: bool,
) -> Result<Vec<Value>, GatherError> {
    let kind = discovery.resolve(&reference.api_version, &reference.kind).await?;
    if is_limited && !kind.namespaced {
        let ApiKind { resource, .. } = kind;
        return Err(GatherError::ClusterScoped { api_version: resource.api_version, kind: resource.kind });
    }
    let api = match (&reference.namespace, kind.namespaced) {
        (Some(namespace), true) => {
            Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind.resource)
        }
        _ => Api::all_with(client.clone(), &kind.resource),
    };
    let failed = |source| GatherError::Read { reference: reference.to_string(), source };
    let mut objects = match &reference.filter {
        Filter::Name(_) if kind.namespaced && reference.namespace.is_none() => {
            let message = format!("the namespace of {reference} is missing; set namespace");
            return Err(GatherError::Invalid { path: "spec.resources".to_owned(), message });
        }
        Filter::Name(name) => {
            let found = api.get_opt(name).await.map_err(failed)?;
            if found.is_none() && !reference.optional {
                return Err(GatherError::Missing(reference.to_string()));
            }
            found.into_iter().collect()
        }
        Filter::Labels(labels) => {
            let page = ListParams::default().labels(labels).limit(MAX_SOURCES);
            let list = api.list(&page).await.map_err(failed)?;
            if list.metadata.continue_.is_some_and(|token| !token.is_empty()) {
                return Err(GatherError::TooManySources(reference.to_string()));
            }
            list.items
        }
    };
    objects.sort_by_key(|object| (object.metadata.namespace.clone(), object.metadata.name.clone()));
    Ok(objects.into_iter().map(|object| to_value(object, &kind)).collect())
}

/// Converts an object. Lists do not contain the kind of each object.
fn to_value(mut object: DynamicObject, kind: &ApiKind) -> Value {
    object.metadata.managed_fields = None;
    object.types = None;
    let mut value = serde_json::to_value(object).unwrap_or_else(|_| json!({}));
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), kind.resource.api_version.clone().into());
        fields.insert("kind".to_owned(), kind.resource.kind.clone().into());
    }
    value
}
