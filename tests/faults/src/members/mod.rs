//! Simulates the members of PostgresClusters, as simulated nodes run no containers.
//!
//! Each Pod of a PostgresCluster is a task with parts of the instance manager: what it reads in its cluster,
//! its decisions, its election, and its status API. PostgreSQL is a model. Its requests for the Lease
//! go through a proxy that injects faults.
//!
//! The Pods have a node selector that no node meets, so that only this module reports their status.

mod database;
mod member;
mod report;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Context as _, Result};
use cluster::Cluster;
use futures::{Stream, StreamExt, future::ready};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::{self, Config, Event, watcher},
    },
};
use parking_lot::{Mutex, MutexGuard};
use postgres::{CLUSTER_LABEL, PostgresCluster};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use self::{database::Databases, member::Member};
use crate::{
    proxy::{self, Proxy, rules::Rules},
    token::Token,
    workload::HOME,
};

/// Name of the ServiceAccount of all members, and of its role.
const ACCOUNT: &str = "members";

/// Simulates the Pods of all PostgresClusters. Stops on drop.
pub struct Members {
    shared: Arc<Shared>,
    proxy: Proxy,
    _tasks: JoinSet<()>,
}

/// State that all members share.
struct Shared {
    client: Client,
    /// Sends the requests for Leases.
    lease_client: Client,
    clusters: Store<PostgresCluster>,
    databases: Mutex<Databases>,
    /// Count the changes of a cluster and of its database.
    changes: Mutex<HashMap<String, watch::Sender<u64>>>,
    next_address: AtomicU16,
}

/// The task of a Pod.
struct Task {
    pod_uid: Option<String>,
    stop: CancellationToken,
    handle: JoinHandle<()>,
}

impl Members {
    /// Starts watching Pods and PostgresClusters.
    pub async fn start(cluster: &Cluster, client: &Client) -> Result<Self> {
        let proxy = Proxy::start(cluster.kubeconfig()).await?;
        let lease_client = lease_client(cluster, &proxy).await?;
        let (clusters, writer) = reflector::store();
        let shared = Arc::new(Shared {
            client: client.clone(),
            lease_client,
            clusters,
            databases: Mutex::default(),
            changes: Mutex::default(),
            next_address: AtomicU16::new(1),
        });
        let mut tasks = JoinSet::new();
        let api = Api::<PostgresCluster>::namespaced(client.clone(), HOME);
        let changes = watcher(api, Config::default()).default_backoff().reflect(writer);
        tasks.spawn(follow_clusters(shared.clone(), changes));
        tasks.spawn(run_pods(shared.clone()));
        Ok(Self { shared, proxy, _tasks: tasks })
    }

    /// Returns the faults and the recorded requests for Leases.
    pub fn rules(&self) -> MutexGuard<'_, Rules> {
        self.proxy.rules()
    }

    /// Returns what the databases of a run must never do.
    pub fn violations(&self, token: Token) -> Vec<String> {
        self.shared.databases.lock().violations(&token.to_string())
    }
}

impl Shared {
    /// Returns a receiver of the changes of a cluster.
    fn subscribe(&self, cluster: &str) -> watch::Receiver<u64> {
        self.changes.lock().entry(cluster.to_owned()).or_default().subscribe()
    }

    /// Wakes the members of a cluster.
    fn notify(&self, cluster: &str) {
        self.changes.lock().get(cluster).into_iter().for_each(increase);
    }

    /// Wakes the members of all clusters.
    fn notify_all(&self) {
        self.changes.lock().values().for_each(increase);
    }

    /// Returns the next address of the machine itself. Each Pod needs one, as its port is fixed.
    fn next_address(&self) -> [u8; 4] {
        let [high, low] = self.next_address.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        // Test programs that run at the same time use different networks.
        let [_, _, _, process] = std::process::id().to_be_bytes();
        [127, 128 | process, high, low.max(1)]
    }
}

/// Creates the ServiceAccount, with the rights that members have on their Leases, and returns its client that sends
/// through the proxy.
async fn lease_client(cluster: &Cluster, proxy: &Proxy) -> Result<Client> {
    let within = ["--namespace", HOME];
    let account = format!("--serviceaccount={HOME}:{ACCOUNT}");
    let (role, verbs) = (format!("--role={ACCOUNT}"), "--verb=get,update");
    cluster.kubectl(&[&["create", "serviceaccount", ACCOUNT], &within[..]].concat()).await?;
    let resource = "--resource=leases.coordination.k8s.io";
    cluster.kubectl(&[&["create", "role", ACCOUNT, verbs, resource], &within[..]].concat()).await?;
    cluster.kubectl(&[&["create", "rolebinding", ACCOUNT, &role, &account], &within[..]].concat()).await?;
    let direct = cluster.service_account_kubeconfig(HOME, ACCOUNT).await?;
    let kubeconfig = direct.with_extension("proxied");
    proxy.lead(&direct, &kubeconfig)?;
    let config = proxy::load(&kubeconfig).await?;
    Client::try_from(config).context("create the client of the members")
}

fn increase(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count = count.wrapping_add(1));
}

async fn follow_clusters(
    shared: Arc<Shared>,
    changes: impl Stream<Item = watcher::Result<Event<PostgresCluster>>>,
) {
    changes
        .for_each(|change| {
            match change {
                Ok(Event::Apply(cluster) | Event::Delete(cluster)) => shared.notify(&cluster.name_any()),
                // The store has the clusters of a list when the list is complete.
                Ok(Event::Init | Event::InitApply(_)) | Err(_) => {}
                Ok(Event::InitDone) => shared.notify_all(),
            }
            ready(())
        })
        .await;
}

/// Runs a task for each Pod until the Pod is deleted.
async fn run_pods(shared: Arc<Shared>) {
    let (pods, writer) = reflector::store();
    let api = Api::<Pod>::namespaced(shared.client.clone(), HOME);
    let changes = watcher(api, Config::default().labels(CLUSTER_LABEL)).default_backoff().reflect(writer);
    let mut changes = Box::pin(changes);
    let mut tasks = HashMap::<String, Task>::new();
    while changes.next().await.is_some() {
        let state = pods.state();
        for (name, task) in &tasks {
            let runs = |pod: &Arc<Pod>| pod.name_any() == *name && pod.metadata.uid == task.pod_uid;
            if !state.iter().any(|pod| runs(pod) && pod.metadata.deletion_timestamp.is_none()) {
                task.stop.cancel();
            }
        }
        for pod in state.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let name = pod.name_any();
            if tasks.get(&name).is_some_and(|task| task.pod_uid == pod.metadata.uid) {
                continue;
            }
            let former = tasks.remove(&name).map(|task| task.handle);
            let stop = CancellationToken::new();
            let handle = tokio::spawn(run_pod(shared.clone(), pod.clone(), stop.clone(), former));
            tasks.insert(name, Task { pod_uid: pod.metadata.uid.clone(), stop, handle });
        }
        tasks.retain(|_, task| !task.stop.is_cancelled() || !task.handle.is_finished());
    }
}

/// Runs a Pod after the former one of its name has ended: both use the same volume.
async fn run_pod(
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    stop: CancellationToken,
    former: Option<JoinHandle<()>>,
) {
    if let Some(former) = former {
        // A former task that panicked has ended too.
        let _ = former.await;
    }
    let Some(member) = stop.run_until_cancelled(Member::start(shared, &pod, &stop)).await else { return };
    member.run(stop).await;
}
