use operator_core::conditions::find;
use postgres_model::{failover::Reign, sync::SyncConfiguration};
use serde_json::json;

use super::*;
use crate::{
    api::{BootstrapStatus, MajorUpgradeStatus, fixture::cluster},
    condition_types::STORAGE_HEALTHY,
    decide::ClaimSize,
    membership::{
        Member,
        tests::{configuration, empty},
    },
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn served(deviation: Option<Unsupported>) -> Served {
    Served {
        version: "18.6".into(),
        image: "postgres:18.6".into(),
        user: 999,
        deviation,
        upgrade: None,
        previous: None,
    }
}

/// Returns a cluster of this size in which these members have joined. The first is the primary.
fn membership(joined: &[Serial]) -> Membership {
    let mut membership = empty();
    membership.members =
        joined.iter().map(|serial| Member { joined: true, ..Member::new(*serial) }).collect();
    let first = joined.first().map(|serial| membership.name_of(*serial));
    (membership.failover.current, membership.failover.target) = (first.clone(), first);
    membership.bootstrap = Some(BootstrapStatus { volume_uid: "v".into(), done: !joined.is_empty() });
    membership
}

fn state() -> MemberState {
    MemberState { is_ready: true, node: "n".into(), address: "10.0.0.1".into() }
}

fn ready(serials: &[Serial]) -> Vec<(Serial, MemberState)> {
    serials.iter().map(|serial| (*serial, state())).collect()
}

/// Returns status and reason of the conditions Available, Scaling, and Ready.
fn conditions(status: &PostgresClusterStatus) -> [(&str, &str); 3] {
    [AVAILABLE, SCALING, READY].map(|type_| {
        let found = find(&status.conditions, type_).unwrap();
        (found.status.as_str(), found.reason.as_str())
    })
}

/// Returns the status of a cluster whose members all work.
pub(super) fn status_of(cluster: &PostgresCluster, members: &[Serial]) -> PostgresClusterStatus {
    status_with(cluster, members, &BTreeMap::new())
}

/// Returns the status of a cluster whose members all work, and report this.
pub(super) fn status_with(
    cluster: &PostgresCluster,
    members: &[Serial],
    reports: &BTreeMap<Serial, InstanceReport>,
) -> PostgresClusterStatus {
    status_serving(cluster, &membership(members), reports, &Ok(served(None)))
}

/// Returns the status of a cluster with this membership and version, whose Pods are ready.
fn status_serving(
    cluster: &PostgresCluster,
    membership: &Membership,
    reports: &BTreeMap<Serial, InstanceReport>,
    version: &Result<Served, Unsupported>,
) -> PostgresClusterStatus {
    let members: Vec<_> = membership.members.iter().map(|member| member.serial).collect();
    let observed = Observation {
        membership,
        pods: &ready(&members),
        problems: &[],
        obstacle: None,
        outdated: &[],
        retained: &[],
        adoption_problem: None,
        recovery_problem: None,
        reports,
        volumes: &BTreeMap::new(),
        refusals: &BTreeMap::new(),
        successors: &[],
        failures: &[],
        version,
        backups: &Summary::default(),
    };
    status(cluster, &observed, NOW)
}

#[test]
fn conditions_follow_the_members() {
    let cluster = cluster(&json!({"size": 2}));
    let version = Ok(served(None));
    let cases: [(&[Serial], &[Serial], _); 5] = [
        (&[], &[], [("False", "NoPrimary"), ("True", "Scaling"), ("False", "NoPrimary")]),
        (&[1], &[1], [("True", "AsSpecified"), ("True", "Scaling"), ("False", "Scaling")]),
        (&[1, 2], &[1, 2], [("True", "AsSpecified"), ("False", "AsSpecified"), ("True", "AsSpecified")]),
        (&[1, 2], &[1], [("True", "AsSpecified"), ("False", "AsSpecified"), ("False", "PodsNotReady")]),
        (&[1, 2], &[2], [("False", "NoPrimary"), ("False", "AsSpecified"), ("False", "NoPrimary")]),
    ];
    for (joined, ready_members, expected) in cases {
        let observed = Observation {
            membership: &membership(joined),
            pods: &ready(ready_members),
            problems: &[],
            obstacle: None,
            outdated: &[],
            retained: &[],
            adoption_problem: None,
            recovery_problem: None,
            reports: &BTreeMap::new(),
            volumes: &BTreeMap::new(),
            refusals: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
            backups: &Summary::default(),
        };
        let status = status(&cluster, &observed, NOW);
        assert_eq!(conditions(&status), expected, "joined {joined:?}, ready {ready_members:?}");
        assert_eq!(status.ready_members, count(ready_members.len()));
    }
}

#[test]
fn what_blocks_a_member_is_named_with_a_remedy() {
    let cluster = cluster(&json!({"size": 2}));
    let observed = Observation {
        membership: &membership(&[1, 2]),
        pods: &ready(&[1]),
        problems: &[(2, VolumeProblem::Lost)],
        obstacle: None,
        outdated: &[],
        retained: &[],
        adoption_problem: None,
        recovery_problem: None,
        reports: &BTreeMap::new(),
        volumes: &BTreeMap::new(),
        refusals: &BTreeMap::new(),
        successors: &[],
        failures: &[],
        version: &Ok(served(None)),
        backups: &Summary::default(),
    };
    let status = status(&cluster, &observed, NOW);
    let ready = find(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "VolumeLost"));
    assert!(ready.message.starts_with("the PersistentVolumeClaim db-2 no longer exists; "), "{ready:?}");
}

