//! Checks the kinds of items by discovery.

use super::{GatherError, Scope};
use crate::{discovery::Discovery, item::Item};

/// Checks that every kind exists. Removes the namespace from items of cluster-scoped kinds, which a
/// TenantResource must not have.
///
/// The writer checks the scope again before each request.
pub(super) async fn check(
    discovery: &Discovery,
    items: Vec<Item>,
    scope: &Scope,
) -> Result<Vec<Item>, GatherError> {
    let mut checked = Vec::with_capacity(items.len());
    for mut item in items {
        let kind = discovery.find(&item.key.gvk()).await?;
        if !kind.namespaced {
            if scope.tenant_namespaces.is_some() {
                let types = item.key.types();
                return Err(GatherError::ClusterScoped { api_version: types.api_version, kind: types.kind });
            }
            item.key.object.namespace.clear();
        } else if item.key.object.namespace.is_empty() {
            return Err(GatherError::Invalid {
                path: format!("item {}", item.key.origin),
                message: format!("{} needs metadata.namespace in this scope", item.key.object),
            });
        }
        checked.push(item);
    }
    unique(checked)
}

/// Removes equal items of cluster-scoped kinds, which several namespaces can describe.
fn unique(items: Vec<Item>) -> Result<Vec<Item>, GatherError> {
    let mut unique = std::collections::BTreeMap::new();
    for item in items {
        match unique.get(&item.key) {
            None => drop(unique.insert(item.key.clone(), item)),
            // The first source wins, in the order of namespaces and names.
            Some(_) if item.key.origin == super::build::COPY => {}
            Some(first) if without_namespace(first) == without_namespace(&item) => {}
            Some(_) => {
                return Err(GatherError::Collision {
                    path: format!("item {}", item.key.origin),
                    object: item.key.object.to_string(),
                });
            }
        }
    }
    Ok(unique.into_values().collect())
}

/// Returns the object of an item without the namespace that it was built for.
fn without_namespace(item: &Item) -> serde_json::Map<String, serde_json::Value> {
    let mut object = item.object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.remove("namespace");
    }
    object
}
