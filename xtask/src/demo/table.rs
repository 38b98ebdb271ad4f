//! The table of what exists.

use anyhow::{Context, Result};
use cluster::Cluster;
use serde_json::Value;

use super::samples::Ready;

/// The kinds of children that the table counts.
const CHILDREN: &str = "configmaps,pods,deployments,services,poddisruptionbudgets,namespaces,resourcequotas,limitranges,\
    networkpolicies,rolebindings";

/// Prints a line for each sample: what it is, how long it took, what was made for it.
pub(crate) async fn print(cluster: &Cluster, samples: &[Ready]) -> Result<()> {
    let children = children(cluster).await?;
    let name = samples.iter().map(|ready| ready.sample.key().len()).max().unwrap_or_default();
    println!("\n{:<14} {:<name$} {:>9}  MADE FOR IT", "KIND", "NAME", "READY IN");
    for ready in samples {
        let sample = &ready.sample;
        let took = format!("{:.2} s", ready.took.as_secs_f64());
        println!(
            "{:<14} {:<name$} {took:>9}  {}",
            sample.kind,
            sample.key(),
            made_for(&children, &sample.name)
        );
    }
    Ok(())
}

async fn children(cluster: &Cluster) -> Result<Vec<Value>> {
    let selector = format!("--selector={}", operator_core::labels::MANAGED_SELECTOR);
    let answer = cluster.kubectl(&["get", CHILDREN, "--all-namespaces", &selector, "--output=json"]).await?;
    let mut answer: Value = serde_json::from_str(&answer).context("kubectl did not answer in JSON")?;
    Ok(answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
}

/// `3 Pod, 1 Service`: what carries the sample's name as its instance.
fn made_for(children: &[Value], instance: &str) -> String {
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
    let words: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn children_are_counted_by_kind_and_instance() {
        let child = |kind: &str, instance: &str| json!({"kind": kind, "metadata": {"labels": {"app.kubernetes.io/instance": instance}}});
        let children = [child("Pod", "a"), child("Service", "a"), child("Pod", "a"), child("Pod", "b")];
        assert_eq!(made_for(&children, "a"), "2 Pod, 1 Service");
        assert_eq!(made_for(&children, "c"), "");
    }
}
