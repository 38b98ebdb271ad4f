//! Stored objects from which clusters start.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result};

use crate::{Cluster, Component, Options, command};

/// Directory with the data of etcd.
pub(crate) const DATA: &str = "etcd";

/// The objects of a cluster, as etcd stores them.
///
/// A cluster that [starts](Options::snapshot) from a snapshot has these objects from the beginning.
/// This costs a third of installing them, and the API server and kube-controller-manager know all
/// kinds as soon as they are ready. Certificates, ports, and ServiceAccount keys are those of the new
/// cluster.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Cluster>);

impl Snapshot {
    /// Starts etcd and kube-apiserver, installs objects, and keeps what is stored then, until it is
    /// dropped or the process ends.
    ///
    /// No other component runs, so nothing is stored that belongs to this cluster alone, such as
    /// nodes or the ServiceAccounts of namespaces.
    ///
    /// # Errors
    /// As [`Cluster::start`], and the error of `install`.
    pub async fn take(install: impl AsyncFnOnce(&Cluster) -> Result<()>) -> Result<Self> {
        let cluster = Cluster::start(Options { controllers: false, ..Options::default() }).await?;
        install(&cluster).await?;
        for component in [Component::KubeApiserver, Component::Etcd] {
            cluster.stop_component(component)?;
        }
        Ok(Self(Arc::new(cluster)))
    }

    /// Copies the data into the directory of a cluster that has not started.
    pub(crate) fn restore(&self, dir: &Path) -> Result<()> {
        let source = self.0.record().dir.join(DATA);
        let mut copy = Command::new("cp");
        // Most of the files is space that etcd has reserved.
        copy.args(["--recursive", "--sparse=always"]).arg(&source).arg(dir.join(DATA));
        command::run(copy, "").map(drop).with_context(|| format!("copy {}", source.display()))
    }
}
