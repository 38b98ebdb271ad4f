//! The PostgresCluster, as far as an instance reads it.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, GroupVersionKind, Object},
    runtime::{WatchStreamExt, watcher},
};
use operator_core::watch_connection::{WATCH_SECONDS, watch_client};
use postgres_model::{
    databases::DeclaredObjects,
    fence::{FENCE, Fence},
    instance::ClusterView,
    lsn::Lsn,
    parameters::Parameters,
    sync::{SyncConfiguration, SyncConfigurationError},
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    version::Version,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    archive::{BackupSettings, RecoverySettings, StoreSettings},
    configuration::{Application, Upstream},
    recovery_target::TargetSettings,
};

/// A PostgresCluster. Fields that an instance does not need are left out.
pub type Cluster = Object<Spec, Status>;

/// What an instance reads in the spec.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(default)]
    size: i32,
    #[serde(default)]
    hibernated: bool,
    #[serde(default)]
    bootstrap: Bootstrap,
    #[serde(default)]
    parameters: Parameters,
    #[serde(default)]
    backup: Option<BackupSettings>,
    #[serde(default)]
    replication_slots: ReplicationSlots,
    #[serde(flatten)]
    declared: DeclaredObjects,
}

/// `spec.replicationSlots`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplicationSlots {
    #[serde(default)]
    synchronize_logical: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Bootstrap {
    #[serde(default)]
    initdb: Application,
    #[serde(default)]
    recovery: Option<Recovery>,
}

/// `spec.bootstrap.recovery`. The source is in the status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Recovery {
    #[serde(default)]
    target: TargetSettings,
}

/// `status.recovery`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecoveryStatus {
    object_store: StoreSettings,
    #[serde(default, rename = "systemID")]
    system_id: Option<SystemIdentifier>,
    #[serde(default)]
    backup: String,
}

/// What an instance reads in the status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    primary: Primary,
    #[serde(default, rename = "systemID")]
    system_id: Option<SystemIdentifier>,
    #[serde(default)]
    timeline_claimed: Option<TimelineId>,
    #[serde(default)]
    timelines: Vec<Timeline>,
    #[serde(default)]
    bootstrap: Option<BootstrapStatus>,
    #[serde(default)]
    adoption: Option<Adoption>,
    #[serde(default)]
    recovery: Option<RecoveryStatus>,
    #[serde(default)]
    instances: Vec<Instance>,
    #[serde(default)]
    sync: Sync,
    #[serde(default)]
    last_backup: Option<LastBackup>,
    #[serde(default)]
    major_upgrade: Option<MajorUpgrade>,
}

/// `status.majorUpgrade`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct MajorUpgrade {
    #[serde(default)]
    to: String,
    #[serde(default)]
    member: String,
    #[serde(default)]
    started: bool,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    failure: String,
}

impl MajorUpgrade {
    fn is_in_progress(&self) -> bool {
        !self.done && self.failure.is_empty()
    }

    /// Returns the major version to which a member upgrades its data.
    fn of(&self, member: &str) -> Option<u16> {
        let is_this = self.is_in_progress() && self.started && self.member == member;
        self.to.parse::<Version>().ok().map(Version::major).filter(|_| is_this)
    }
}

