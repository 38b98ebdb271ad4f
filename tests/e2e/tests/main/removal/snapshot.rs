//! Comparison of all objects of a cluster at two times.

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

/// Kinds of the objects that a CustomResourceDefinition consists of.
pub(super) const CRD_KINDS: [&str; 2] = ["customresourcedefinitions", "apiservices"];
/// Kinds that the cluster itself writes all the time, and kinds that are computed from others.
const IGNORED_KINDS: [&str; 3] = ["events", "leases", "componentstatuses"];

/// All objects of a cluster, each with the metadata that users and controllers write.
#[derive(Debug)]
pub(super) struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    pub(super) async fn of(cluster: &Cluster) -> Result<Self> {
        let client = cluster.client().await?;
        let discovery = Discovery::new(client.clone()).run().await?;
        let mut objects = BTreeMap::new();
        for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
            if IGNORED_KINDS.contains(&resource.plural.as_str())
                || !capabilities.supports_operation(verbs::LIST)
            {
                continue;
            }
            let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let listed = all.list_metadata(&ListParams::default()).await;
            let listed = listed.with_context(|| format!("list {}", resource.plural))?;
            objects.extend(listed.into_iter().map(|object| entry(&resource, &object)));
        }
        Ok(Self(objects))
    }

    /// Waits until the cluster equals the snapshot, except for new objects of these kinds.
    pub(super) async fn wait_until_equal(&self, cluster: &Cluster, ignored: &[&str]) {
        eventually("the cluster to equal the snapshot", 2 * PATIENCE, async || {
            let differences = self.differences(&Self::of(cluster).await?, ignored);
            Ok(if differences.is_empty() { Ok(()) } else { Err(differences) })
        })
        .await
        .unwrap();
    }

    fn differences(&self, now: &Self, ignored: &[&str]) -> Vec<String> {
        let counts = |key: &&String| !ignored.iter().any(|kind| key.starts_with(&format!("{kind}.")));
        let deleted = self.0.keys().filter(|key| !now.0.contains_key(*key)).map(|key| format!("- {key}"));
        let created = now.0.keys().filter(counts).filter(|key| !self.0.contains_key(*key));
        let created = created.map(|key| format!("+ {key}"));
        let changed = self.0.iter().filter_map(|(key, before)| {
            let after = now.0.get(key).filter(|after| *after != before)?;
            Some(format!("! {key}: {before} {after}"))
        });
        deleted.chain(created).chain(changed).collect()
    }
}

fn entry(resource: &ApiResource, object: &PartialObjectMeta<DynamicObject>) -> (String, Value) {
    let ApiResource { plural, group, .. } = resource;
    let namespace = object.namespace().unwrap_or_default();
    let metadata = json!({
        "labels": object.labels(), "annotations": object.annotations(), "finalizers": object.finalizers(),
        "owners": object.owner_references(), "deleted": object.metadata.deletion_timestamp,
    });
    (format!("{plural}.{group} {namespace}/{}", object.name_any()), metadata)
}
