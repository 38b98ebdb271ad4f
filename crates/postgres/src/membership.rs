//! The part of the status that decides: who the members are, and which of them is the primary.
//!
//! The controller stores a change of the membership before it acts on it. Whatever is interrupted,
//! the next reconcile reads the same membership and continues.

use kube::ResourceExt;
use postgres_model::{
    failover::{FailoverState, Reign},
    sync::SyncConfiguration,
    system_identifier::SystemIdentifier,
    timeline::TimelineId,
};

use crate::api::{
    AdoptionStatus, BootstrapStatus, InstanceStatus, MajorUpgradeStatus, PostgresCluster,
    PostgresClusterStatus, PrimaryStatus, RecoveryStatus, ReignStatus, Role, SyncStatus, TimelineStatus,
};

/// Number of a member. Numbers are never reused, so that a member never meets the Pod or the volume
/// of another one under its own name.
pub(crate) type Serial = u32;

/// Returns the name of a member of the cluster with this name.
pub(crate) fn name_of_member(cluster: &str, serial: Serial) -> String {
    format!("{cluster}-{serial}")
}

/// Members of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Membership {
    /// Name of the cluster, with which the names of its members begin.
    pub(crate) cluster: String,
    /// Serial number of the next member.
    pub(crate) next_serial: Serial,
    /// Members in the order of their serial numbers.
    pub(crate) members: Vec<Member>,
    /// The primary, and who may have acknowledged writes.
    pub(crate) failover: FailoverState,
    /// Timelines up to that of the primary.
    pub(crate) timelines: Vec<TimelineStatus>,
    /// Identity of the database. `None` until it exists.
    pub(crate) system_id: Option<SystemIdentifier>,
    /// Permission to create the database.
    pub(crate) bootstrap: Option<BootstrapStatus>,
    /// The former cluster whose volumes were adopted.
    pub(crate) adoption: Option<AdoptionStatus>,
    /// The archive from which the database comes.
    pub(crate) recovery: Option<RecoveryStatus>,
    /// The last upgrade of the data to another major version.
    pub(crate) upgrade: Option<MajorUpgradeStatus>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) serial: Serial,
    /// UID of its volume. `None` until the volume has been created.
    pub(crate) volume_uid: Option<String>,
    /// Whether it has been ready.
    pub(crate) joined: bool,
    /// Whether it is being removed.
    pub(crate) leaving: bool,
}

impl Member {
    /// Returns a member that has neither a volume nor a Pod.
    pub(crate) fn new(serial: Serial) -> Self {
        Self { serial, volume_uid: None, joined: false, leaving: false }
    }
}