/// `status.lastBackup`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LastBackup {
    #[serde(default)]
    key: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Primary {
    #[serde(default)]
    current: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    expired_lease: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Timeline {
    number: TimelineId,
    #[serde(default, rename = "forkLSN")]
    fork_lsn: Option<Lsn>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct BootstrapStatus {
    #[serde(rename = "volumeUID")]
    volume_uid: String,
    #[serde(default)]
    done: bool,
}

/// The former cluster whose volumes were adopted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Adoption {
    #[serde(rename = "clusterUID")]
    cluster_uid: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Instance {
    name: String,
    #[serde(default, rename = "volumeUID")]
    volume_uid: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    joined: bool,
    #[serde(default)]
    leaving: bool,
    #[serde(default)]
    slot: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sync {
    #[serde(default)]
    number: usize,
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    pending_number: Option<usize>,
    #[serde(default)]
    pending_members: Vec<String>,
}

impl Sync {
    /// Returns the configuration to apply. A pending one comes first: both are stored before.
    fn to_apply(&self) -> Result<SyncConfiguration, SyncConfigurationError> {
        match self.pending_number {
            Some(number) => SyncConfiguration::new(number, self.pending_members.clone()),
            None => SyncConfiguration::new(self.number, self.members.clone()),
        }
    }
}

/// The cluster, seen by one member.
#[derive(Clone, Debug)]
pub struct MemberCluster {
    /// Name of the PostgresCluster.
    pub(crate) name: String,
    /// UID of the PostgresCluster.
    pub(crate) uid: String,
    /// UID of the PostgresCluster that created the database: this one, or the one whose volumes it has
    /// adopted.
    pub creator: String,
    /// UID of the member's PersistentVolumeClaim.
    pub(crate) volume_uid: String,
    /// What the member obeys.
    pub view: ClusterView,
    /// Synchronous replication that a primary applies. An error if it cannot be applied as meant.
    pub sync: Result<SyncConfiguration, SyncConfigurationError>,
    /// The database of the application.
    pub(crate) application: Application,
    /// Roles and databases of the spec.
    pub declared: Arc<DeclaredObjects>,
    /// Parameters of PostgreSQL.
    pub parameters: Parameters,
    /// Where to archive.
    pub(crate) backup: Option<Arc<BackupSettings>>,
    /// Identifier of the last backup.
    pub(crate) last_backup: String,
    /// Whether logical slots are copied to standbys.
    pub(crate) synchronizes_slots: bool,
    /// Whether the primary has a slot for this member.
    pub(crate) has_slot: bool,
    /// The archive that the database comes from.
    pub(crate) recovery: Option<Arc<RecoverySettings>>,
    addresses: BTreeMap<String, Option<IpAddr>>,
    /// Domain of the members.
    domain: String,
}

impl MemberCluster {
    /// Returns what `member` reads in the cluster with this UID. Returns `None` for another cluster, and
    /// while the cluster has no such member.
    pub fn new(cluster: &Cluster, uid: &str, member: &str) -> Option<Self> {
        let status = cluster.status.as_ref().filter(|_| cluster.metadata.uid.as_deref() == Some(uid))?;
        let own = status.instances.iter().find(|instance| instance.name == member)?;
        let name = |text: &String| (!text.is_empty()).then(|| text.clone());
        let fence = Fence::parse(cluster.annotations().get(FENCE).map(String::as_str));
        let in_progress = status.major_upgrade.as_ref().filter(|upgrade| upgrade.is_in_progress());
        let upgrade = in_progress.and_then(|upgrade| upgrade.of(member));
        let is_stopped = cluster.spec.hibernated || (in_progress.is_some() && upgrade.is_none());
        let view = ClusterView {
            epoch: status.primary.epoch,
            target: name(&status.primary.target),
            current: name(&status.primary.current),
            expired_lease: name(&status.primary.expired_lease),
            timeline: status.timeline_claimed.unwrap_or(TimelineId::FIRST),
            primary_history: status.history(),
            create_on: status.bootstrap.as_ref().filter(|it| !it.done).map(|it| it.volume_uid.clone()),
            recovers: status.recovery.is_some(),
            system_identifier: status.system_id,
            // A person has given up a member that leaves before it has joined.
            fenced: is_stopped || fence.contains(member) || (own.leaving && !own.joined),
            upgrade,
            fencing: cluster.spec.size > 1 || status.instances.len() > 1,
        };
        let instances = status.instances.iter();
        Some(Self {
            name: cluster.name_any(),
            uid: uid.to_owned(),
            creator: status.adoption.as_ref().map_or(uid, |adoption| &adoption.cluster_uid).to_owned(),
            volume_uid: own.volume_uid.clone(),
            view,
            sync: status.sync.to_apply(),
            application: cluster.spec.bootstrap.initdb.clone(),
            declared: Arc::new(cluster.spec.declared.clone()),
            parameters: cluster.spec.parameters.clone(),
            backup: cluster.spec.backup.clone().map(Arc::new),
            synchronizes_slots: cluster.spec.replication_slots.synchronize_logical,
            has_slot: own.slot,
            recovery: status.recovery.clone().map(|source| Arc::new(source.settings(&cluster.spec))),
            last_backup: status.last_backup.clone().unwrap_or_default().key,
            addresses: instances
                .map(|instance| (instance.name.clone(), instance.address.parse().ok()))
                .collect(),
            domain: format!("{}-pods.{}.svc", cluster.name_any(), cluster.namespace().unwrap_or_default()),
        })
    }

    /// Returns the names of the members.
    pub(crate) fn members(&self) -> impl Iterator<Item = &str> {
        self.addresses.keys().map(String::as_str)
    }

    /// Returns how to connect to a member.
    pub(crate) fn upstream(&self, member: &str) -> Upstream {
        Upstream {
            name: member.to_owned(),
            host: format!("{member}.{}", self.domain),
            address: self.addresses.get(member).copied().flatten(),
        }
    }
}

impl RecoveryStatus {
    fn settings(self, spec: &Spec) -> RecoverySettings {
        let recovery = spec.bootstrap.recovery.clone().unwrap_or_default();
        RecoverySettings {
            store: self.object_store,
            system: self.system_id,
            backup: self.backup,
            target: recovery.target,
        }
    }
}

impl Status {
    /// Returns the history of the primary's timeline, once the primary has reported it.
    fn history(&self) -> Option<History> {
        let last = self.timelines.last()?;
        let is_confirmed = Some(last.number) == self.timeline_claimed;
        let forks = self.timelines.iter().zip(self.timelines.iter().skip(1));
        let lines: Option<Vec<_>> = forks
            .map(|(parent, child)| child.fork_lsn.map(|lsn| format!("{}\t{lsn}\n", parent.number)))
            .collect();
        History::parse(last.number, &lines?.concat()).ok().filter(|_| is_confirmed)
    }
}

/// Watches a PostgresCluster. The last state stays while the API server is away. A dead connection is noticed, as
/// [`watch_client`] says.
pub(crate) fn watch(client: Client, namespace: &str, name: &str) -> watch::Receiver<Option<Cluster>> {
    let kind = GroupVersionKind::gvk("lukeb0nd.com", "v1", "PostgresCluster");
    let resource = ApiResource::from_gvk_with_plural(&kind, "postgresclusters");
    let api: Api<Cluster> = Api::namespaced_with(watch_client(&client), namespace, &resource);
    let (sender, receiver) = watch::channel(None);
    let name = name.to_owned();
    tokio::spawn(async move {
        let config =
            watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let mut changes = watcher::watcher(api, config).default_backoff().touched_objects().boxed();
        let mut failing = false;
        loop {
            match changes.try_next().await {
                Ok(Some(cluster)) => {
                    failing = false;
                    sender.send_replace(Some(cluster));
                }
                Ok(None) => return,
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    warn!(%error, cluster = name, "cannot watch the PostgresCluster; trying again");
                }
                Err(_) => {}
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(status: &Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": "db", "namespace": "shop", "uid": "c"},
            "spec": {"size": 3, "version": "18"},
            "status": status,
        }))
        .unwrap()
    }

    fn member(status: &Value, member: &str) -> Option<MemberCluster> {
        MemberCluster::new(&cluster(status), "c", member)
    }

    fn running() -> Value {
        json!({
            "phase": "Running",
            "primary": {"current": "db-2", "target": "db-2", "epoch": 2},
            "systemID": "7400000000000000001",
            "timelineClaimed": 3,
            "timelines": [{"number": 1, "member": "db-1"}, {"number": 3, "forkLSN": "0/50", "member": "db-2"}],
            "bootstrap": {"volumeUID": "v1", "done": true},
            "instances": [
                {"name": "db-1", "volumeUID": "v1", "address": "10.0.0.1"},
                {"name": "db-2", "volumeUID": "v2", "address": "10.0.0.2"},
            ],
        })
    }

    #[test]
    fn member_reads_what_it_obeys() {
        let found = member(&running(), "db-1").unwrap();
        assert_eq!((found.uid.as_str(), found.volume_uid.as_str()), ("c", "v1"));
        assert_eq!(found.view.primary_history.unwrap().to_string(), "1\t0/50\n");
        assert_eq!((found.view.epoch, found.view.create_on, found.view.fenced), (2, None, false));
        let upstream = Upstream {
            name: "db-2".into(),
            host: "db-2.db-pods.shop.svc".into(),
            address: "10.0.0.2".parse().ok(),
        };
        assert_eq!(member(&running(), "db-1").unwrap().upstream("db-2"), upstream);
        assert!(member(&running(), "db-3").is_none(), "it is not a member yet");
        let other = MemberCluster::new(&cluster(&running()), "another", "db-1");
        assert!(other.is_none(), "another cluster of the name decides nothing");
    }

    #[test]
    fn member_uses_a_slot_that_the_primary_has() {
        let mut status = running();
        status["instances"][0]["slot"] = json!(true);
        let mut cluster = cluster(&status);
        let read = |cluster: &Cluster, member: &str| {
            let member = MemberCluster::new(cluster, "c", member).unwrap();
            (member.synchronizes_slots, member.has_slot)
        };
        assert_eq!(read(&cluster, "db-1"), (false, true));
        cluster.spec =
            serde_json::from_value(json!({"replicationSlots": {"synchronizeLogical": true}})).unwrap();
        assert_eq!((read(&cluster, "db-1"), read(&cluster, "db-2")), ((true, true), (true, false)));
        assert_eq!(member(&running(), "db-1").unwrap().members().collect::<Vec<_>>(), ["db-1", "db-2"]);
    }

    #[test]
    fn adopted_volume_is_that_of_the_former_cluster() {
        let mut status = running();
        assert_eq!(member(&status, "db-1").unwrap().creator, "c");
        status["adoption"] = json!({"clusterUID": "former", "done": true});
        assert_eq!(member(&status, "db-1").unwrap().creator, "former");
    }

    #[test]
    fn member_that_is_given_up_starts_nothing() {
        for (joined, leaving, expected) in [(true, false, false), (true, true, false), (false, true, true)] {
            let mut status = running();
            status["instances"][0]["joined"] = json!(joined);
            status["instances"][0]["leaving"] = json!(leaving);
            assert_eq!(member(&status, "db-1").unwrap().view.fenced, expected);
        }
    }

    #[test]
    fn history_of_an_earlier_primary_is_not_that_of_the_next() {
        let mut status = running();
        status["timelineClaimed"] = json!(4);
        assert_eq!(member(&status, "db-1").unwrap().view.primary_history, None);
    }

    #[test]
    fn members_of_a_hibernated_cluster_start_nothing() {
        let mut cluster = cluster(&running());
        cluster.spec.hibernated = true;
        assert!(MemberCluster::new(&cluster, "c", "db-1").unwrap().view.fenced);
    }

    #[test]
    fn one_member_upgrades_its_data_once_that_has_started() {
        let mut status = running();
        let read = |status: &Value, name: &str| {
            let view = member(status, name).unwrap().view;
            (view.fenced, view.upgrade)
        };
        status["majorUpgrade"] = json!({"from": "17.6", "to": "18.6", "member": "db-2"});
        assert_eq!((read(&status, "db-1"), read(&status, "db-2")), ((true, None), (true, None)));
        status["majorUpgrade"]["started"] = json!(true);
        assert_eq!((read(&status, "db-1"), read(&status, "db-2")), ((true, None), (false, Some(18))));
        for end in ["done", "failure"] {
            let mut ended = status.clone();
            ended["majorUpgrade"][end] = if end == "done" { json!(true) } else { json!("no space") };
            assert_eq!((read(&ended, "db-1"), read(&ended, "db-2")), ((false, None), (false, None)), "{end}");
        }
    }

    #[test]
    fn fenced_members_are_listed() {
        for (value, expected) in [("db-1", true), ("*", true), ("db-11", false)] {
            let mut cluster = cluster(&running());
            cluster.annotations_mut().insert(FENCE.into(), value.into());
            assert_eq!(MemberCluster::new(&cluster, "c", "db-1").unwrap().view.fenced, expected, "{value}");
        }
    }
}
