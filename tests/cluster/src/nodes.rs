//! Simulated nodes.

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Taint and annotation of simulated nodes, as kwok's documentation has them.
pub(crate) const TAINT: &str = "kwok.x-k8s.io/node";
const KWOK_RBAC: &str = include_str!("../manifests/kwok-rbac.yaml");

/// Applies kwok's RBAC, which must exist before kwok starts.
pub(crate) async fn allow_kwok(client: &Client) -> Result<()> {
    let (role, binding) =
        KWOK_RBAC.split_once("\n---\n").context("manifests/kwok-rbac.yaml must have two documents")?;
    apply::<ClusterRole>(client, role).await?;
    apply::<ClusterRoleBinding>(client, binding).await
}

async fn apply<K>(client: &Client, text: &str) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let object: K =
        serde_saphyr::from_str(text).with_context(|| format!("parse the {} of kwok", K::kind(&())))?;
    let name = object.meta().name.clone().unwrap_or_default();
    Api::<K>::all(client.clone())
        .patch(&name, &PatchParams::apply("ensemble-cluster").force(), &Patch::Apply(&object))
        .await
        .with_context(|| format!("apply the {} {name}", K::kind(&())))?;
    Ok(())
}

/// Creates `count` nodes named `node-0`, `node-1`, and so on, spread over three zones. Beside real
/// nodes they have a taint: Pods run on real nodes unless they tolerate it.
pub(crate) async fn create(client: &Client, count: usize, beside_real_nodes: bool) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    try_join_all((0..count).map(|index| {
        let nodes = nodes.clone();
        async move {
            let node = node(index, beside_real_nodes)?;
            nodes
                .create(&PostParams::default(), &node)
                .await
                .with_context(|| format!("create the node node-{index}"))
        }
    }))
    .await?;
    Ok(())
}

fn node(index: usize, beside_real_nodes: bool) -> Result<Node> {
    let name = format!("node-{index}");
    let taint = json!({ "key": TAINT, "value": "fake", "effect": "NoSchedule" });
    let taints = if beside_real_nodes { vec![taint] } else { Vec::new() };
    let node = json!({
        "spec": { "taints": taints },
        "metadata": {
            "name": name,
            // kwok manages the nodes with this annotation in clusters that have real nodes as well.
            "annotations": { TAINT: "fake" },
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": zone(index),
            },
        },
    });
    serde_json::from_value(node).context("build a simulated node")
}

/// Returns the zone of the node with this index.
pub(crate) fn zone(index: usize) -> String {
    format!("zone-{}", ["a", "b", "c"].get(index % 3).unwrap_or(&"a"))
}
