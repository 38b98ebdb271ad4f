//! One member: the task of a Pod.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod, Secret},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use postgres::{CLUSTER_LABEL, PostgresCluster};
use postgres_instance::{
    clock::now,
    cluster::MemberCluster,
    election::{Election, timing},
    status_api::{Config, Health, Limits, StatusApi, StatusHandle},
};
use postgres_model::{
    instance::{LeaseIntent, MajorVersions, Observed, Plan, plan},
    report::InstanceReport,
    space::{Ballast, Space},
    status_api::PORT,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    database::{Local, Place},
    report::{is_ready, report},
};
use crate::workload::HOME;

/// Longest time between two looks, as of the instance manager.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two attempts to start.
const RETRY: Duration = Duration::from_millis(100);
/// How long a member that stops tries to release its Lease.
const RELEASE: Duration = Duration::from_secs(5);

/// A member whose status API listens.
pub(super) struct Member {
    shared: Arc<Shared>,
    cluster_uid: String,
    pod_uid: String,
    address: IpAddr,
    place: Place,
    election: Election,
    status: StatusHandle,
    seals: watch::Receiver<Option<u64>>,
    /// The readiness that the Pod has in the API.
    ready: Option<bool>,
    /// The last version of the cluster, and what this member reads in it.
    cluster: (Option<String>, Option<Arc<MemberCluster>>),
    /// The certificates of the status API.
    _folder: TempDir,
}

