//! Events about members.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use operator_core::{conditions::find, events::Events};

use crate::{
    api::PostgresCluster,
    condition_types::ARCHIVING,
    membership::{Member, Membership, Serial},
    reasons::{
        ARCHIVE_FAILING, CONFLICT, FAILING, FAILOVER_DONE, FAILOVER_STARTED, MAJOR_UPGRADE_DONE,
        MAJOR_UPGRADE_FAILED, MAJOR_UPGRADE_STARTED, MEMBER_JOINED, MEMBER_REMOVED, PRIMARY_FENCED,
        PROMOTION_FORCED, RECOVERY_DONE, RECOVERY_STARTED, SEED_LAUNCHED, SWITCHOVER_DONE,
        SWITCHOVER_STARTED, VOLUMES_ADOPTED,
    },
};

/// Records what a change of the membership means.
pub(crate) fn record(events: &Events, cluster: &PostgresCluster, before: &Membership, after: &Membership) {
    record_failed_upgrade(events, cluster, before, after);
    for Occurrence { reason, action, member, what } in occurrences(before, after) {
        let name = after.name_of(member);
        let note = format!("{name} {what}");
        // Events of one reason are merged, unless they relate to different objects.
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: cluster.namespace(),
            name: Some(name),
            ..ObjectReference::default()
        };
        events.normal_with_related(cluster.object_ref(&()), pod, reason, action, &note);
    }
}

/// Records that a person has chosen the next primary.
pub(crate) fn record_forced(events: &Events, cluster: &PostgresCluster, after: &Membership) {
    let Some(target) = &after.failover.target else { return };
    let note = format!("{target} is promoted as requested; rows that only other members have are lost");
    events.warning(cluster.object_ref(&()), PROMOTION_FORCED, "FailOver", &note);
}

