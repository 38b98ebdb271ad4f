//! Volumes of former clusters.

use postgres_model::{lsn::Lsn, report::InstanceState};

use super::*;
use crate::{
    decide::{
        Action, FailoverObstacle, MemberPod, decide,
        tests::{claim, observed},
    },
    membership::tests::configuration,
    record::tests::record,
};

fn volume(serial: Serial, record: VolumeRecord) -> Volume {
    let size = claim("1Gi");
    Volume { uid: format!("v-{serial}"), is_ours: false, is_terminating: false, size, record: Some(record) }
}

/// Returns a new cluster and the volumes of a former one with these members.
fn former(members: &[Serial]) -> Observed {
    let mut observed = observed(3);
    let volumes = members.iter().map(|serial| (*serial, volume(*serial, record("former", members))));
    observed.volumes = volumes.collect();
    observed
}

fn pod(serial: Serial) -> MemberPod {
    MemberPod {
        uid: format!("p-{serial}"),
        is_ready: false,
        is_terminating: false,
        is_finished: false,
        role: None,
        revision: "new".into(),
    }
}

/// Lets a member answer with what it has.
fn answer(observed: &mut Observed, serial: Serial, timeline: u32, lsn: u64) {
    let timeline = TimelineId::new(timeline).unwrap();
    let mut report = crate::decide::tests::report(serial, InstanceState::Sealed, timeline);
    report.sealed_epoch = Some(1);
    report.positions.received = Some(Lsn(lsn));
    observed.pods.insert(serial, pod(serial));
    observed.reports.insert(serial, report);
}

/// Lets a member answer that its volume never had a database.
fn answer_empty(observed: &mut Observed, serial: Serial) {
    answer(observed, serial, 1, 0);
    let report = observed.reports.get_mut(&serial).unwrap();
    report.state = InstanceState::Hold;
    (report.is_empty, report.timeline, report.system_identifier) = (true, None, None);
}

/// Lets a new cluster adopt the volumes.
fn adopted(mut observed: Observed) -> Observed {
    let decision = decide(&observed);
    assert_eq!((decision.actions, decision.adoption_problem), (vec![], None));
    observed.membership = decision.membership;
    observed
}

fn serials(membership: &Membership) -> Vec<Serial> {
    membership.staying().map(|member| member.serial).collect()
}

#[test]
fn members_of_a_former_cluster_are_stored_then_started_and_compared() {
    let mut observed = adopted(former(&[1, 2, 4]));
    let membership = &observed.membership;
    assert_eq!((serials(membership), membership.next_serial), (vec![1, 2, 4], 5));
    assert_eq!(membership.members[2].volume_uid.as_deref(), Some("v-4"));
    let failover = &membership.failover;
    assert_eq!((failover.epoch, &failover.target, &failover.current), (1, &None, &None));
    assert_eq!(failover.reigns[0].configuration, configuration(1, &["db-1", "db-2", "db-4"]));
    let adoption = membership.adoption.clone().unwrap();
    assert_eq!((adoption.cluster_uid.as_str(), adoption.major_version), ("former", Some(18)));
    assert!(membership.is_bootstrapped() && membership.system_id.is_some());

    let decision = decide(&observed);
    assert_eq!(decision.actions, [1, 2, 4].map(Action::CreatePod), "nothing is written to the volumes");
    answer(&mut observed, 1, 2, 0x90);
    answer(&mut observed, 4, 3, 0x50);
    let decision = decide(&observed);
    assert!(matches!(decision.obstacle, Some(FailoverObstacle::NoQuorum(_))), "db-2 has not answered");
    answer(&mut observed, 2, 3, 0x40);
    let decision = decide(&observed);
    let failover = &decision.membership.failover;
    assert_eq!((failover.target.as_deref(), failover.timeline.get()), (Some("db-4"), 4));
    assert_eq!(failover.reigns[1].configuration, configuration(1, &["db-1", "db-2"]));
    observed.membership = decision.membership;

    let timeline = observed.membership.failover.timeline;
    let report = crate::decide::tests::report(4, InstanceState::Primary, timeline);
    observed.reports.insert(4, report);
    let decision = decide(&observed);
    assert!(decision.membership.adoption.unwrap().done);
    let records: Vec<_> = decision.actions.iter().filter(|it| matches!(it, Action::Record(..))).collect();
    assert_eq!(records.len(), 3, "the volumes belong to this cluster now");
    assert_eq!((decision.record.cluster_uid.as_str(), decision.record.creator.as_str()), ("u-1", "former"));
}