#[test]
fn substituted_version_is_reported_and_does_not_block() {
    let cluster = cluster(&json!({"size": 1, "version": "9.6.3"}));
    let version = Ok(served(Some(Unsupported {
        reason: reasons::END_OF_LIFE,
        message: "9.6.3 is not supported".to_owned(),
    })));
    let status = status_serving(&cluster, &membership(&[1]), &BTreeMap::new(), &version);
    let supported = find(&status.conditions, VERSION_SUPPORTED).unwrap();
    assert_eq!((supported.status.as_str(), supported.reason.as_str()), ("False", "EndOfLife"));
    assert_eq!(conditions(&status)[2], ("True", "AsSpecified"));
    assert_eq!(status.current_version, "18.6");
}

#[test]
fn version_of_the_data_stays_while_their_upgrade_runs_and_when_it_fails() {
    let mut cluster = cluster(&json!({"size": 1, "version": "18"}));
    cluster.status.get_or_insert_default().current_version = "17.6".to_owned();
    // Served while the upgrade runs. The decision can end the upgrade after that.
    let version = Ok(Served { previous: Some("postgres:17.6".into()), ..served(None) });
    for failure in ["", "no space"] {
        let mut membership = membership(&[1]);
        membership.upgrade = Some(MajorUpgradeStatus {
            from: "17.6".into(),
            to: "18.6".into(),
            member: "db-1".into(),
            failure: failure.into(),
            ..MajorUpgradeStatus::default()
        });
        let status = status_serving(&cluster, &membership, &BTreeMap::new(), &version);
        assert_eq!((status.current_version.as_str(), status.target_version.as_str()), ("17.6", "18.6"));
    }
}

#[test]
fn failover_and_its_obstacles_are_reported() {
    let cluster = cluster(&json!({"size": 3}));
    let version = Ok(served(None));
    let mut membership = membership(&[1, 2, 3]);
    (membership.failover.current, membership.failover.target) = (None, None);
    for (obstacle, reason) in [
        (None, "FailingOver"),
        (Some(FailoverObstacle::NoQuorum(Vec::new())), "NoQuorum"),
        (Some(FailoverObstacle::TooFarBehind(7)), "AsyncLag"),
        (Some(FailoverObstacle::Unprotected), "SyncLowered"),
        (Some(FailoverObstacle::Disabled), "FailoverDisabled"),
        (Some(FailoverObstacle::DiskFull(Vec::new())), "DiskFull"),
    ] {
        let observed = Observation {
            membership: &membership,
            pods: &ready(&[2, 3]),
            problems: &[],
            obstacle: obstacle.as_ref(),
            outdated: &[],
            retained: &[],
            adoption_problem: None,
            recovery_problem: None,
            reports: &BTreeMap::new(),
            volumes: &BTreeMap::new(),
            refusals: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
            backups: &Summary::default(),
        };
        let status = status(&cluster, &observed, NOW);
        assert_eq!(status.phase, Phase::FailingOver);
        assert_eq!(conditions(&status)[0], ("False", reason));
        assert_eq!(conditions(&status)[2], ("False", reason));
    }
}

