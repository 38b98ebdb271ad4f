//! Single decisions.

use super::*;

fn observed(size: usize) -> Observed {
    Observed {
        size,
        paused: false,
        when_scaled: RetentionPolicy::Retain,
        membership: Membership::of(None),
        volumes: BTreeMap::new(),
        pods: BTreeMap::new(),
    }
}

fn volume(serial: Serial) -> Volume {
    Volume { uid: format!("v-{serial}"), is_ours: true, is_terminating: false }
}

fn pod(serial: Serial) -> MemberPod {
    MemberPod {
        uid: format!("p-{serial}"),
        is_ready: true,
        is_terminating: false,
        is_finished: false,
        role: Some(if serial == 1 { Role::Primary } else { Role::Replica }),
    }
}

/// Returns a cluster in which these members run. The first is the primary.
fn running(size: usize, serials: &[Serial]) -> Observed {
    let mut observed = observed(size);
    observed.volumes = serials.iter().map(|serial| (*serial, volume(*serial))).collect();
    observed.pods = serials.iter().map(|serial| (*serial, pod(*serial))).collect();
    let member = |serial: &Serial| Member {
        volume_uid: Some(format!("v-{serial}")),
        joined: true,
        ..Member::new(*serial)
    };
    observed.membership = Membership {
        next_serial: serials.last().unwrap() + 1,
        members: serials.iter().map(member).collect(),
        current: serials.first().copied(),
        target: serials.first().copied(),
        epoch: 1,
        bootstrap: Some(BootstrapStatus { volume_uid: "v-1".into(), done: true }),
    };
    observed
}

fn serials(membership: &Membership) -> Vec<Serial> {
    membership.staying().map(|member| member.serial).collect()
}

#[test]
fn first_member_gets_a_volume_then_the_permission_and_a_pod() {
    let mut observed = observed(3);
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), decision.membership.target), (vec![1], Some(1)));
    assert_eq!(decision.actions, [Action::CreateVolume(1)]);
    assert_eq!(decision.membership.bootstrap, None);

    observed.membership = decision.membership;
    observed.volumes.insert(1, volume(1));
    let decision = decide(&observed);
    let permission = BootstrapStatus { volume_uid: "v-1".into(), done: false };
    assert_eq!(decision.membership.bootstrap, Some(permission));
    assert_eq!(decision.actions, [Action::CreatePod(1)]);
}

#[test]
fn second_member_waits_until_the_first_is_ready() {
    let mut observed = running(3, &[1]);
    observed.membership.current = None;
    observed.membership.bootstrap.as_mut().unwrap().done = false;
    observed.pods.get_mut(&1).unwrap().is_ready = false;
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), decision.membership.current), (vec![1], None));

    observed.pods.get_mut(&1).unwrap().is_ready = true;
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), decision.membership.current), (vec![1, 2], Some(1)));
    assert_eq!(decision.actions, [Action::CreateVolume(2)]);
}

#[test]
fn settled_cluster_needs_nothing() {
    let observed = running(3, &[1, 2, 3]);
    let decision = decide(&observed);
    assert_eq!((decision.membership, decision.actions), (observed.membership, vec![]));
}

#[test]
fn lost_pod_is_recreated_on_its_volume() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.pods.remove(&1);
    let decision = decide(&observed);
    assert_eq!(decision.actions, [Action::CreatePod(1)]);
    assert_eq!(decision.membership, observed.membership);
}

#[test]
fn unready_member_leaves_first_and_the_primary_never() {
    let mut observed = running(1, &[1, 2, 3]);
    observed.pods.get_mut(&2).unwrap().is_ready = false;
    let decision = decide(&observed);
    assert_eq!(serials(&decision.membership), [1, 3]);
    assert_eq!(decision.actions, [Action::DeletePod(2, "p-2".into())]);

    observed.membership = decision.membership;
    observed.pods.remove(&2);
    let decision = decide(&observed);
    assert_eq!(serials(&decision.membership), [1]);
    assert_eq!(decision.membership.members.len(), 2, "member 2 is gone, and member 3 leaves");
}