#[test]
fn volumes_that_are_not_those_of_one_database_are_not_touched() {
    let mut several = former(&[1, 2]);
    several.volumes.insert(3, volume(3, record("another", &[3])));
    let mut systems = former(&[1, 2]);
    systems.volumes.get_mut(&2).unwrap().record.as_mut().unwrap().system_id = "7".parse().ok();
    let mut unknown = former(&[1, 2]);
    for volume in unknown.volumes.values_mut() {
        volume.record.as_mut().unwrap().members.clear();
    }
    let mut retired = former(&[1, 2]);
    retired.volumes.insert(5, volume(5, record("former", &[1, 2])));
    retired.volumes.retain(|serial, _| *serial == 5);
    let mut terminating = former(&[1, 2]);
    terminating.volumes.get_mut(&2).unwrap().is_terminating = true;
    for (observed, problem) in [
        (several, AdoptionProblem::SeveralDatabases(vec![vec![3], vec![1, 2]])),
        (systems, AdoptionProblem::SeveralDatabases(vec![vec![2], vec![1]])),
        (unknown, AdoptionProblem::UnknownMembers(vec![1, 2])),
        (retired, AdoptionProblem::NoMembers(vec![5])),
        (terminating, AdoptionProblem::Terminating(vec![2])),
    ] {
        let decision = decide(&observed);
        assert_eq!((decision.membership, decision.actions), (observed.membership, vec![]));
        assert_eq!(decision.adoption_problem, Some(problem));
    }
}

#[test]
fn newest_record_says_who_the_members_were() {
    let mut observed = former(&[1, 2]);
    // Member 3 was removed, and member 4 after it. Its volume was deleted before all others knew.
    observed.volumes.insert(3, volume(3, record("former", &[1, 2, 3])));
    for serial in [1, 2] {
        let mut newest = record("former", &[1, 2, 4]);
        if serial == 2 {
            newest.members.remove(&4);
        }
        observed.volumes.insert(serial, volume(serial, newest));
    }
    let observed = adopted(observed);
    assert_eq!((serials(&observed.membership), observed.membership.next_serial), (vec![1, 2], 5));
    assert_eq!(decide(&observed).retained, [3]);
}

#[test]
fn volumes_of_several_lives_of_one_database_belong_together() {
    let mut observed = former(&[1, 2]);
    let mut later = record("later", &[1, 2]);
    later.creator = "former".into();
    observed.volumes.insert(1, volume(1, later));
    let observed = adopted(observed);
    assert_eq!(serials(&observed.membership), [1, 2]);
    assert_eq!(observed.membership.adoption.unwrap().cluster_uid, "former");
}