impl Member {
    /// Starts a member as soon as its volume and its certificates exist.
    pub(super) async fn start(shared: Arc<Shared>, pod: &Pod, stop: &CancellationToken) -> Self {
        loop {
            match Self::try_start(&shared, pod, stop).await {
                Ok(member) => return member,
                // A Secret is missing, or the API server is away.
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    async fn try_start(shared: &Arc<Shared>, pod: &Pod, stop: &CancellationToken) -> Result<Self> {
        let member = pod.name_any();
        let cluster = pod.labels().get(CLUSTER_LABEL).context("the Pod belongs to no cluster")?.clone();
        let claims = Api::<PersistentVolumeClaim>::namespaced(shared.client.clone(), HOME);
        let volume_uid = claims.get(&member).await?.uid().context("the claim has no UID")?;
        let place = Place { member: member.clone(), cluster: cluster.clone(), volume_uid };
        let known = shared.cluster(&cluster).context("the cluster does not exist")?;
        let cluster_uid = known.uid().context("the cluster has no UID")?;
        let own = read(&known, &cluster_uid, &member).context("the cluster does not have the member")?;
        shared.databases.lock().mount(&place, &own.creator, &cluster_uid)?;
        let folder = certificates(shared, &cluster).await?;
        let pod_uid = pod.uid().unwrap_or_default();
        let status = StatusHandle::new(InstanceReport::starting(
            member.clone(),
            pod_uid.clone(),
            env!("CARGO_PKG_VERSION"),
        ));
        let seals = status.seal_requests();
        let address = IpAddr::from(shared.next_address());
        let config = Config {
            status: SocketAddr::new(address, PORT),
            probes: SocketAddr::new(address, 0),
            certificates: folder.path().to_owned(),
            limits: Limits::default(),
        };
        let api = StatusApi::bind(config, status.clone(), Arc::new(Health::new())).await?;
        tokio::spawn(api.serve(stop.clone()));
        let timing = timing(Duration::from_secs(known.spec.failover.lease_seconds.into()))?;
        let leases = Api::namespaced(shared.lease_client.clone(), HOME);
        // There is no fence: the next step stops a primary whose Lease has expired.
        let election = Election::start(leases, HOME, &cluster, format!("{member}_{pod_uid}"), timing, |_| {});
        Ok(Self {
            shared: shared.clone(),
            cluster_uid,
            pod_uid,
            address,
            place,
            election,
            status,
            seals,
            ready: None,
            cluster: (None, None),
            _folder: folder,
        })
    }

    /// Works until the Pod is deleted. Then stops PostgreSQL, and releases the Lease.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.shared.subscribe(&self.place.cluster);
        loop {
            changes.borrow_and_update();
            let Some(next) = stop.run_until_cancelled(self.step()).await else { break };
            tokio::select! {
                () = stop.cancelled() => break,
                _ = changes.changed() => {}
                _ = self.seals.changed() => {}
                () = self.election.changed() => {}
                () = sleep(next) => {}
            }
        }
        self.shared.databases.lock().stop(&self.place);
        self.shared.notify(&self.place.cluster);
        self.election.set(LeaseIntent::Release);
        let released = async {
            while self.election.view().epoch.is_some() {
                self.election.changed().await;
            }
        };
        // A Lease that is not released expires.
        let _ = timeout(RELEASE, released).await;
    }

    /// Performs one step. Returns the time until the next one.
    async fn step(&mut self) -> Duration {
        let cluster = self.cluster();
        let cluster = cluster.as_deref();
        let Some(local) = self.local(cluster) else { return LOOK };
        let plan = plan(&self.observed(cluster, &local));
        self.election.set(plan.lease.clone());
        self.perform(&plan, cluster);
        let Some(local) = self.local(cluster) else { return LOOK };
        let (member, pod_uid) = (self.place.member.clone(), self.pod_uid.clone());
        let first = InstanceReport::starting(member, pod_uid, env!("CARGO_PKG_VERSION"));
        self.status.publish(report(first, &plan, &local, cluster));
        self.report_readiness(is_ready(&local)).await;
        if plan.command.is_some() { RETRY } else { LOOK }
    }

    /// Returns what this member reads in its cluster. Each version is read once.
    fn cluster(&mut self) -> Option<Arc<MemberCluster>> {
        let cluster = self.shared.cluster(&self.place.cluster);
        let version = cluster.as_ref().and_then(|cluster| cluster.resource_version());
        if self.cluster.0 != version {
            let read = cluster
                .and_then(|cluster| read(&cluster, &self.cluster_uid, &self.place.member))
                .map(Arc::new);
            self.cluster = (version, read);
        }
        self.cluster.1.clone()
    }

    fn local(&self, cluster: Option<&MemberCluster>) -> Option<Local> {
        let parameters = cluster.map(|cluster| cluster.parameters.clone()).unwrap_or_default();
        self.shared.databases.lock().local(&self.place, &parameters)
    }

    fn observed(&mut self, cluster: Option<&MemberCluster>, local: &Local) -> Observed {
        Observed {
            now: now(),
            member: self.place.member.clone(),
            volume_uid: self.place.volume_uid.clone(),
            cluster: cluster.map(|cluster| cluster.view.clone()),
            lease: self.election.view(),
            volume: local.state.clone(),
            space: Space { total: 10 << 30, free: 10 << 30, ballast: Ballast::Whole, ..Space::default() },
            data: local.data.clone(),
            server: local.server.clone(),
            failed_starts: 0,
            recovered: false,
            versions: MajorVersions::default(),
            task: None,
            seal_requested: *self.seals.borrow_and_update(),
        }
    }

    fn perform(&self, plan: &Plan, cluster: Option<&MemberCluster>) {
        if let (Some(command), Some(cluster)) = (&plan.command, cluster) {
            let (view, parameters) = (&cluster.view, &cluster.parameters);
            self.shared.databases.lock().perform(&self.place, command, view, parameters);
            self.shared.notify(&self.place.cluster);
        }
    }

    /// Writes the status of the Pod, if its readiness has changed.
    async fn report_readiness(&mut self, is_ready: bool) {
        if self.ready == Some(is_ready) {
            return;
        }
        let ready = if is_ready { "True" } else { "False" };
        let patch = Patch::Merge(json!({
            "metadata": { "uid": self.pod_uid },
            "status": {
                "phase": "Running",
                "podIP": self.address,
                "podIPs": [{ "ip": self.address }],
                "conditions": [
                    { "type": "Ready", "status": ready, "lastTransitionTime": Timestamp::now().to_string() },
                ],
            },
        }));
        let pods = Api::<Pod>::namespaced(self.shared.client.clone(), HOME);
        // A failed request is repeated in the next step.
        if pods.patch_status(&self.place.member, &PatchParams::default(), &patch).await.is_ok() {
            self.ready = Some(is_ready);
        }
    }
}

impl Shared {
    fn cluster(&self, name: &str) -> Option<Arc<PostgresCluster>> {
        self.clusters.get(&ObjectRef::new(name).within(HOME))
    }
}

/// Returns what a member reads in its cluster, as the instance manager does.
fn read(cluster: &PostgresCluster, uid: &str, member: &str) -> Option<MemberCluster> {
    let cluster = serde_json::from_value(serde_json::to_value(cluster).ok()?).ok()?;
    MemberCluster::new(&cluster, uid, member)
}

/// Writes the certificates of a cluster into a folder, as a kubelet mounts them.
async fn certificates(shared: &Shared, cluster: &str) -> Result<TempDir> {
    let secrets = Api::<Secret>::namespaced(shared.client.clone(), HOME);
    let secret = secrets.get(&format!("{cluster}-server")).await?;
    let folder = tempfile::tempdir().context("create a folder for the certificates")?;
    for (name, content) in secret.data.unwrap_or_default() {
        let path = folder.path().join(name);
        std::fs::write(&path, content.0).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(folder)
}
