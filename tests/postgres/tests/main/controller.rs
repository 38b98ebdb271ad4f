//! A controller that a test can kill, on a control plane of its own.

use std::sync::Arc;

use anyhow::Result;
use cluster::Cluster;
use harness::Harness;
use kube::Client;
use operator_core::{Controller as _, Environment, register};
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

impl Controller {
    /// Starts a controller with the rights of the administrator.
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        let config = cluster.config().await?;
        let runtime = Runtime::new()?;
        // A client works only on the runtime that creates it.
        let client = {
            let _guard = runtime.enter();
            Client::try_from(config)?
        };
        runtime.spawn(async move {
            register::<PostgresClusterController>().run(&Environment::new(client)).await;
        });
        Ok(Self(Some(runtime)))
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