impl Membership {
    /// Returns the membership in the status. Without a status, there are no members.
    pub(crate) fn of(cluster: &PostgresCluster) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let mut members: Vec<_> = status.instances.iter().map(member).collect();
        members.sort_by_key(|member| member.serial);
        let highest = members.last().map_or(0, |member| member.serial);
        let name = |text: String| Some(text).filter(|text| !text.is_empty());
        Self {
            cluster: cluster.name_any(),
            next_serial: status.next_serial.max(highest.saturating_add(1)),
            members,
            failover: FailoverState {
                epoch: status.primary.epoch.try_into().unwrap_or_default(),
                target: name(status.primary.target),
                current: name(status.primary.current),
                expired_lease: name(status.primary.expired_lease),
                timeline: status.timeline_claimed.unwrap_or(TimelineId::FIRST),
                reigns: status.reigns.into_iter().map(reign).collect(),
                switchover: name(status.primary.switchover),
                fenced: status.primary.fenced,
            },
            timelines: status.timelines,
            system_id: status.system_id,
            bootstrap: status.bootstrap,
            adoption: status.adoption,
            recovery: status.recovery,
            upgrade: status.major_upgrade,
        }
    }

    /// Returns the status with this membership. What the status says about members that stay is
    /// kept.
    pub(crate) fn store(&self, mut status: PostgresClusterStatus) -> PostgresClusterStatus {
        let instance = |member: &Member| {
            let known = status.instances.iter().find(|known| known.serial == member.serial).cloned();
            InstanceStatus {
                name: self.name_of(member.serial),
                serial: member.serial,
                role: self.role(member.serial),
                joined: member.joined,
                leaving: member.leaving,
                volume_uid: member.volume_uid.clone().unwrap_or_default(),
                ..known.unwrap_or_default()
            }
        };
        status.instances = self.members.iter().map(instance).collect();
        status.next_serial = self.next_serial;
        status.primary = PrimaryStatus {
            current: self.failover.current.clone().unwrap_or_default(),
            target: self.failover.target.clone().unwrap_or_default(),
            epoch: self.failover.epoch.try_into().unwrap_or(i64::MAX),
            expired_lease: self.failover.expired_lease.clone().unwrap_or_default(),
            switchover: self.failover.switchover.clone().unwrap_or_default(),
            fenced: self.failover.fenced,
        };
        status.timeline_claimed = (self.failover.epoch > 0).then_some(self.failover.timeline);
        status.reigns = self.failover.reigns.iter().map(reign_status).collect();
        status.sync = sync_status(&self.failover.reigns);
        status.timelines.clone_from(&self.timelines);
        if let Some(upgrade) = self.upgrade.as_ref().filter(|upgrade| upgrade.done)
            && status.system_id != self.system_id
        {
            status.current_version.clone_from(&upgrade.to);
        }
        status.major_upgrade.clone_from(&self.upgrade);
        status.system_id = self.system_id;
        status.bootstrap.clone_from(&self.bootstrap);
        status.adoption.clone_from(&self.adoption);
        status.recovery.clone_from(&self.recovery);
        status
    }

    /// Returns the name of a member.
    pub(crate) fn name_of(&self, serial: Serial) -> String {
        name_of_member(&self.cluster, serial)
    }

    /// Returns whether a member has this name, if one is given.
    pub(crate) fn is(&self, serial: Serial, name: Option<&String>) -> bool {
        name.is_some_and(|name| *name == self.name_of(serial))
    }

    /// Returns whether a member is the confirmed primary.
    pub(crate) fn is_primary(&self, serial: Serial) -> bool {
        self.is(serial, self.failover.current.as_ref())
    }

    /// Returns the role of a member.
    pub(crate) fn role(&self, serial: Serial) -> Role {
        if self.is_primary(serial) { Role::Primary } else { Role::Replica }
    }

    /// Returns whether the members of a former cluster are being compared.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adoption.as_ref().is_some_and(|adoption| !adoption.done)
    }

    /// Returns whether the database is being recovered from an archive.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| !recovery.done)
    }

    /// Returns the upgrade of the data that has neither succeeded nor failed.
    pub(crate) fn upgrade_in_progress(&self) -> Option<&MajorUpgradeStatus> {
        self.upgrade.as_ref().filter(|upgrade| upgrade.is_in_progress())
    }

    /// Returns whether the database exists.
    pub(crate) fn is_bootstrapped(&self) -> bool {
        self.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.done)
    }

    /// Returns whether a member may become the primary, or is it.
    pub(crate) fn is_primary_or_target(&self, serial: Serial) -> bool {
        self.is_primary(serial) || self.is(serial, self.failover.target.as_ref())
    }

    /// Returns whether a commit may have waited for a member. It is needed for the next failover.
    pub(crate) fn is_in_quorum(&self, serial: Serial) -> bool {
        let name = self.name_of(serial);
        self.failover.reigns.iter().any(|reign| reign.configuration.members().contains(&name))
    }

    /// Returns the members that stay.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.leaving)
    }
}

fn member(instance: &InstanceStatus) -> Member {
    Member {
        serial: instance.serial,
        volume_uid: Some(instance.volume_uid.clone()).filter(|uid| !uid.is_empty()),
        joined: instance.joined,
        leaving: instance.leaving,
    }
}

/// A configuration that PostgreSQL would not apply was edited by hand. All of its members count, so
/// that a failover needs all of them.
fn reign(status: ReignStatus) -> Reign {
    let number = usize::try_from(status.number).unwrap_or_default();
    let all = || SyncConfiguration::new(1, status.members.clone()).unwrap_or_default();
    let configuration = SyncConfiguration::new(number, status.members.clone()).unwrap_or_else(|_| all());
    Reign { primary: status.primary, configuration }
}

fn reign_status(reign: &Reign) -> ReignStatus {
    ReignStatus {
        primary: reign.primary.clone(),
        number: number(&reign.configuration),
        members: reign.configuration.members().to_vec(),
    }
}

