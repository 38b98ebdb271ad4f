//! The control plane with the manager, and databases on it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use cluster::{Cluster, Companion, Options, program::build_instance};
use harness::Harness;
use local_manager::launch::{start_manager, user};
use postgres_processes::{Database, Kubelet};
use serde_json::Value;

/// A manager that runs all controllers, and the instance manager for the members.
pub(crate) struct TestEnv {
    /// The control plane.
    pub(crate) cluster: &'static Cluster,
    harness: Arc<Harness>,
    manager: Companion,
    instance: PathBuf,
    lease_seconds: u64,
}

impl TestEnv {
    /// Starts a control plane and the manager.
    pub(crate) async fn start(program: &Path, lease_seconds: u64) -> Result<Self> {
        println!("building the instance manager ...");
        let instance = build_instance(true)?;
        // Nothing has to schedule Pods that the benchmark runs.
        let options = Options { nodes: 0, scheduler: false, ..Options::default() };
        // A harness keeps its cluster for the life of the process. The cluster ends with the process.
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(options).await?));
        let manager = start_manager(cluster, program).await?;
        let harness = Arc::new(Harness::external(cluster, user())?);
        Ok(Self { cluster, harness, manager, instance, lease_seconds })
    }

    /// Returns the process ID of the manager.
    pub(crate) fn manager(&self) -> u32 {
        self.manager.pid()
    }

    /// Creates a PostgresCluster in a namespace of its own, and waits until it is complete.
    pub(crate) async fn database(&self, spec: Value) -> Result<Database> {
        self.database_on(self.kubelet().await?, spec).await
    }

    /// Creates a namespace for a PostgresCluster.
    pub(crate) async fn kubelet(&self) -> Result<Kubelet> {
        let mut kubelet = Kubelet::with(self.harness.clone(), self.instance.clone()).await?;
        kubelet.lease_seconds = self.lease_seconds;
        Ok(kubelet)
    }

    /// Creates a PostgresCluster whose members this kubelet runs, and waits until it is complete.
    pub(crate) async fn database_on(&self, kubelet: Kubelet, spec: Value) -> Result<Database> {
        let mut database = Database::on(kubelet, spec).await?;
        let complete = database.until_complete().await;
        complete.with_context(|| format!("the manager logged:\n{}", self.manager.log_tail()))?;
        Ok(database)
    }

    /// Deletes a PostgresCluster. The manager would go on to look for the members of one that is only
    /// dropped.
    pub(crate) async fn end(&self, mut database: Database) -> Result<()> {
        database.delete().await?;
        database.until_deleted().await
    }

    /// Stops the manager.
    pub(crate) fn stop(self) -> Result<()> {
        self.manager.stop()
    }
}
