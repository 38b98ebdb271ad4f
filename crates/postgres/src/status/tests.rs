use operator_core::conditions::find;
use postgres_model::{failover::Reign, sync::SyncConfiguration};
use serde_json::json;

use super::*;
use crate::{
    api::{BootstrapStatus, fixture::cluster},
    membership::{
        Member,
        tests::{configuration, empty},
    },
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn served(deviation: Option<Unsupported>) -> Served {
    Served { version: "18.6".into(), image: "postgres:18.6".into(), user: 999, deviation }
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
            reports: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
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
        reports: &BTreeMap::new(),
        successors: &[],
        failures: &[],
        version: &Ok(served(None)),
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
    let observed = Observation {
        membership: &membership(&[1]),
        pods: &ready(&[1]),
        problems: &[],
        obstacle: None,
        outdated: &[],
        reports: &BTreeMap::new(),
        successors: &[],
        failures: &[],
        version: &version,
    };
    let status = status(&cluster, &observed, NOW);
    let supported = find(&status.conditions, VERSION_SUPPORTED).unwrap();
    assert_eq!((supported.status.as_str(), supported.reason.as_str()), ("False", "EndOfLife"));
    assert_eq!(conditions(&status)[2], ("True", "AsSpecified"));
    assert_eq!(status.current_version, "18.6");
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
    ] {
        let observed = Observation {
            membership: &membership,
            pods: &ready(&[2, 3]),
            problems: &[],
            obstacle: obstacle.as_ref(),
            outdated: &[],
            reports: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
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
            reports: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
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
            reports: &BTreeMap::new(),
            successors: &[],
            failures: &[],
            version: &version,
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
