//! A controller that a test can kill, on a control plane of its own.

use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::Cluster;
use harness::Harness;
use kube::Client;
use operator_core::{Controller as _, Environment, Runnable, register};
use postgres::PostgresClusterController;
use postgres_processes::Kubelet;
use tokio::runtime::Runtime;

/// A controller. It ends when it is dropped.
pub(crate) struct Controller(Option<Runtime>);

/// Starts a control plane for one test, without a controller.
pub(crate) async fn control_plane() -> Result<(&'static Cluster, Kubelet)> {
    // A harness keeps its cluster for the life of the process. The cluster ends with the process.
    let cluster: &'static Cluster = Box::leak(Box::new(cluster::isolated().await?));
    cluster.install_crds(&PostgresClusterController::crds()).await?;
    let harness = Harness::external(cluster, "the administrator".to_owned())?;
    Ok((cluster, Kubelet::under(Arc::new(harness)).await?))
}

/// A controller that has synced its caches, and does not lead. It ends when it is dropped.
pub(crate) struct Standby {
    controller: Controller,
    runnable: Box<dyn Runnable>,
}

impl Standby {
    /// Starts a controller with the rights of the administrator, and waits until it has synced its caches.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        let config = cluster.config().await?;
        let controller = Controller(Some(Runtime::new()?));
        let runtime = controller.runtime()?;
        // A client works only on the runtime that creates it.
        let client = {
            let _guard = runtime.enter();
            Client::try_from(config)?
        };
        let synced = runtime.spawn(async move {
            let mut runnable = (register::<PostgresClusterController>().build)(&Environment::new(client));
            runnable.synced().await;
            runnable
        });
        Ok(Self { runnable: synced.await?, controller })
    }

    /// Lets the controller lead.
    pub(crate) fn lead(self) -> Result<Controller> {
        let Self { controller, mut runnable } = self;
        controller.runtime()?.spawn(async move { runnable.run().await });
        Ok(controller)
    }
}

impl Controller {
    /// Starts a controller with the rights of the administrator.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        Standby::start(cluster).await?.lead()
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.0.as_ref().context("the controller has ended")
    }

    /// Ends the controller in the middle of whatever it does.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