#[test]
fn data_are_safe_if_every_configuration_that_may_be_in_force_has_enough_standbys() {
    let mut membership = membership(&[1, 2, 3]);
    let reign = |configuration| Reign { primary: "db-1".to_owned(), configuration };
    let none = || reign(SyncConfiguration::default());
    let one = || reign(configuration(1, &["db-2", "db-3"]));
    for (size, reigns, expected) in [
        (3, vec![one()], ("True", "AsSpecified")),
        (3, vec![none(), one()], ("False", "SyncLowered")),
        (2, vec![none()], ("False", "Asynchronous")),
    ] {
        membership.failover.reigns = reigns;
        let cluster = cluster(&json!({"size": size}));
        let version = Ok(served(None));
        let observed = Observation {
            membership: &membership,
            pods: &[],
            problems: &[],
            obstacle: None,
            outdated: &[],
            retained: &[],
            adoption_problem: None,
            recovery_problem: None,
            reports: &BTreeMap::new(),
            volumes: &BTreeMap::new(),
            refusals: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
            backups: &Summary::default(),
        };
        let status = status(&cluster, &observed, NOW);
        let found = find(&status.conditions, DATA_SAFE).unwrap();
        assert_eq!((found.status.as_str(), found.reason.as_str()), expected);
    }
}

#[test]
fn address_of_a_member_stays_until_its_next_pod_has_one() {
    let cluster_before = cluster(&json!({"size": 1}));
    let version = Ok(served(None));
    let membership = membership(&[1]);
    let status_with = |cluster: &PostgresCluster, pods: &[(Serial, MemberState)]| {
        let observed = Observation {
            membership: &membership,
            pods,
            problems: &[],
            obstacle: None,
            outdated: &[],
            retained: &[],
            adoption_problem: None,
            recovery_problem: None,
            reports: &BTreeMap::new(),
            volumes: &BTreeMap::new(),
            refusals: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
            backups: &Summary::default(),
        };
        status(cluster, &observed, NOW)
    };
    let mut cluster = cluster_before;
    cluster.status = Some(status_with(&cluster, &ready(&[1])));
    let without_pod = status_with(&cluster, &[]);
    assert_eq!(
        (without_pod.instances[0].address.as_str(), without_pod.instances[0].ready),
        ("10.0.0.1", false)
    );
}

/// Returns status, reason, and message of the conditions StorageHealthy and Ready.
fn storage(
    cluster: &PostgresCluster,
    reports: &BTreeMap<Serial, InstanceReport>,
    volumes: &BTreeMap<Serial, Volume>,
    refusals: &BTreeMap<Serial, String>,
) -> [(String, String, String); 2] {
    let observed = Observation {
        membership: &membership(&[1, 2]),
        pods: &ready(&[1, 2]),
        problems: &[],
        obstacle: None,
        outdated: &[],
        retained: &[],
        adoption_problem: None,
        recovery_problem: None,
        reports,
        volumes,
        refusals,
        successors: &[],
        failures: &[],
        version: &Ok(served(None)),
        backups: &Summary::default(),
    };
    let status = status(cluster, &observed, NOW);
    [STORAGE_HEALTHY, READY].map(|type_| {
        let found = find(&status.conditions, type_).unwrap().clone();
        (found.status, found.reason, found.message)
    })
}

/// Returns the report of a member with this number of free MiB of 10 GiB.
fn with_free(serial: Serial, free: u64) -> (Serial, InstanceReport) {
    let mut report = InstanceReport::starting(format!("db-{serial}"), "p".into(), "0");
    (report.total_bytes, report.free_bytes) = (10 << 30, free << 20);
    (serial, report)
}

fn with_size(serial: Serial, request: &str, capacity: Option<&str>) -> (Serial, Volume) {
    let size = ClaimSize {
        request: request.parse().ok(),
        capacity: capacity.and_then(|capacity| capacity.parse().ok()),
        is_bound: capacity.is_some(),
        note: None,
    };
    (serial, Volume { uid: "v".into(), is_ours: true, is_terminating: false, size, record: None })
}

#[test]
fn storage_is_healthy_while_volumes_have_their_size_and_space() {
    let cluster = cluster(&json!({"size": 2, "storage": {"size": "10Gi"}}));
    let [healthy, ready] = storage(
        &cluster,
        &[with_free(1, 1024), with_free(2, 9000)].into(),
        &[with_size(1, "10Gi", Some("10Gi")), with_size(2, "20Gi", Some("20Gi"))].into(),
        &BTreeMap::new(),
    );
    assert_eq!((healthy.0.as_str(), healthy.1.as_str()), ("True", "AsSpecified"));
    assert_eq!(ready.0, "True");
}

