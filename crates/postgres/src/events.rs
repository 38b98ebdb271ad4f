//! Events about members.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use operator_core::events::Events;

use crate::{
    api::PostgresCluster,
    build::member_name,
    membership::{Member, Membership, Serial},
    reasons::{MEMBER_JOINED, MEMBER_REMOVED, SEED_LAUNCHED},
};

/// Records what a change of the membership means.
pub(crate) fn record(events: &Events, cluster: &PostgresCluster, before: &Membership, after: &Membership) {
    for Occurrence { reason, action, member, what } in occurrences(before, after) {
        let name = member_name(cluster, member);
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

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Occurrence {
    reason: &'static str,
    action: &'static str,
    member: Serial,
    what: &'static str,
}

fn occurrences(before: &Membership, after: &Membership) -> Vec<Occurrence> {
    let seed = after.target.filter(|_| before.bootstrap.is_none() && after.bootstrap.is_some());
    let mut occurrences: Vec<_> = seed
        .map(|member| Occurrence {
            reason: SEED_LAUNCHED,
            action: "Create",
            member,
            what: "creates the database",
        })
        .into_iter()
        .collect();
    for Member { serial: member, joined, leaving, .. } in after.members.iter().cloned() {
        let known = before.members.iter().find(|known| known.serial == member);
        if joined && known.is_none_or(|known| !known.joined) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BootstrapStatus;

    #[test]
    fn events_follow_the_membership() {
        let empty = Membership::of(None);
        let mut first = empty.clone();
        first.members = vec![Member::new(1)];
        first.target = Some(1);
        first.bootstrap = Some(BootstrapStatus { volume_uid: "v-1".into(), done: false });
        let mut joined = first.clone();
        joined.members[0].joined = true;
        let mut leaving = joined.clone();
        leaving.members[0].leaving = true;
        let reasons = |before: &Membership, after: &Membership| {
            occurrences(before, after).into_iter().map(|one| one.reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&empty, &first), [SEED_LAUNCHED]);
        assert_eq!(reasons(&first, &joined), [MEMBER_JOINED]);
        assert_eq!(reasons(&joined, &leaving), [MEMBER_REMOVED]);
        assert!(reasons(&joined, &joined).is_empty());
    }
}