/// Records that archiving has begun to fail.
pub(crate) fn record_archive(events: &Events, before: &PostgresCluster, after: &PostgresCluster) {
    let failing = |cluster: &PostgresCluster| {
        let condition = find(&cluster.status.as_ref()?.conditions, ARCHIVING)?.clone();
        [FAILING, CONFLICT].contains(&condition.reason.as_str()).then_some(condition)
    };
    if let (None, Some(condition)) = (failing(before), failing(after)) {
        events.warning(after.object_ref(&()), ARCHIVE_FAILING, "Archive", &condition.message);
    }
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Occurrence {
    reason: &'static str,
    action: &'static str,
    member: Serial,
    what: &'static str,
}

fn occurrences(before: &Membership, after: &Membership) -> Vec<Occurrence> {
    let member_with = |name: &Option<String>| {
        after.members.iter().map(|member| member.serial).find(|serial| after.is(*serial, name.as_ref()))
    };
    let is_launched = before.bootstrap.is_none() && after.bootstrap.is_some();
    let seed = member_with(&after.failover.target).filter(|_| is_launched);
    let mut occurrences: Vec<_> = seed
        .map(|member| Occurrence {
            reason: SEED_LAUNCHED,
            action: "Create",
            member,
            what: "creates the database",
        })
        .into_iter()
        .collect();
    for (is_so, reason, what) in [
        (
            after.is_recovering() && !before.is_recovering(),
            RECOVERY_STARTED,
            "recovers the database from an archive",
        ),
        (before.is_recovering() && !after.is_recovering(), RECOVERY_DONE, "has recovered the database"),
    ] {
        let member = after.members.first().map(|member| member.serial).filter(|_| is_so);
        occurrences.extend(member.map(|member| Occurrence { reason, action: "Recover", member, what }));
    }
    let (begins, ends) = upgrade_changes(before, after);
    if let Some(member) = member_with(&after.upgrade.as_ref().map(|upgrade| upgrade.member.clone())) {
        let started = (
            begins,
            MAJOR_UPGRADE_STARTED,
            "is upgraded to another major version, while all members are down",
        );
        let done = (ends, MAJOR_UPGRADE_DONE, "has been upgraded to another major version");
        let happened = [started, done].into_iter().filter(|(is_so, ..)| *is_so);
        occurrences.extend(happened.map(|(_, reason, what)| Occurrence {
            reason,
            action: "Upgrade",
            member,
            what,
        }));
    }
    if after.failover.epoch > before.failover.epoch
        && !ends
        && let Some(member) = member_with(&before.failover.target)
    {
        // A request that was acted on before is no reason for this failover.
        let is_planned = before.failover.switchover != after.failover.switchover;
        let (reason, action, what) = if is_planned {
            (SWITCHOVER_STARTED, "SwitchOver", "stops, so that another member takes its place")
        } else {
            (FAILOVER_STARTED, "FailOver", "no longer takes writes, and another member replaces it")
        };
        occurrences.push(Occurrence { reason, action, member, what });
    }
    if after.failover.fenced
        && !before.failover.fenced
        && !begins
        && let Some(member) = member_with(&after.failover.current)
    {
        let what = "is fenced: it stops, and no member takes its place";
        occurrences.push(Occurrence { reason: PRIMARY_FENCED, action: "Fence", member, what });
    }
    if before.failover.current.is_none()
        && after.failover.epoch > 1
        && let Some(member) = member_with(&after.failover.current)
    {
        let what = "is the primary";
        let is_planned = after.failover.switchover.is_some();
        let (reason, action) =
            if is_planned { (SWITCHOVER_DONE, "SwitchOver") } else { (FAILOVER_DONE, "FailOver") };
        occurrences.push(Occurrence { reason, action, member, what });
    }
    for Member { serial: member, joined, leaving, .. } in after.members.iter().cloned() {
        let known = before.members.iter().find(|known| known.serial == member);
        if joined && known.is_none() {
            let what = "uses its volume of a former cluster of this name";
            occurrences.push(Occurrence { reason: VOLUMES_ADOPTED, action: "Adopt", member, what });
        } else if joined && known.is_some_and(|known| !known.joined) {
            let what = "has joined the cluster";
            occurrences.push(Occurrence { reason: MEMBER_JOINED, action: "Join", member, what });
        }
        if leaving && known.is_some_and(|known| !known.leaving) {
            let what = "leaves the cluster";
            occurrences.push(Occurrence { reason: MEMBER_REMOVED, action: "Remove", member, what });
        }
    }
    occurrences
}

/// Returns whether an upgrade to another major version begins, and whether one succeeds.
fn upgrade_changes(before: &Membership, after: &Membership) -> (bool, bool) {
    let is_done = |membership: &Membership| membership.upgrade.as_ref().is_some_and(|upgrade| upgrade.done);
    let begins = before.upgrade_in_progress().is_none() && after.upgrade_in_progress().is_some();
    (begins, before.upgrade_in_progress().is_some() && is_done(after))
}

/// Records that an upgrade to another major version has failed.
fn record_failed_upgrade(
    events: &Events,
    cluster: &PostgresCluster,
    before: &Membership,
    after: &Membership,
) {
    let failed = after.upgrade.as_ref().filter(|upgrade| upgrade.has_failed());
    if let (Some(_), Some(upgrade)) = (before.upgrade_in_progress(), failed) {
        let note = format!("the data of {} stay as they are: {}", upgrade.member, upgrade.failure);
        events.warning(cluster.object_ref(&()), MAJOR_UPGRADE_FAILED, "Upgrade", &note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::BootstrapStatus, membership::tests::empty};

    #[test]
    fn events_follow_the_membership() {
        let empty = empty();
        let mut first = empty.clone();
        first.members = vec![Member::new(1)];
        (first.failover.target, first.failover.epoch) = (Some("db-1".into()), 1);
        first.bootstrap = Some(BootstrapStatus { volume_uid: "v-1".into(), done: false });
        let mut joined = first.clone();
        joined.members[0].joined = true;
        joined.failover.current = Some("db-1".into());
        let mut leaving = joined.clone();
        leaving.members[0].leaving = true;
        let mut failing = joined.clone();
        (failing.failover.target, failing.failover.current, failing.failover.epoch) = (None, None, 2);
        let mut replaced = failing.clone();
        replaced.members.push(Member::new(2));
        (replaced.failover.target, replaced.failover.current) = (Some("db-2".into()), Some("db-2".into()));
        let mut fenced = joined.clone();
        fenced.failover.fenced = true;
        let reasons = |before: &Membership, after: &Membership| {
            occurrences(before, after).into_iter().map(|one| (one.reason, one.member)).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&empty, &first), [(SEED_LAUNCHED, 1)]);
        assert_eq!(reasons(&first, &joined), [(MEMBER_JOINED, 1)]);
        assert_eq!(reasons(&joined, &leaving), [(MEMBER_REMOVED, 1)]);
        assert_eq!(reasons(&empty, &joined).last(), Some(&(VOLUMES_ADOPTED, 1)));
        assert_eq!(reasons(&joined, &failing), [(FAILOVER_STARTED, 1)]);
        assert_eq!(reasons(&failing, &replaced), [(FAILOVER_DONE, 2)]);
        assert_eq!(reasons(&joined, &fenced), [(PRIMARY_FENCED, 1)]);
        assert!(reasons(&fenced, &fenced).is_empty() && reasons(&fenced, &joined).is_empty());
        assert!(reasons(&joined, &joined).is_empty());
    }
}
