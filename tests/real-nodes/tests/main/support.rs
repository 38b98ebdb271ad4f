//! The cluster that all tests share, and what they do on it.

use std::{collections::BTreeSet, path::PathBuf, process::Stdio, sync::LazyLock, time::Duration};

use ::manager::NAMESPACE;
use anyhow::{Context, Result, bail};
use cluster::{Cluster, Options, TestNamespace, wait::eventually};
use tokio::{
    process::Command,
    sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, watch},
};

/// Archive with the image of the manager, which `cargo xtask test --real` builds.
const IMAGE_VARIABLE: &str = "ENSEMBLE_TEST_IMAGE";
pub(crate) const NODES: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
/// Far longer than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
static NODES_IN_USE: RwLock<()> = RwLock::const_new(());
/// Tests that share the nodes, and run at the same time. Most of them wait for containers most of the time.
static CONCURRENT: Semaphore = Semaphore::const_new(6);
/// Number of tests that share the nodes, and have not ended.
static SHARING: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// The cluster, while all nodes work.
pub(crate) struct Shared {
    pub(crate) cluster: &'static Cluster,
    _use: RwLockReadGuard<'static, ()>,
    _turn: SemaphorePermit<'static>,
    _sharing: Sharing,
}

/// A test that shares the nodes.
struct Sharing;

impl Sharing {
    fn new() -> Self {
        SHARING.send_modify(|tests| *tests += 1);
        Self
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        SHARING.send_modify(|tests| *tests -= 1);
    }
}

/// The cluster, while no other test uses it.
pub(crate) struct Exclusive {
    pub(crate) cluster: &'static Cluster,
    /// UIDs of the Pods that were Ready before the test.
    ready: BTreeSet<String>,
    _use: RwLockWriteGuard<'static, ()>,
}

/// The UID of each Pod, and whether it is Ready.
const PODS: &str =
    r#"jsonpath={range .items[*]}{.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}"#;
/// The status of the condition Ready of each node, and the keys of its taints.
const NODE_STATES: &str = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{.spec.taints[*].key}{"\n"}{end}"#;

/// The wanted replicas of each Deployment, and those that are available.
const REPLICAS: &str = r#"jsonpath={range .items[*]}{.spec.replicas}/{.status.availableReplicas}{"\n"}{end}"#;

impl Exclusive {
    /// Waits until the nodes, the add-ons, and the manager work, and the Pods that were Ready before the
    /// test are Ready or gone, so that the next test finds the cluster as this one did.
    pub(crate) async fn repaired(&self) {
        eventually("the cluster to be repaired", PATIENCE, async || {
            let nodes = self.cluster.kubectl(&["get", "nodes", "-o", NODE_STATES]).await?;
            let pods = pods(self.cluster).await?;
            let unready: Vec<_> =
                pods.iter().filter(|(uid, ready)| !ready && self.ready.contains(uid)).collect();
            let mut replicas = String::new();
            for namespace in ["kube-system", NAMESPACE] {
                replicas +=
                    &self.cluster.kubectl(&["get", "deployments", "-n", namespace, "-o", REPLICAS]).await?;
            }
            let complete =
                |line: &str| line.split_once('/').is_some_and(|(wanted, available)| wanted == available);
            let repaired = unready.is_empty()
                && nodes.lines().all(|node| node == "True")
                && replicas.lines().all(complete);
            Ok(if repaired { Ok(()) } else { Err((nodes, format!("{unready:?}"), replicas)) })
        })
        .await
        .unwrap();
    }
}

/// Returns the UID of each Pod, and whether it is Ready.
async fn pods(cluster: &Cluster) -> Result<Vec<(String, bool)>> {
    let pods = cluster.kubectl(&["get", "pods", "--all-namespaces", "-o", PODS]).await?;
    let pods = pods.lines().filter_map(|pod| pod.split_once(' '));
    Ok(pods.map(|(uid, ready)| (uid.to_owned(), ready == "True")).collect())
}

/// Returns the cluster for a test that needs working nodes.
pub(crate) async fn shared() -> Shared {
    let sharing = Sharing::new();
    let turn = CONCURRENT.acquire().await.unwrap();
    let guard = NODES_IN_USE.read().await;
    Shared { cluster: cluster().await, _use: guard, _turn: turn, _sharing: sharing }
}

/// Returns the cluster for a test that disturbs nodes or the manager, once no started test shares them. The test
/// must repair them, and end with [`Exclusive::repaired`].
pub(crate) async fn exclusive() -> Exclusive {
    let cluster = cluster().await;
    SHARING.subscribe().wait_for(|tests| *tests == 0).await.unwrap();
    let guard = NODES_IN_USE.write().await;
    let ready = pods(cluster).await.unwrap().into_iter().filter(|(_, ready)| *ready);
    Exclusive { cluster, ready: ready.map(|(uid, _)| uid).collect(), _use: guard }
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

/// A namespace, and kubectl in it. Drop requests the deletion of the namespace.
pub(crate) struct Kubectl {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: TestNamespace,
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        // The next test needs the CPU. Nobody waits, because the test has ended.
        let mut delete = std::process::Command::new(self.cluster.record().kubectl());
        delete.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        delete.args(["delete", "namespace", self.namespace.name(), "--wait=false"]);
        let _ = delete.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
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

    /// Returns a command that runs kubectl in the namespace, and ends with the test.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.cluster.record().kubectl());
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        command.args(["--namespace", self.namespace.name()]).kill_on_drop(true);
        command
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

    /// Waits until a Pod is Ready. The first Pod of an image also waits until its node has unpacked the image: with
    /// that of PostgreSQL, longer than two minutes on two slow cores.
    pub(crate) async fn ready(&self, pod: &str) {
        self.run(&format!("wait --for=condition=Ready pod/{pod} --timeout=300s")).await.unwrap();
    }

    /// Starts a Pod with clients that other Pods can be called from, and waits until it is Ready.
    pub(crate) async fn client(&self, name: &str) {
        self.run(&format!("run {name} --image=localhost/client:1 --restart=Never -- sleep 3600"))
            .await
            .unwrap();
        self.ready(name).await;
    }

    /// Returns whether a Pod connects to a port, or its packets get no answer. Anything else is an error.
    pub(crate) async fn connects(&self, pod: &str, host: &str, port: u16) -> Result<bool> {
        let script = format!("nc -w 2 {host} {port} < /dev/null 2>&1 > /dev/null && echo connected || true");
        match self.exec(pod, &script).await?.trim() {
            "connected" => Ok(true),
            "nc: timed out" => Ok(false),
            other => bail!("connect from {pod} to {host}:{port}: {other}"),
        }
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
