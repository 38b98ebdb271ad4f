//! Reports of the members, which a task for each Pod keeps up to date.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use operator_core::{ObjectKey, builder::Trigger, error::chain};
use parking_lot::Mutex;
use postgres_model::{
    report::{InstanceReport, InstanceState, WalPositions},
    space::is_low,
    timeline::Position,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info};

use crate::{
    backups::Request,
    membership::Serial,
    status_client::{StatusClient, StatusConnection, StatusError},
};

/// How long a member may wait for news before it answers. A network that is gone is noticed then.
const WAIT: Duration = Duration::from_secs(25);
/// Time between two attempts to reach a member.
const RETRY: Duration = Duration::from_millis(500);

/// A Pod whose reports are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// UID of the Pod.
    pub(crate) pod_uid: String,
    pub(crate) address: IpAddr,
    /// Name in the certificate of the member.
    pub(crate) host: String,
}

/// Reports of all clusters.
pub(crate) struct Reports {
    trigger: Trigger,
    clusters: Mutex<HashMap<String, Cluster>>,
}

/// Reports of one cluster.
#[derive(Default)]
struct Cluster {
    followed: BTreeMap<Serial, Followed>,
    primary: Arc<Mutex<Primary>>,
}

/// The last position of a primary, which is known for longer than its report.
#[derive(Default)]
struct Primary {
    serial: Option<Serial>,
    last_position: Option<Position>,
}

impl Primary {
    /// Records the report of a member, if that is the primary.
    fn note(&mut self, serial: Serial, report: &InstanceReport) {
        if self.serial == Some(serial)
            && let (Some(timeline), Some(lsn)) = (report.timeline, report.positions.flushed)
        {
            self.last_position = Some(Position { timeline, lsn });
        }
    }
}

/// A Pod that is followed.
struct Followed {
    source: Source,
    client: Arc<StatusClient>,
    latest: Latest,
    seal: Option<Seal>,
    request: Option<(Request, AbortOnDropHandle<()>)>,
    _task: AbortOnDropHandle<()>,
}

/// Request to seal a member.
struct Seal {
    epoch: u64,
    task: AbortOnDropHandle<()>,
}

/// The last report of a Pod, and whom it concerns.
#[derive(Clone)]
struct Latest {
    report: Arc<Mutex<Option<InstanceReport>>>,
    serial: Serial,
    primary: Arc<Mutex<Primary>>,
    cluster: ObjectKey,
    trigger: Trigger,
}

impl Reports {
    pub(crate) fn new(trigger: Trigger) -> Self {
        Self { trigger, clusters: Mutex::default() }
    }

    /// Follows these Pods of a cluster, and no others.
    pub(crate) fn follow(
        &self,
        uid: &str,
        cluster: &ObjectKey,
        client: &Arc<StatusClient>,
        sources: BTreeMap<Serial, Source>,
    ) {
        let mut clusters = self.clusters.lock();
        let Cluster { followed, primary } = clusters.entry(uid.to_owned()).or_default();
        followed.retain(|serial, known| {
            Arc::ptr_eq(&known.client, client) && sources.get(serial) == Some(&known.source)
        });
        for (serial, source) in sources {
            followed.entry(serial).or_insert_with(|| {
                let (cluster, trigger) = (cluster.clone(), self.trigger.clone());
                let primary = primary.clone();
                let latest = Latest { report: Arc::default(), serial, primary, cluster, trigger };
                let task = tokio::spawn(poll(client.clone(), source.clone(), latest.clone()));
                let (client, task) = (client.clone(), AbortOnDropHandle::new(task));
                Followed { source, client, latest, seal: None, request: None, _task: task }
            });
        }
    }

    /// Returns the reports of the members that answer.
    pub(crate) fn of(&self, uid: &str) -> BTreeMap<Serial, InstanceReport> {
        let clusters = self.clusters.lock();
        let followed = clusters.get(uid).into_iter().flat_map(|cluster| &cluster.followed);
        followed.filter_map(|(serial, pod)| Some((*serial, pod.latest.report.lock().clone()?))).collect()
    }

    /// Returns the last position that a primary of a cluster has reported, also if it does not answer now.
    pub(crate) fn last_position(&self, uid: &str, primary: Option<Serial>) -> Option<Position> {
        let clusters = self.clusters.lock();
        let cluster = clusters.get(uid)?;
        cluster.primary.lock().serial = primary;
        // Its report may have come before the status named it as the primary.
        if let Some((serial, pod)) = primary.and_then(|serial| cluster.followed.get_key_value(&serial))
            && let Some(report) = pod.latest.report.lock().as_ref()
        {
            cluster.primary.lock().note(*serial, report);
        }
        cluster.primary.lock().last_position
    }

    /// Asks a member to seal itself. Its report tells when it has. Does nothing while it is asked.
    pub(crate) fn seal(&self, uid: &str, serial: Serial, epoch: u64) {
        let mut clusters = self.clusters.lock();
        let Some(pod) = clusters.get_mut(uid).and_then(|cluster| cluster.followed.get_mut(&serial)) else {
            return;
        };
        let is_asked = |seal: &Seal| seal.epoch == epoch && !seal.task.is_finished();
        if !pod.seal.as_ref().is_some_and(is_asked) {
            let (client, source, latest) = (pod.client.clone(), pod.source.clone(), pod.latest.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(seal(client, source, latest, epoch)));
            pod.seal = Some(Seal { epoch, task });
        }
    }

