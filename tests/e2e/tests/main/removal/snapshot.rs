//! All objects of a cluster.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cluster::{Cluster, wait::eventually};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::PartialObjectMeta,
    discovery::{ApiGroup, Discovery, verbs},
};
use serde_json::{Value, json};

use crate::support::PATIENCE;

/// The kinds that come and go with definitions.
pub(super) const DEFINITIONS: [&str; 2] = ["customresourcedefinitions", "apiservices"];
/// What the cluster writes by itself all the time, and the objects that are made from others.
const RESTLESS: [&str; 3] = ["events", "leases", "componentstatuses"];

/// All objects that there are, with what people and controllers write on each.
#[derive(Debug)]
pub(super) struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    pub(super) async fn of(cluster: &Cluster) -> Result<Self> {
        let client = cluster.client().await?;
        let discovery = Discovery::new(client.clone()).run().await?;
        let mut objects = BTreeMap::new();
        for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
            if RESTLESS.contains(&resource.plural.as_str()) || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let listed = all.list_metadata(&ListParams::default()).await;
            let listed = listed.with_context(|| format!("list {}", resource.plural))?;
            objects.extend(listed.into_iter().map(|object| entry(&resource, &object)));
        }
        Ok(Self(objects))
    }

    /// Waits until everything is as it was, apart from these kinds.
    pub(super) async fn until_again(&self, cluster: &Cluster, apart_from: &[&str]) {
        eventually("the cluster to be as it was", 2 * PATIENCE, async || {
            let differences = self.differences(&Self::of(cluster).await?, apart_from);
            Ok(if differences.is_empty() { Ok(()) } else { Err(differences) })
        })
        .await
        .unwrap();
    }

    fn differences(&self, now: &Self, apart_from: &[&str]) -> Vec<String> {
        let counts = |key: &&String| !apart_from.iter().any(|kind| key.starts_with(&format!("{kind}.")));
        let gone = self.0.keys().filter(|key| !now.0.contains_key(*key)).map(|key| format!("- {key}"));
        let new = now.0.keys().filter(counts).filter(|key| !self.0.contains_key(*key));
        let new = new.map(|key| format!("+ {key}"));
        let changed = self.0.iter().filter_map(|(key, before)| {
            let after = now.0.get(key).filter(|after| *after != before)?;
            Some(format!("! {key}: {before} {after}"))
        });
        gone.chain(new).chain(changed).collect()
    }
}

fn entry(resource: &ApiResource, object: &PartialObjectMeta<DynamicObject>) -> (String, Value) {
    let ApiResource { plural, group, .. } = resource;
    let namespace = object.namespace().unwrap_or_default();
    let written = json!({
        "labels": object.labels(), "annotations": object.annotations(), "finalizers": object.finalizers(),
        "owners": object.owner_references(), "deleted": object.metadata.deletion_timestamp,
    });
    (format!("{plural}.{group} {namespace}/{}", object.name_any()), written)
}
