use operator_core::conditions::find;
use serde_json::json;

use super::*;
use crate::{api::BootstrapStatus, build::fixture::cluster, membership::Member};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn served(substitution: Option<String>) -> Served {
    Served { version: "18.6".into(), image: "postgres:18.6".into(), user: 999, substitution }
}

/// Returns a cluster of this size in which these members have joined. The first is the primary.
fn membership(joined: &[Serial]) -> Membership {
    let mut membership = Membership::of(None);
    membership.members =
        joined.iter().map(|serial| Member { joined: true, ..Member::new(*serial) }).collect();
    (membership.current, membership.target) = (joined.first().copied(), joined.first().copied());
    membership.bootstrap = Some(BootstrapStatus { volume_uid: "v".into(), done: !joined.is_empty() });
    membership
}

fn ready(serials: &[Serial]) -> Vec<(Serial, MemberState)> {
    serials.iter().map(|serial| (*serial, MemberState { is_ready: true, node: "n".into() })).collect()
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
        (&[1, 2], &[1, 2], [("True", "AsSpecified"), ("False", "NotNeeded"), ("True", "AsSpecified")]),
        (&[1, 2], &[1], [("True", "AsSpecified"), ("False", "NotNeeded"), ("False", "PodsNotReady")]),
        (&[1, 2], &[2], [("False", "NoPrimary"), ("False", "NotNeeded"), ("False", "NoPrimary")]),
    ];
    for (joined, ready_members, expected) in cases {
        let observed = Observation {
            membership: &membership(joined),
            pods: &ready(ready_members),
            problems: &[],
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
    let version = Ok(served(Some("9.6.3 is not supported".to_owned())));
    let observed = Observation {
        membership: &membership(&[1]),
        pods: &ready(&[1]),
        problems: &[],
        failures: &[],
        version: &version,
    };
    let status = status(&cluster, &observed, NOW);
    let supported = find(&status.conditions, VERSION_SUPPORTED).unwrap();
    assert_eq!((supported.status.as_str(), supported.reason.as_str()), ("False", "EndOfLife"));
    assert_eq!(conditions(&status)[2], ("True", "AsSpecified"));
    assert_eq!(status.current_version, "18.6");
}