#[test]
fn volume_of_removed_member_is_deleted_only_by_policy() {
    for (policy, deletion) in [
        (RetentionPolicy::Retain, vec![]),
        (RetentionPolicy::Delete, vec![Action::DeleteVolume(2, "v-2".into())]),
    ] {
        let mut observed = running(1, &[1, 2]);
        observed.when_scaled = policy;
        observed.membership.members[1].leaving = true;
        observed.pods.remove(&2);
        assert_eq!(decide(&observed).actions, deletion);
    }
}

#[test]
fn volumes_that_are_lost_replaced_or_foreign_are_reported_and_not_used() {
    let mut lost = running(2, &[1, 2]);
    lost.pods.remove(&2);
    let (mut replaced, mut terminating) = (lost.clone(), lost.clone());
    lost.volumes.remove(&2);
    replaced.volumes.get_mut(&2).unwrap().uid = "another".into();
    terminating.volumes.get_mut(&2).unwrap().is_terminating = true;
    let mut foreign = running(2, &[1]);
    foreign.volumes.insert(2, Volume { is_ours: false, ..volume(2) });
    for (observed, problem) in [
        (lost, VolumeProblem::Lost),
        (replaced, VolumeProblem::Replaced),
        (terminating, VolumeProblem::Terminating),
        (foreign, VolumeProblem::Conflict),
    ] {
        let decision = decide(&observed);
        assert_eq!((decision.actions, decision.problems), (vec![], vec![(2, problem)]));
    }
}

#[test]
fn paused_cluster_gets_no_action() {
    let mut observed = running(5, &[1, 2, 3]);
    observed.pods.remove(&2);
    observed.paused = true;
    let decision = decide(&observed);
    assert_eq!((decision.membership, decision.actions), (observed.membership, vec![]));
}

#[test]
fn primary_label_is_given_after_no_other_pod_has_it() {
    let mut observed = running(2, &[1, 2]);
    observed.pods.get_mut(&1).unwrap().role = Some(Role::Replica);
    observed.pods.get_mut(&2).unwrap().role = Some(Role::Primary);
    let decision = decide(&observed);
    assert_eq!(decision.actions, [Action::SetRole(2, "p-2".into(), Role::Replica)]);
    observed.pods.get_mut(&2).unwrap().role = Some(Role::Replica);
    assert_eq!(decide(&observed).actions, [Action::SetRole(1, "p-1".into(), Role::Primary)]);
}

#[test]
fn next_member_waits_for_the_newest() {
    let mut observed = running(3, &[1, 2]);
    observed.pods.get_mut(&2).unwrap().is_ready = false;
    assert_eq!(decide(&observed).membership, observed.membership);
    observed.pods.get_mut(&2).unwrap().is_ready = true;
    assert_eq!(serials(&decide(&observed).membership), [1, 2, 3]);
}

#[test]
fn foreign_volume_is_not_adopted_later() {
    let mut observed = running(2, &[1]);
    observed.membership.members.push(Member::new(2));
    observed.volumes.insert(2, Volume { is_ours: false, ..volume(2) });
    let decision = decide(&observed);
    assert_eq!((decision.membership, decision.actions), (observed.membership, vec![]));
    assert_eq!(decision.problems, [(2, VolumeProblem::Conflict)]);
}

/// Whoever edits the status can lose the primary, but never causes a second database.
#[test]
fn no_database_is_created_twice_if_the_status_was_edited() {
    let mut without_primary = running(2, &[1, 2]);
    (without_primary.membership.current, without_primary.membership.target) = (None, None);
    without_primary.membership.members[1].joined = false;
    without_primary.pods.clear();
    assert_eq!(decide(&without_primary).actions, [Action::CreatePod(1)]);

    let mut without_members = running(1, &[1]);
    without_members.membership.members.clear();
    (without_members.membership.current, without_members.membership.target) = (None, None);
    without_members.pods.clear();
    let next = decide(&without_members).membership;
    assert_eq!((serials(&next), next.target, next.epoch), (vec![2], None, 1));
    without_members.membership = next;
    without_members.volumes.insert(2, volume(2));
    assert_eq!(decide(&without_members).actions, []);
}
