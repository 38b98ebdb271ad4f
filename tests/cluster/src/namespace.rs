//! Namespaces for tests.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::Cluster;
use crate::wait::eventually;

const PATIENCE: Duration = Duration::from_mins(1);

/// A namespace for one test. Dereferences to its name.
///
/// If the cluster outlives the test, dropping the value requests the deletion of the namespace
/// without waiting. Otherwise the namespace ends with the cluster.
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
    delete_with: Option<(PathBuf, PathBuf)>,
}

impl Cluster {
    /// Creates a namespace named `prefix` with a random suffix. Pods can be created in it at once.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace> {
        self.labelled_namespace(prefix, &[]).await
    }

    /// Creates a namespace with labels, see [`Cluster::namespace`].
    pub async fn labelled_namespace(&self, prefix: &str, labels: &[(&str, &str)]) -> Result<TestNamespace> {
        let client = self.client().await?;
        let name = format!("{prefix}-{}", random_suffix());
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("create the namespace {name}"))?;
        let accounts = Api::<ServiceAccount>::namespaced(client, &name);
        eventually(&format!("the default ServiceAccount of the namespace {name}"), PATIENCE, async || {
            Ok(accounts.get_opt("default").await?.is_some())
        })
        .await?;
        let delete_with = (!self.is_owned()).then(|| (self.record().kubectl(), self.kubeconfig().to_owned()));
        Ok(TestNamespace { name, delete_with })
    }
}

impl TestNamespace {
    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Deref for TestNamespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        // Runs in another process because the runtime of the test may be shutting down.
        if let Some((kubectl, kubeconfig)) = &self.delete_with {
            let _ = Command::new(kubectl)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .args(["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
        }
    }
}

/// Returns eight random hexadecimal digits, from the random keys of std's hasher.
pub(crate) fn random_suffix() -> String {
    format!("{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_unique_within_a_process() {
        let suffixes: std::collections::BTreeSet<_> = (0..100).map(|_| random_suffix()).collect();
        assert_eq!(suffixes.len(), 100);
    }
}