    /// Asks a member for something that its report tells when it is done. Does nothing while it is
    /// asked for the same.
    pub(crate) fn request(&self, uid: &str, serial: Serial, request: Request) {
        let mut clusters = self.clusters.lock();
        let Some(pod) = clusters.get_mut(uid).and_then(|cluster| cluster.followed.get_mut(&serial)) else {
            return;
        };
        let is_asked =
            pod.request.as_ref().is_some_and(|(known, task)| *known == request && !task.is_finished());
        if !is_asked {
            let (client, source, latest) = (pod.client.clone(), pod.source.clone(), pod.latest.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(send(client, source, latest, request.clone())));
            pod.request = Some((request, task));
        }
    }

    /// Forgets a cluster that no longer exists.
    pub(crate) fn forget(&self, uid: &str) {
        self.clusters.lock().remove(uid);
    }
}

impl Latest {
    /// Publishes what the long poll of a member has returned, and reconciles the cluster if that decides
    /// anything.
    ///
    /// Its reports come in order, and their sequence begins again when the instance manager restarts.
    fn publish(&self, report: Option<InstanceReport>) {
        self.replace(&mut self.report.lock(), report);
    }

    /// Publishes the answer to another request, unless the long poll was faster: its next report can be a long
    /// wait away, and until then an older one would hide what the member has told since.
    fn publish_answer(&self, report: InstanceReport) {
        let mut latest = self.report.lock();
        if is_newer(&report, latest.as_ref()) {
            self.replace(&mut latest, Some(report));
        }
    }

    fn replace(&self, latest: &mut Option<InstanceReport>, report: Option<InstanceReport>) {
        let decides = latest.as_ref().map(decisive) != report.as_ref().map(decisive);
        if let Some(report) = &report {
            self.primary.lock().note(self.serial, report);
        }
        *latest = report;
        if decides {
            self.trigger.reconcile(self.cluster.clone());
        }
    }
}

/// Returns whether a report tells more than the latest one of the same Pod.
fn is_newer(report: &InstanceReport, latest: Option<&InstanceReport>) -> bool {
    latest.is_none_or(|latest| latest.sequence < report.sequence)
}

/// Returns the part of a report that decides. Positions of a member that works change all the time.
fn decisive(report: &InstanceReport) -> InstanceReport {
    // How little space there is: a step for each of the two limits.
    let is_low = |was_low| u64::from(is_low(report.total_bytes, report.free_bytes, was_low));
    let space = is_low(false) + is_low(true);
    let mut report = InstanceReport { sequence: 0, free_bytes: space, total_bytes: 0, ..report.clone() };
    if matches!(report.state, InstanceState::Primary | InstanceState::Standby) {
        report.positions = WalPositions::default();
    }
    for standby in &mut report.standbys {
        standby.flushed = None;
    }
    report
}

/// Waits for one report after the other.
async fn poll(client: Arc<StatusClient>, source: Source, latest: Latest) {
    let mut was_reached = true;
    loop {
        let error = match client.connect(source.address, &source.host).await {
            Ok(connection) => follow(connection, &source, &latest, &mut was_reached).await,
            Err(error) => error,
        };
        latest.publish(None);
        if std::mem::replace(&mut was_reached, false) {
            info!(member = source.host, error = chain(&error), "the member does not answer");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Returns the error that ended the connection.
async fn follow(
    mut connection: StatusConnection,
    source: &Source,
    latest: &Latest,
    was_reached: &mut bool,
) -> StatusError {
    let mut after = None;
    loop {
        match connection.report(after, WAIT).await {
            Ok(report) if report.pod_uid == source.pod_uid => {
                *was_reached = true;
                after = Some(report.sequence);
                latest.publish(Some(report));
            }
            Ok(report) => return StatusError::OtherPod(report.pod_uid),
            Err(error) => return error,
        }
    }
}

async fn send(client: Arc<StatusClient>, source: Source, latest: Latest, request: Request) {
    let sent = async {
        let mut connection = client.connect(source.address, &source.host).await?;
        let report = match &request {
            Request::Backup { uid, immediate_checkpoint, incremental } => {
                connection.backup(uid, *immediate_checkpoint, *incremental).await?
            }
            Request::SwitchWal(file) => connection.switch_wal(file).await?,
        };
        if report.pod_uid == source.pod_uid { Ok(report) } else { Err(StatusError::OtherPod(report.pod_uid)) }
    };
    match sent.await {
        Ok(report) => latest.publish_answer(report),
        Err(error) => debug!(
            member = source.host,
            ?request,
            error = chain(&error),
            "the member did not accept a request"
        ),
    }
}

async fn seal(client: Arc<StatusClient>, source: Source, latest: Latest, epoch: u64) {
    let sealed = async {
        let report = client.connect(source.address, &source.host).await?.seal(epoch).await?;
        if report.pod_uid == source.pod_uid { Ok(report) } else { Err(StatusError::OtherPod(report.pod_uid)) }
    };
    match sealed.await {
        Ok(report) => latest.publish_answer(report),
        Err(error) => debug!(member = source.host, epoch, error = chain(&error), "cannot seal the member"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_arrives_late_replaces_no_newer_report() {
        let report = |sequence| {
            let first = InstanceReport::starting("db-1".to_owned(), "uid".to_owned(), "0.1.0");
            InstanceReport { sequence, ..first }
        };
        for (answer, latest, expected) in
            [(8, None, true), (8, Some(7), true), (8, Some(8), false), (8, Some(9), false)]
        {
            let latest = latest.map(report);
            assert_eq!(is_newer(&report(answer), latest.as_ref()), expected, "{answer} after {latest:?}");
        }
    }
}
