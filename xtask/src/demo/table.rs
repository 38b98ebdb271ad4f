//! Table of the samples and their children.

use anyhow::{Context, Result};
use cluster::Cluster;
use local_manager::samples::Ready;
use serde_json::Value;

/// Resources of the children that the table counts.
const CHILDREN: &str = "configmaps,pods,deployments,services,poddisruptionbudgets,namespaces,resourcequotas,limitranges,\
    networkpolicies,rolebindings";

/// Prints the kind, the name, the time until ready, and the children of each sample.
pub(crate) async fn print(cluster: &Cluster, samples: &[Ready]) -> Result<()> {
    let children = children(cluster).await?;
    let name = samples.iter().map(|ready| ready.sample.key().len()).max().unwrap_or_default();
    println!("\n{:<14} {:<name$} {:>9}  CHILDREN", "KIND", "NAME", "READY IN");
    for ready in samples {
        let sample = &ready.sample;
        let took = format!("{:.2} s", ready.took.as_secs_f64());
        println!(
            "{:<14} {:<name$} {took:>9}  {}",
            sample.kind,
            sample.key(),
            count_children(&children, &sample.name)
        );
    }
    Ok(())
}

async fn children(cluster: &Cluster) -> Result<Vec<Value>> {
    let selector = format!("--selector={}", operator_core::labels::MANAGED_SELECTOR);
    let output = cluster.kubectl(&["get", CHILDREN, "--all-namespaces", &selector, "--output=json"]).await?;
    let mut output: Value =
        serde_json::from_str(&output).context("cannot parse the output of kubectl as JSON")?;
    Ok(output.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
}

/// Returns the number of children of each kind, such as `3 Pod, 1 Service`.
///
/// The label `app.kubernetes.io/instance` of a child is the name of its sample.
fn count_children(children: &[Value], instance: &str) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let label = "/metadata/labels/app.kubernetes.io~1instance";
    for child in
        children.iter().filter(|child| child.pointer(label).and_then(Value::as_str) == Some(instance))
    {
        let kind = child.get("kind").and_then(Value::as_str).unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_children_by_kind_and_instance() {
        let child = |kind: &str, instance: &str| json!({"kind": kind, "metadata": {"labels": {"app.kubernetes.io/instance": instance}}});
        let children = [child("Pod", "a"), child("Service", "a"), child("Pod", "a"), child("Pod", "b")];
        assert_eq!(count_children(&children, "a"), "2 Pod, 1 Service");
        assert_eq!(count_children(&children, "c"), "");
    }
}
