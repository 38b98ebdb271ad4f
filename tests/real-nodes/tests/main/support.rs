//! The cluster that all tests share, and what they do on it.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use cluster::{Cluster, Options, TestNamespace, wait::eventually};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Archive with the image of the manager, which `cargo xtask test --real` builds.
const IMAGE_VARIABLE: &str = "ENSEMBLE_TEST_IMAGE";
pub(crate) const NODES: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
/// Far longer than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
static NODES_IN_USE: RwLock<()> = RwLock::const_new(());

/// The cluster, while all nodes work.
pub(crate) struct Shared {
    pub(crate) cluster: &'static Cluster,
    _use: RwLockReadGuard<'static, ()>,
}

/// The cluster, while no other test uses it.
pub(crate) struct Exclusive {
    pub(crate) cluster: &'static Cluster,
    _use: RwLockWriteGuard<'static, ()>,
}

/// Returns the cluster for a test that needs working nodes.
pub(crate) async fn shared() -> Shared {
    let guard = NODES_IN_USE.read().await;
    Shared { cluster: cluster().await, _use: guard }
}

/// Returns the cluster for a test that disturbs nodes. The test must repair them.
pub(crate) async fn exclusive() -> Exclusive {
    let guard = NODES_IN_USE.write().await;
    Exclusive { cluster: cluster().await, _use: guard }
}

async fn cluster() -> &'static Cluster {
    let start = || Cluster::start(Options { nodes: 0, real_nodes: NODES.len(), ..Options::default() });
    CLUSTER.get_or_try_init(start).await.unwrap()
}

/// Returns the path of the manager's image.
pub(crate) fn image() -> PathBuf {
    let path = std::env::var_os(IMAGE_VARIABLE);
    path.map(PathBuf::from)
        .with_context(|| format!("{IMAGE_VARIABLE} is not set; run `cargo xtask test --real`"))
        .unwrap()
}

/// A namespace, and kubectl in it.
pub(crate) struct Kubectl {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: TestNamespace,
}

impl Kubectl {
    pub(crate) async fn new(cluster: &'static Cluster, prefix: &str) -> Self {
        let namespace = cluster.namespace(prefix).await.unwrap();
        Self { cluster, namespace }
    }

    /// Runs kubectl with these words.
    pub(crate) async fn run(&self, words: &str) -> Result<String> {
        self.args(&words.split(' ').collect::<Vec<_>>()).await
    }

    /// Runs kubectl with these arguments.
    pub(crate) async fn args(&self, args: &[&str]) -> Result<String> {
        let args: Vec<_> =
            ["--namespace", self.namespace.name()].into_iter().chain(args.iter().copied()).collect();
        self.cluster.kubectl(&args).await
    }

    /// Applies manifests in the namespace.
    pub(crate) async fn apply(&self, manifests: &str) {
        let manifests = manifests.replace("NAMESPACE", self.namespace.name());
        self.cluster.apply_yaml(&manifests).await.unwrap();
    }

    /// Runs a command in a Pod through a shell, and returns its output.
    pub(crate) async fn exec(&self, pod: &str, script: &str) -> Result<String> {
        self.args(&["exec", pod, "--", "sh", "-c", script]).await
    }

    /// Waits until a Pod is Ready.
    pub(crate) async fn ready(&self, pod: &str) {
        self.run(&format!("wait --for=condition=Ready pod/{pod} --timeout=120s")).await.unwrap();
    }

    /// Starts a Pod with clients that other Pods can be called from, and waits until it is Ready.
    pub(crate) async fn client(&self, name: &str) {
        self.run(&format!("run {name} --image=localhost/client:1 --restart=Never -- sleep 3600"))
            .await
            .unwrap();
        self.ready(name).await;
    }

    /// Polls until the output of kubectl satisfies `done`.
    pub(crate) async fn until(&self, words: &str, done: impl Fn(&str) -> bool) -> String {
        let probe = async || {
            let output = self.run(words).await?;
            Ok(if done(&output) { Ok(output) } else { Err(output) })
        };
        eventually(&format!("kubectl {words}"), PATIENCE, probe).await.unwrap()
    }
}