#[test]
fn little_space_is_a_warning_and_has_to_be_more_before_it_ends() {
    let mut cluster = cluster(&json!({"size": 2, "storage": {"size": "10Gi"}}));
    let storage = |cluster: &PostgresCluster, free| {
        storage(cluster, &[with_free(2, free)].into(), &BTreeMap::new(), &BTreeMap::new())
    };
    let [healthy, ready] = storage(&cluster, 1023);
    assert_eq!((healthy.0.as_str(), healthy.1.as_str()), ("False", "LowSpace"));
    assert!(healthy.2.contains("the volumes of db-2;"), "{}", healthy.2);
    assert_eq!(ready.0, "True", "no member is kept from its work");
    let low = NewCondition::is_false(STORAGE_HEALTHY, reasons::LOW_SPACE, "");
    let status = cluster.status.get_or_insert_default();
    operator_core::conditions::set_condition(&mut status.conditions, &low, 1, NOW);
    assert_eq!(storage(&cluster, 1535)[0].1, "LowSpace");
    assert_eq!(storage(&cluster, 1536)[0].1, "AsSpecified");
}

#[test]
fn full_member_is_reported_with_all_that_concerns_its_volume() {
    let cluster = cluster(&json!({"size": 2, "storage": {"size": "20Gi"}}));
    let mut full = with_free(1, 0);
    full.1.disk_full = true;
    full.1.problem = Some("the volume is full; raise it".into());
    let refusals = [(1, "no class".to_owned()), (2, "no class".to_owned())].into();
    let volumes = [with_size(1, "10Gi", Some("10Gi")), with_size(2, "20Gi", Some("10Gi"))].into();
    let [healthy, ready] = storage(&cluster, &[full].into(), &volumes, &refusals);
    assert_eq!((healthy.1.as_str(), ready.1.as_str()), ("Full", "Full"));
    let parts: Vec<_> = healthy.2.split("; ").collect();
    assert_eq!(parts[..3], ["db-1: the volume is full", "raise it", "no class"], "{}", healthy.2);
    assert!(healthy.2.ends_with("the volume of db-2 has 10Gi of 20Gi"), "{}", healthy.2);
}

#[test]
fn growth_is_reported_until_the_volume_has_its_size() {
    let cluster = cluster(&json!({"size": 2, "storage": {"size": "20Gi"}}));
    let storage = |volume: (Serial, Volume), refusal: Option<&str>| {
        let refusals = refusal.map(|text| (2, text.to_owned())).into_iter().collect();
        storage(&cluster, &BTreeMap::new(), &[volume].into(), &refusals)
    };
    let mut pending = with_size(2, "20Gi", Some("10Gi"));
    pending.1.size.note = Some("the kubelet resizes the file system".into());
    let [healthy, ready] = storage(pending, None);
    let message = "the volume of db-2 has 10Gi of 20Gi (the kubelet resizes the file system)";
    assert_eq!(healthy, ("False".into(), "Growing".into(), message.into()));
    assert_eq!(ready.0, "True");
    let [healthy, _] = storage(with_size(2, "10Gi", None), None);
    assert_eq!(healthy.2, "the claim db-2 grows when it is bound to a volume");
    let [healthy, ready] = storage(with_size(2, "10Gi", Some("10Gi")), Some("forbidden"));
    assert_eq!((healthy.1.as_str(), ready.0.as_str()), ("ResizeRefused", "True"));
    assert!(
        healthy.2.starts_with("forbidden; use a storage class with allowVolumeExpansion"),
        "{}",
        healthy.2
    );
    let [healthy, _] = storage(with_size(2, "20Gi", Some("20Gi")), Some("forbidden"));
    assert_eq!(healthy.1, "AsSpecified", "the claim has grown by other means");
}

#[test]
fn full_primary_is_named_as_the_reason() {
    let cluster = cluster(&json!({"size": 2}));
    let mut full = with_free(1, 0);
    full.1.disk_full = true;
    for obstacle in [None, Some(FailoverObstacle::Disabled)] {
        let observed = Observation {
            membership: &membership(&[1, 2]),
            pods: &ready(&[2]),
            problems: &[],
            obstacle: obstacle.as_ref(),
            outdated: &[],
            retained: &[],
            adoption_problem: None,
            recovery_problem: None,
            reports: &[full.clone()].into(),
            volumes: &BTreeMap::new(),
            refusals: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &Ok(served(None)),
            backups: &Summary::default(),
        };
        assert_eq!(conditions(&status(&cluster, &observed, NOW))[0], ("False", "DiskFull"));
    }
}

#[test]
fn last_backup_that_is_newer_than_the_reconcile_stays() {
    let mut cluster = cluster(&json!({"size": 1}));
    let last = json!({"name": "first", "key": "1", "stoppedAt": "2026-01-01T00:00:00Z"});
    let known = PostgresClusterStatus {
        last_backup: serde_json::from_value(last).unwrap(),
        ..PostgresClusterStatus::default()
    };
    cluster.status = Some(known.clone());
    // The reconcile has found no backup.
    assert_eq!(status_of(&cluster, &[1]).last_backup, known.last_backup);
}