/// Returns the configuration in force of the last member that may write, and the one that it is to
/// apply.
fn sync_status(reigns: &[Reign]) -> SyncStatus {
    let Some(last) = reigns.last() else { return SyncStatus::default() };
    let first = reigns.iter().find(|reign| reign.primary == last.primary).unwrap_or(last);
    let pending = (first != last).then_some(&last.configuration);
    SyncStatus {
        number: number(&first.configuration),
        members: first.configuration.members().to_vec(),
        pending_number: pending.map(number),
        pending_members: pending.map_or_else(Vec::new, |pending| pending.members().to_vec()),
    }
}

fn number(configuration: &SyncConfiguration) -> u32 {
    configuration.number().try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    /// Returns the membership of the new cluster `db`.
    pub(crate) fn empty() -> Membership {
        Membership::of(&cluster(&json!({})))
    }

    pub(crate) fn configuration(number: usize, members: &[&str]) -> SyncConfiguration {
        SyncConfiguration::new(number, members.iter().map(|name| (*name).to_owned()).collect()).unwrap()
    }

    fn round_trip(membership: &Membership) -> (PostgresClusterStatus, Membership) {
        let mut cluster = cluster(&json!({}));
        let status = membership.store(PostgresClusterStatus::default());
        cluster.status = Some(status.clone());
        (status, Membership::of(&cluster))
    }

    #[test]
    fn membership_survives_a_round_trip() {
        let mut membership = empty();
        assert_eq!((membership.next_serial, membership.members.len()), (1, 0));
        assert_eq!(round_trip(&membership).1, membership);
        membership.members = vec![Member::new(1), Member { leaving: true, ..Member::new(3) }];
        membership.members[0].volume_uid = Some("v-1".into());
        membership.next_serial = 4;
        let reign = |members: &[&str]| Reign {
            primary: "db-1".into(),
            configuration: configuration(1.min(members.len()), members),
        };
        membership.failover = FailoverState {
            epoch: 3,
            target: Some("db-1".into()),
            current: Some("db-1".into()),
            expired_lease: Some("77".into()),
            timeline: TimelineId::new(4).unwrap(),
            reigns: vec![reign(&[]), reign(&["db-3"])],
            switchover: Some("db-3".into()),
            fenced: true,
        };
        membership.bootstrap = Some(BootstrapStatus { volume_uid: "v-1".into(), done: true });
        membership.adoption =
            Some(AdoptionStatus { cluster_uid: "former".into(), ..AdoptionStatus::default() });
        let (status, read) = round_trip(&membership);
        assert_eq!(read, membership);
        assert_eq!(status.instances[0].role, Role::Primary);
        let sync = (status.sync.number, status.sync.pending_number, status.sync.pending_members);
        assert_eq!(sync, (0, Some(1), vec!["db-3".to_owned()]));
        assert!(membership.is_in_quorum(3) && !membership.is_in_quorum(1));
    }

    #[test]
    fn target_applies_its_own_configuration() {
        let reign = |primary: &str, members: &[&str]| Reign {
            primary: primary.into(),
            configuration: configuration(1, members),
        };
        let sync = sync_status(&[reign("db-1", &["db-2", "db-3"]), reign("db-2", &["db-1", "db-3"])]);
        assert_eq!((sync.members, sync.pending_number), (vec!["db-1".to_owned(), "db-3".into()], None));
    }

    #[test]
    fn store_keeps_what_is_known_about_members() {
        let mut status = PostgresClusterStatus::default();
        status.instances.push(InstanceStatus {
            name: "db-1".into(),
            serial: 1,
            node: "node-a".into(),
            ready: true,
            ..InstanceStatus::default()
        });
        let mut membership = empty();
        membership.members = vec![Member::new(1)];
        let stored = membership.store(status);
        assert_eq!((stored.instances[0].node.as_str(), stored.instances[0].ready), ("node-a", true));
    }

    #[test]
    fn next_serial_is_above_all_members_even_if_the_status_was_edited() {
        let mut cluster = cluster(&json!({}));
        let status = cluster.status.get_or_insert_default();
        status.next_serial = 1;
        status.instances.push(InstanceStatus { serial: 7, ..InstanceStatus::default() });
        assert_eq!(Membership::of(&cluster).next_serial, 8);
    }

    #[test]
    fn configuration_that_was_edited_needs_all_of_its_members() {
        let members = vec!["a".to_owned(), "b".into()];
        let edited = reign(ReignStatus { primary: "a".into(), number: 7, members });
        assert_eq!(edited.configuration, configuration(1, &["a", "b"]));
    }
}