#[test]
fn missing_member_is_named_and_a_person_can_go_on_without_it() {
    let mut observed = former(&[1, 2, 3]);
    observed.volumes.remove(&2);
    // A volume of somebody else has its name.
    observed.volumes.insert(2, Volume { record: None, ..volume(2, record("x", &[])) });
    let mut observed = adopted(observed);
    assert_eq!(serials(&observed.membership), [1, 3]);
    answer(&mut observed, 1, 1, 0x40);
    let Some(FailoverObstacle::NoQuorum(missing)) = decide(&observed).obstacle else { panic!() };
    assert_eq!(missing[0].members, ["db-2", "db-3"]);

    observed.pods.insert(3, pod(3));
    observed.forced = Some("db-3".into());
    assert_eq!(decide(&observed).membership.failover.target, None, "it does not answer");
    observed.forced = Some("any".into());
    let decision = decide(&observed);
    assert!(decision.is_forced);
    assert_eq!(decision.membership.failover.target.as_deref(), Some("db-1"));
    assert!(decision.actions.contains(&Action::ForgetForced("any".into())));
    // Member 3 could have timelines of which nobody knows. Its volume stays as it is.
    assert_eq!(serials(&decision.membership), [1]);
    assert!(decision.actions.contains(&Action::DeletePod(3, "p-3".into())));
    observed.membership = decision.membership;
    observed.when_scaled = crate::api::RetentionPolicy::Delete;
    observed.pods.remove(&3);
    let decision = decide(&observed);
    let deletes = decision.actions.iter().any(|action| matches!(action, Action::DeleteVolume(..)));
    assert_eq!((decision.membership.members.len(), deletes), (1, false));
    assert_eq!(decision.retained, [3]);
}

#[test]
fn spec_can_refuse_the_volumes_or_begin_beside_them() {
    let mut observed = former(&[1, 2]);
    observed.former = FormerVolumes::Refuse;
    let decision = decide(&observed);
    assert_eq!(serials(&decision.membership), [1]);
    assert_eq!(decision.problems, [(1, crate::decide::VolumeProblem::Conflict)]);
    assert_eq!((decision.actions, decision.retained), (vec![], vec![1, 2]));

    observed.former = FormerVolumes::Fresh;
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), &decision.membership.adoption), (vec![3], &None));
    assert_eq!((decision.actions, decision.retained), (vec![Action::CreateVolume(3)], vec![1, 2]));
}

#[test]
fn member_without_data_copies_the_others() {
    let mut observed = adopted(former(&[1, 2]));
    answer(&mut observed, 1, 1, 0x40);
    answer_empty(&mut observed, 2);
    let decision = decide(&observed);
    assert!(matches!(decision.obstacle, Some(FailoverObstacle::NoQuorum(_))), "it had data before");
    assert_eq!(decision.problems, [(2, crate::decide::VolumeProblem::Emptied)]);
    observed.volumes.get_mut(&2).unwrap().record.as_mut().unwrap().has_data = false;
    let decision = decide(&observed);
    assert_eq!(decision.membership.failover.target.as_deref(), Some("db-1"));
    let joined: Vec<_> = decision.membership.members.iter().map(|member| member.joined).collect();
    assert_eq!(joined, [true, false]);
}

#[test]
fn database_is_created_if_the_former_cluster_had_none() {
    let mut without = former(&[1]);
    let known = without.volumes.get_mut(&1).unwrap().record.as_mut().unwrap();
    (known.system_id, known.has_data) = (None, false);
    let mut observed = adopted(without);
    answer_empty(&mut observed, 1);
    let membership = decide(&observed).membership;
    assert_eq!((membership.failover.target.as_deref(), membership.failover.epoch), (Some("db-1"), 2));
    assert_eq!(membership.bootstrap, Some(BootstrapStatus { volume_uid: "v-1".into(), done: false }));
    observed.membership = membership;
    observed.pods.clear();
    observed.reports.clear();
    assert_eq!(decide(&observed).actions, [Action::CreatePod(1)]);
}

#[test]
fn members_with_different_databases_are_not_compared() {
    let mut without = former(&[1, 2]);
    for volume in without.volumes.values_mut() {
        volume.record.as_mut().unwrap().system_id = None;
    }
    let mut observed = adopted(without);
    answer(&mut observed, 1, 1, 0x40);
    answer(&mut observed, 2, 1, 0x50);
    observed.reports.get_mut(&2).unwrap().system_identifier = "7".parse().ok();
    let decision = decide(&observed);
    assert_eq!(decision.adoption_problem, Some(AdoptionProblem::SeveralDatabases(vec![vec![2], vec![1]])));
    assert_eq!(decision.membership.failover.target, None);
}
