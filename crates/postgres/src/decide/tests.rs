//! Single decisions.

use postgres_model::{
    failover::FailoverState, lsn::Lsn, report::InstanceState, sync::SyncMethod, timeline::TimelineId,
};

use super::*;
use crate::membership::tests::{configuration, empty};

/// Returns a new cluster. All timers have run for an hour.
pub(super) fn observed(size: usize) -> Observed {
    let hour = Duration::from_hours(1);
    Observed {
        cluster_uid: "u-1".into(),
        size,
        paused: false,
        hibernated: false,
        fence: Fence::default(),
        when_scaled: RetentionPolicy::Retain,
        former: FormerVolumes::Adopt,
        major_version: Some(18),
        forced: None,
        membership: empty(),
        volumes: BTreeMap::new(),
        pods: BTreeMap::new(),
        reports: BTreeMap::new(),
        failover: Failover {
            enabled: true,
            lease: Duration::from_secs(15),
            lease_expires_in: Duration::from_secs(15),
            since_renewal: Some(Duration::ZERO),
            expired_lease: None,
            since_change: hour,
            max_lag: 0,
            last_position: None,
            since_fenced: hour,
        },
        synchronous: Synchronous {
            number: usize::from(size >= 3),
            durability: Durability::Preferred,
            streaming: Vec::new(),
            streaming_since: hour,
        },
        switchover: Switchover { request: None, successors: Vec::new() },
        updates: Updates { revision: Some("new".into()), primary: PrimaryUpdate::Automatic },
        storage: Storage { size: "1Gi".parse().ok(), refused: [].into() },
        upgrade: None,
        recovery: None,
    }
}

/// Returns the report of a member in this state.
pub(super) fn report(serial: Serial, state: InstanceState, timeline: TimelineId) -> InstanceReport {
    let mut report = InstanceReport::starting(format!("db-{serial}"), format!("p-{serial}"), "0.1.0");
    report.state = state;
    report.timeline = Some(timeline);
    report.system_identifier = "7400000000000000001".parse().ok();
    let lines: Vec<_> = (1..timeline.get()).map(|number| format!("{number}\t0/{number}000\n")).collect();
    report.history = Some(lines.concat());
    report
}

/// Returns the sizes of a claim that is bound.
pub(super) fn claim(size: &str) -> ClaimSize {
    let size = size.parse().ok();
    ClaimSize { request: size, capacity: size, is_bound: true, note: None }
}

fn volume(serial: Serial) -> Volume {
    let size = claim("1Gi");
    Volume { uid: format!("v-{serial}"), is_ours: true, is_terminating: false, size, record: None }
}

fn pod(serial: Serial) -> MemberPod {
    MemberPod {
        uid: format!("p-{serial}"),
        is_ready: true,
        is_terminating: false,
        is_finished: false,
        role: Some(if serial == 1 { Role::Primary } else { Role::Replica }),
        revision: "new".into(),
    }
}

/// Returns a cluster in which these members run. The first is the primary.
pub(super) fn running(size: usize, serials: &[Serial]) -> Observed {
    let mut observed = observed(size);
    observed.volumes = serials.iter().map(|serial| (*serial, volume(*serial))).collect();
    observed.pods = serials.iter().map(|serial| (*serial, pod(*serial))).collect();
    let member = |serial: &Serial| Member {
        volume_uid: Some(format!("v-{serial}")),
        joined: true,
        ..Member::new(*serial)
    };
    let (first, others) = serials.split_first().unwrap();
    let names: Vec<_> = others.iter().map(|serial| format!("db-{serial}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).filter(|_| size >= 3).collect();
    let configuration = configuration(1.min(names.len()), &names);
    let mut primary = report(*first, InstanceState::Primary, TimelineId::FIRST);
    primary.synchronous_standby_names = Some(configuration.standby_names(SyncMethod::Any));
    observed.synchronous.streaming = others.iter().map(|serial| format!("db-{serial}")).collect();
    observed.reports.insert(*first, primary);
    let standby = |serial: &Serial| (*serial, report(*serial, InstanceState::Standby, TimelineId::FIRST));
    observed.reports.extend(others.iter().map(standby));
    let name = format!("db-{first}");
    observed.membership = Membership {
        next_serial: serials.last().unwrap() + 1,
        members: serials.iter().map(member).collect(),
        failover: FailoverState {
            epoch: 1,
            target: Some(name.clone()),
            current: Some(name.clone()),
            expired_lease: None,
            timeline: TimelineId::FIRST,
            reigns: vec![Reign { primary: name, configuration }],
            switchover: None,
            fenced: false,
        },
        timelines: Vec::new(),
        system_id: "7400000000000000001".parse().ok(),
        bootstrap: Some(BootstrapStatus { volume_uid: "v-1".into(), done: true }),
        ..empty()
    };
    record(&mut observed);
    observed
}

/// Lets the volumes say who the members are.
pub(super) fn record(observed: &mut Observed) {
    let record = VolumeRecord { has_data: true, ..observed.record(&observed.membership) };
    observed.volumes.values_mut().for_each(|volume| volume.record = Some(record.clone()));
}

fn serials(membership: &Membership) -> Vec<Serial> {
    membership.staying().map(|member| member.serial).collect()
}

#[test]
fn commits_wait_until_a_primary_without_standbys_renews_its_lease() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.synchronous.streaming.clear();
    observed.synchronous.streaming_since = Duration::from_secs(12);
    let mut number = |since_renewal| {
        observed.failover.since_renewal = Some(Duration::from_secs(since_renewal));
        let reigns = decide(&observed).membership.failover.reigns;
        reigns.last().unwrap().configuration.number()
    };
    assert_eq!(number(12), 1, "its report may be old");
    assert_eq!(number(1), 0, "it renewed its Lease a second ago");
}

#[test]
fn first_member_gets_a_volume_then_the_permission_and_a_pod() {
    let mut observed = observed(3);
    let decision = decide(&observed);
    let target = decision.membership.failover.target.clone();
    assert_eq!((serials(&decision.membership), target), (vec![1], Some("db-1".to_owned())));
    assert_eq!(decision.actions, [Action::CreateVolume(1)]);
    assert_eq!(decision.membership.bootstrap, None);

    observed.membership = decision.membership;
    let record = Some(decision.record.with_member(1));
    observed.volumes.insert(1, Volume { record, ..volume(1) });
    let decision = decide(&observed);
    let permission = BootstrapStatus { volume_uid: "v-1".into(), done: false };
    assert_eq!(decision.membership.bootstrap, Some(permission));
    assert_eq!(decision.actions, [Action::CreatePod(1)]);
}

#[test]
fn second_member_waits_until_the_first_is_primary_and_ready() {
    let mut observed = running(3, &[1]);
    observed.membership.failover.current = None;
    observed.membership.system_id = None;
    observed.membership.bootstrap.as_mut().unwrap().done = false;
    observed.pods.get_mut(&1).unwrap().is_ready = false;
    let answers = std::mem::take(&mut observed.reports);
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), decision.membership.failover.current), (vec![1], None));

    observed.reports = answers;
    let decision = decide(&observed);
    let membership = decision.membership;
    assert_eq!((serials(&membership), membership.failover.current.as_deref()), (vec![1], Some("db-1")));
    assert!(membership.is_bootstrapped() && membership.system_id.is_some());
    assert_eq!(membership.timelines.len(), 1);

    observed.pods.get_mut(&1).unwrap().is_ready = true;
    let decision = decide(&observed);
    assert_eq!(serials(&decision.membership), [1, 2]);
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
    observed.pods.remove(&2);
    let decision = decide(&observed);
    assert_eq!(decision.actions, [Action::CreatePod(2)]);
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
fn standby_leaves_after_no_commit_waits_for_it() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.size = 2;
    observed.synchronous.number = 0;
    let decision = decide(&observed);
    assert_eq!((serials(&decision.membership), decision.actions), (vec![1, 2], vec![]));
    let pending = decision.membership.failover.reigns.clone();
    assert_eq!(pending.len(), 2, "the old configuration may be in force");

    observed.membership = decision.membership;
    assert_eq!(decide(&observed).membership, observed.membership, "it is not in force");
    observed.reports.get_mut(&1).unwrap().synchronous_standby_names = Some(String::new());
    let decision = decide(&observed);
    assert_eq!(decision.membership.failover.reigns, pending[1..]);
    assert_eq!(decision.actions, [Action::DeletePod(3, "p-3".into())]);
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
        let struck_off = Action::Record(1, "v-1".into());
        assert_eq!(decide(&observed).actions, [struck_off], "nobody must wait for it later");
        let record = decide(&observed).record_of(1);
        observed.volumes.get_mut(&1).unwrap().record = Some(record);
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
    observed.pods.remove(&1);
    observed.failover.lease_expires_in = Duration::ZERO;
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
    let failover = &mut without_primary.membership.failover;
    (failover.current, failover.target) = (None, None);
    without_primary.membership.members[1].joined = false;
    without_primary.pods.clear();
    without_primary.reports.clear();
    assert_eq!(decide(&without_primary).actions, [Action::CreatePod(1)]);

    let mut without_members = running(1, &[1]);
    without_members.membership.members.clear();
    let failover = &mut without_members.membership.failover;
    (failover.current, failover.target) = (None, None);
    without_members.pods.clear();
    without_members.reports.clear();
    let decision = decide(&without_members);
    assert_eq!((decision.membership, decision.actions), (without_members.membership, vec![]));
}

#[test]
fn standbys_that_stream_are_admitted() {
    let mut observed = running(3, &[1, 2, 3]);
    let alone = Reign { primary: "db-1".into(), configuration: SyncConfiguration::default() };
    observed.membership.failover.reigns = vec![alone];
    observed.synchronous.streaming = vec!["db-3".into()];
    let reigns = decide(&observed).membership.failover.reigns;
    let configurations: Vec<_> = reigns.into_iter().map(|reign| reign.configuration).collect();
    assert_eq!(configurations, [SyncConfiguration::default(), configuration(1, &["db-3"])]);

    observed.reports.remove(&1);
    assert_eq!(decide(&observed).membership, observed.membership, "the primary does not answer");
}

/// Returns a cluster whose primary is gone, and whose other members are sealed.
fn sealed() -> Observed {
    let mut observed = running(3, &[1, 2, 3]);
    observed.pods.remove(&1);
    observed.reports.remove(&1);
    observed.membership.failover.epoch = 2;
    (observed.membership.failover.current, observed.membership.failover.target) = (None, None);
    for serial in [2, 3] {
        let mut report = report(serial, InstanceState::Sealed, TimelineId::FIRST);
        report.sealed_epoch = Some(2);
        report.positions.received = Some(Lsn(serial.into()));
        observed.reports.insert(serial, report);
    }
    observed
}

#[test]
fn lost_primary_is_replaced_by_the_member_with_the_most_wal() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.pods.remove(&1);
    observed.reports.remove(&1);
    let decision = decide(&observed);
    assert_eq!((decision.membership.failover.epoch, &decision.membership.failover.current), (2, &None));
    assert_eq!(decision.actions, [Action::CreatePod(1), Action::Seal(2, 2), Action::Seal(3, 2)]);

    let observed = sealed();
    let decision = decide(&observed);
    let failover = decision.membership.failover;
    assert_eq!((failover.target.as_deref(), failover.timeline.get()), (Some("db-3"), 2));
    assert_eq!(failover.reigns[1].configuration, configuration(1, &["db-1", "db-2"]));
    assert_eq!(decision.obstacle, None);
}

#[test]
fn writes_that_only_the_former_primary_may_have_are_not_given_up() {
    let mut one = sealed();
    one.reports.remove(&3);
    one.membership.failover.reigns[0].configuration = configuration(1, &["db-2", "db-3"]);
    assert!(matches!(decide(&one).obstacle, Some(FailoverObstacle::NoQuorum(_))));

    let mut alone = sealed();
    alone.membership.failover.reigns[0].configuration = SyncConfiguration::default();
    assert_eq!(decide(&alone).obstacle, Some(FailoverObstacle::Unprotected));
    alone.synchronous.number = 0;
    assert_eq!(decide(&alone).obstacle, None, "the spec accepts it");
    alone.failover.last_position = Some(Position { timeline: TimelineId::FIRST, lsn: Lsn(9) });
    assert_eq!(decide(&alone).obstacle, Some(FailoverObstacle::TooFarBehind(6)));
}

/// A connection to a node that is cut off can stay open for a while.
#[test]
fn primary_whose_lease_has_expired_is_replaced_although_its_last_report_is_there() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.failover.lease_expires_in = Duration::ZERO;
    let decision = decide(&observed);
    assert_eq!((decision.membership.failover.epoch, decision.membership.failover.target), (2, None));
    assert_eq!(
        decision.actions,
        [Action::SetRole(1, "p-1".into(), Role::Replica), Action::Seal(2, 2), Action::Seal(3, 2)]
    );
}

#[test]
fn failover_that_is_disabled_does_not_begin() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.pods.remove(&1);
    observed.reports.remove(&1);
    observed.failover.enabled = false;
    let decision = decide(&observed);
    assert_eq!(decision.membership, observed.membership);
    assert_eq!(decision.actions, [Action::CreatePod(1)]);
    assert_eq!(decision.obstacle, Some(FailoverObstacle::Disabled));
}

#[test]
fn confirmed_primary_brings_its_history() {
    let mut observed = sealed();
    let timeline = TimelineId::new(4).unwrap();
    (observed.membership.failover.target, observed.membership.failover.timeline) =
        (Some("db-3".into()), timeline);
    observed.reports.insert(3, report(3, InstanceState::Primary, timeline));
    let membership = decide(&observed).membership;
    assert_eq!(membership.failover.current.as_deref(), Some("db-3"));
    let timelines: Vec<_> = membership
        .timelines
        .iter()
        .map(|one| (one.number.get(), one.fork_lsn.map(|lsn| lsn.0), one.member.as_str()))
        .collect();
    let expected = [(1, None, ""), (2, Some(0x1000), ""), (3, Some(0x2000), ""), (4, Some(0x3000), "db-3")];
    assert_eq!(timelines, expected);
}

#[test]
fn pod_that_ends_loses_the_label_of_the_primary_and_gets_none() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.pods.get_mut(&1).unwrap().is_terminating = true;
    assert_eq!(decide(&observed).actions, [], "it is the primary until its Lease is free");
    observed.failover.lease_expires_in = Duration::ZERO;
    assert!(decide(&observed).actions.contains(&no_longer_primary()));
    observed.pods.get_mut(&1).unwrap().role = None;
    assert!(!decide(&observed).actions.contains(&no_longer_primary()));
}

/// Returns three members that run, in which these Pods are of a former spec.
fn outdated(serials: &[Serial]) -> Observed {
    let mut observed = running(3, &[1, 2, 3]);
    for serial in serials {
        observed.pods.get_mut(serial).unwrap().revision = "old".into();
    }
    observed.switchover.successors = vec!["db-2".into(), "db-3".into()];
    observed
}

/// Returns the change of the label of the former primary.
fn no_longer_primary() -> Action {
    Action::SetRole(1, "p-1".into(), Role::Replica)
}

#[test]
fn standbys_are_replaced_one_at_a_time_before_the_primary() {
    let observed = outdated(&[1, 2, 3]);
    let decision = decide(&observed);
    assert_eq!(decision.actions, [Action::DeletePod(3, "p-3".into())]);
    assert_eq!(decision.outdated, [1, 2, 3]);
    assert_eq!(decision.membership, observed.membership);

    let mut starting = outdated(&[1, 2]);
    starting.synchronous.streaming.retain(|name| name != "db-3");
    assert_eq!(decide(&starting).actions, [], "the new Pod does not stream yet");
    assert_eq!(decide(&outdated(&[1, 2])).actions, [Action::DeletePod(2, "p-2".into())]);

    let decision = decide(&outdated(&[1]));
    let failover = &decision.membership.failover;
    assert_eq!((failover.target.as_ref(), failover.epoch), (None, 2), "a switchover begins");
    assert_eq!(failover.switchover.as_deref(), Some("any"));
    assert_eq!(decision.actions, [no_longer_primary()], "the primary stops before the others are sealed");
}

#[test]
fn primary_of_a_manual_update_waits_for_a_request() {
    let mut observed = outdated(&[1]);
    observed.updates.primary = PrimaryUpdate::Manual;
    let decision = decide(&observed);
    assert_eq!((decision.actions, decision.membership), (Vec::new(), observed.membership.clone()));
    observed.switchover.request = Some("db-3".into());
    let decision = decide(&observed);
    assert_eq!(decision.membership.failover.switchover.as_deref(), Some("db-3"));
    assert_eq!(decision.actions, [no_longer_primary(), Action::ForgetSwitchover("db-3".into())]);
}

#[test]
fn pod_that_does_not_work_is_replaced_at_once_if_it_is_of_a_former_spec() {
    let mut observed = outdated(&[1, 2]);
    observed.pods.get_mut(&2).unwrap().is_ready = false;
    assert_eq!(decide(&observed).actions, [], "it answers, so it may have rows that others lack");
    observed.reports.remove(&2);
    assert_eq!(decide(&observed).actions, [Action::DeletePod(2, "p-2".into())]);
    observed.pods.get_mut(&2).unwrap().revision = "new".into();
    assert_eq!(decide(&observed).actions, [], "the spec is the present one");
    observed.updates.revision = None;
    assert_eq!(decide(&observed).outdated, [0; 0], "no Pod can be created now");
}

#[test]
fn member_that_waits_for_a_restart_is_replaced() {
    let mut observed = outdated(&[]);
    observed.reports.get_mut(&3).unwrap().pending_restart = true;
    let decision = decide(&observed);
    assert_eq!((decision.actions, decision.outdated), (vec![Action::DeletePod(3, "p-3".into())], vec![3]));
    observed.reports.get_mut(&3).unwrap().pod_uid = "former".into();
    assert_eq!(decide(&observed).actions, [], "the report is that of a former Pod");
}

#[test]
fn single_member_restarts() {
    let mut observed = running(1, &[1]);
    observed.pods.get_mut(&1).unwrap().revision = "old".into();
    assert_eq!(decide(&observed).actions, [Action::DeletePod(1, "p-1".into())]);
    observed.updates.primary = PrimaryUpdate::Manual;
    assert_eq!(decide(&observed).actions, []);
    // A Pod that cannot be scheduled does no work that a deletion interrupts.
    observed.pods.get_mut(&1).unwrap().is_ready = false;
    observed.reports.clear();
    assert_eq!(decide(&observed).actions, [Action::DeletePod(1, "p-1".into())]);
}

#[test]
fn request_is_acted_on_once() {
    let mut observed = outdated(&[]);
    let request = |observed: &mut Observed, name: &str| observed.switchover.request = Some(name.into());
    request(&mut observed, "db-9");
    let decision = decide(&observed);
    assert_eq!((decision.membership, decision.actions), (observed.membership.clone(), Vec::new()));
    request(&mut observed, "db-1");
    let decision = decide(&observed);
    assert_eq!(decision.membership.failover.epoch, 1, "it is the primary already");
    assert_eq!(decision.actions, [Action::ForgetSwitchover("db-1".into())]);
    observed.membership = decision.membership;
    assert_eq!(decide(&observed).membership, observed.membership, "the annotation is still there");
    observed.switchover.request = None;
    assert_eq!(decide(&observed).membership.failover.switchover, None);
}

#[test]
fn request_works_although_failover_is_disabled() {
    let mut observed = outdated(&[]);
    observed.failover.enabled = false;
    observed.switchover.request = Some("db-2".into());
    let decision = decide(&observed);
    assert_eq!((decision.membership.failover.epoch, decision.obstacle), (2, None));
}

#[test]
fn standbys_are_sealed_after_the_primary_has_stopped() {
    let mut observed = outdated(&[]);
    observed.switchover.request = Some("any".into());
    observed.membership = decide(&observed).membership;
    observed.switchover.request = None;
    observed.failover.since_change = Duration::from_secs(1);
    for state in [InstanceState::Primary, InstanceState::Stopping] {
        observed.reports.get_mut(&1).unwrap().state = state;
        assert_eq!(decide(&observed).actions, [no_longer_primary()], "{state:?}");
    }
    observed.reports.get_mut(&1).unwrap().state = InstanceState::Hold;
    let actions = decide(&observed).actions;
    let seals = actions.iter().filter(|action| matches!(action, Action::Seal(_, 2))).count();
    assert_eq!(seals, 3, "{actions:?}");
}

#[test]
fn switchover_waits_for_the_standbys_after_a_restart_of_the_manager() {
    // The former primary answers first: it is sealed, and has every acknowledged row.
    let mut observed = sealed();
    observed.pods = running(3, &[1, 2, 3]).pods;
    observed.membership.failover.switchover = Some("any".into());
    let standbys = [2, 3].map(|serial| (serial, observed.reports.remove(&serial).unwrap()));
    let mut former = standbys[0].1.clone();
    (former.member, former.pod_uid) = ("db-1".to_owned(), "p-1".to_owned());
    observed.reports.insert(1, former);
    observed.failover.since_change = Duration::from_secs(1);
    let target = |observed: &Observed| decide(observed).membership.failover.target;
    assert_eq!(target(&observed), None);
    let mut answered = observed.clone();
    answered.reports.extend(standbys);
    assert_eq!(target(&answered).as_deref(), Some("db-3"));
    // Standbys that are gone, or silent for long, do not leave the cluster without a primary.
    observed.failover.since_change = Duration::from_secs(10);
    assert_eq!(target(&observed).as_deref(), Some("db-1"));
    observed.failover.since_change = Duration::from_secs(1);
    observed.pods.retain(|serial, _| *serial == 1);
    assert_eq!(target(&observed).as_deref(), Some("db-1"));
}

#[test]
fn standby_that_is_being_sealed_is_awaited() {
    let mut observed = sealed();
    let position = |observed: &mut Observed, serial, lsn| {
        observed.reports.get_mut(&serial).unwrap().positions.received = lsn;
    };
    observed.membership.failover.reigns[0].configuration = configuration(2, &["db-2", "db-3"]);
    observed.failover.since_change = Duration::from_secs(1);
    let mut told = observed.clone();
    told.reports.get_mut(&3).unwrap().state = InstanceState::Standby;
    assert_eq!(target(&decide(&told)), None, "db-3 has only stored the epoch");
    position(&mut observed, 3, None);
    assert_eq!(target(&decide(&observed)), None, "db-3 may have more");
    let mut told = observed.clone();
    position(&mut told, 3, Some(Lsn(3)));
    assert_eq!(target(&decide(&told)), Some("db-3"));
    observed.failover.since_change = Duration::from_secs(10);
    assert_eq!(target(&decide(&observed)), Some("db-2"), "it is silent for long");
    // A former primary recovers first.
    let mut former = observed.reports.remove(&3).unwrap();
    (former.member, former.pod_uid) = ("db-1".to_owned(), "p-1".to_owned());
    observed.reports.insert(1, former);
    observed.pods = running(3, &[1, 2, 3]).pods;
    observed.failover.since_change = Duration::from_secs(1);
    assert_eq!(target(&decide(&observed)), Some("db-2"));
}

#[test]
fn volumes_grow_also_those_of_members_that_are_down_and_never_shrink() {
    let mut observed = running(3, &[1, 2, 3]);
    observed.storage.size = "2Gi".parse().ok();
    observed.pods.remove(&3);
    observed.volumes.get_mut(&2).unwrap().size = claim("4Gi");
    let grow = |serial: Serial| Action::GrowVolume(serial, format!("v-{serial}"));
    let decision = decide(&observed);
    assert_eq!(decision.actions, [Action::CreatePod(3), grow(1), grow(3)]);
    assert_eq!(decision.membership, observed.membership);

    observed.storage.refused = [3].into();
    observed.volumes.get_mut(&1).unwrap().size.is_bound = false;
    assert_eq!(decide(&observed).actions, [Action::CreatePod(3)], "not bound, and refused a moment ago");
    observed.storage = Storage::default();
    assert_eq!(decide(&observed).actions, [Action::CreatePod(3)], "no readable size");
}

#[test]
fn volume_that_is_not_that_of_the_member_does_not_grow() {
    for change in [
        |volume: &mut Volume| volume.is_ours = false,
        |volume: &mut Volume| volume.is_terminating = true,
        |volume: &mut Volume| volume.uid = "another".to_owned(),
    ] {
        let mut observed = running(2, &[1, 2]);
        observed.storage.size = "2Gi".parse().ok();
        change(observed.volumes.get_mut(&2).unwrap());
        assert_eq!(decide(&observed).actions, [Action::GrowVolume(1, "v-1".into())]);
    }
}

/// Returns a cluster whose primary has a full volume. The others are sealed.
fn full_primary() -> Observed {
    let mut observed = sealed();
    observed.pods.insert(1, MemberPod { role: Some(Role::Replica), ..pod(1) });
    observed.reports.insert(1, full(1));
    observed
}

/// Returns the report of a member with a full volume.
fn full(serial: Serial) -> InstanceReport {
    let mut report = report(serial, InstanceState::DiskFull, TimelineId::FIRST);
    report.disk_full = true;
    report
}

/// Lets a full member tell what it has.
fn tell(report: &mut InstanceReport, received: u64) {
    report.state = InstanceState::Sealed;
    report.sealed_epoch = Some(2);
    report.positions.received = Some(Lsn(received));
}

fn target(decision: &Decision) -> Option<&str> {
    decision.membership.failover.target.as_deref()
}

#[test]
fn full_primary_is_replaced_and_not_asked() {
    let decision = decide(&full_primary());
    assert_eq!((target(&decision), &decision.obstacle), (Some("db-3"), &None));
    assert_eq!(decision.actions, []);
}

#[test]
fn cluster_waits_while_all_members_are_full() {
    let mut observed = full_primary();
    observed.reports.insert(2, full(2));
    observed.reports.insert(3, full(3));
    let decision = decide(&observed);
    let names = ["db-1", "db-2", "db-3"].map(str::to_owned).to_vec();
    assert_eq!(decision.obstacle, Some(FailoverObstacle::DiskFull(names)));
    assert_eq!((decision.membership, decision.actions), (observed.membership.clone(), vec![]));

    observed.reports.remove(&3);
    let names = ["db-1", "db-2"].map(str::to_owned).to_vec();
    assert_eq!(decide(&observed).obstacle, Some(FailoverObstacle::DiskFull(names)), "the third is silent");
}

#[test]
fn full_members_tell_what_they_have_if_the_others_do_not_suffice() {
    let mut observed = full_primary();
    observed.reports.insert(2, full(2));
    let decision = decide(&observed);
    assert_eq!(target(&decision), None, "db-3 alone may lack rows");
    assert_eq!(decision.actions, [Action::Seal(1, 2), Action::Seal(2, 2)]);

    for serial in [1, 2] {
        observed.reports.get_mut(&serial).unwrap().sealed_epoch = Some(2);
    }
    assert!(matches!(decide(&observed).obstacle, Some(FailoverObstacle::NoQuorum(_))), "they start");
    tell(observed.reports.get_mut(&2).unwrap(), 3);
    assert_eq!(target(&decide(&observed)), Some("db-3"), "it has all that db-2 has");
    tell(observed.reports.get_mut(&2).unwrap(), 4);
    let decision = decide(&observed);
    let names = ["db-1", "db-2"].map(str::to_owned).to_vec();
    assert_eq!(target(&decision), None);
    assert_eq!(decision.obstacle, Some(FailoverObstacle::DiskFull(names)));
}

#[test]
fn full_members_are_not_asked_while_others_are_about_to_answer() {
    let mut observed = full_primary();
    observed.failover.since_change = Duration::from_secs(9);
    observed.reports.get_mut(&2).unwrap().positions.received = None;
    assert_eq!(decide(&observed).actions, []);
    observed.failover.since_change = Duration::from_secs(10);
    assert_eq!(decide(&observed).actions, [Action::Seal(1, 2)]);
}

/// Returns the archive of another cluster.
pub(super) fn source() -> RecoveryStatus {
    let secret = |key: &str| serde_json::json!({"name": "store", "key": key});
    let source = serde_json::json!({
        "objectStore": {
            "url": "s3://backups", "serverName": "old",
            "credentials": {"accessKeyID": secret("id"), "secretAccessKey": secret("key")},
        },
    });
    let source =
        serde_json::from_value(serde_json::json!({"done": false, "objectStore": source["objectStore"]}));
    source.unwrap()
}

/// Returns a new cluster that recovers from an archive.
fn recovering() -> Observed {
    Observed { recovery: Some(Ok(source())), ..observed(1) }
}

#[test]
fn recovered_member_is_sealed_and_promoted_once_it_has_recovered() {
    let mut observed = recovering();
    let mut step = |change: &mut dyn FnMut(&mut Observed)| {
        change(&mut observed);
        let mut decision = decide(&observed);
        observed.membership = decision.membership.clone();
        decision.actions.retain(|action| !matches!(action, Action::Record(..)));
        decision
    };
    assert_eq!(step(&mut |_| {}).actions, [Action::CreateVolume(1)]);
    let created = step(&mut |it| drop(it.volumes.insert(1, volume(1))));
    assert_eq!(created.actions, [Action::CreatePod(1)]);
    assert!(created.membership.is_recovering() && created.membership.failover.target.is_none());
    let replaying = report(1, InstanceState::Restore, TimelineId::FIRST);
    let waits = step(&mut |it| {
        it.pods.insert(1, MemberPod { is_ready: false, role: Some(Role::Replica), ..pod(1) });
        it.reports.insert(1, replaying.clone());
    });
    assert_eq!((waits.actions, waits.membership.failover.target), (vec![], None));
    assert!(waits.membership.system_id.is_some(), "it has data");
    let standby = report(1, InstanceState::Standby, TimelineId::FIRST);
    let sealing = step(&mut |it| drop(it.reports.insert(1, standby.clone())));
    assert_eq!(sealing.actions, [Action::Seal(1, 1)]);
    let mut sealed = report(1, InstanceState::Sealed, TimelineId::FIRST);
    (sealed.sealed_epoch, sealed.positions.received) = (Some(1), Some(Lsn(0x50)));
    let promoting = step(&mut |it| drop(it.reports.insert(1, sealed.clone()))).membership;
    assert_eq!((promoting.failover.target.as_deref(), promoting.failover.timeline.get()), (Some("db-1"), 2));
    assert!(promoting.is_recovering());
    let primary = report(1, InstanceState::Primary, TimelineId::new(2).unwrap());
    let done = step(&mut |it| drop(it.reports.insert(1, primary.clone()))).membership;
    assert!(!done.is_recovering() && done.is_bootstrapped());
}

#[test]
fn recovery_uses_no_volumes_of_a_former_cluster() {
    let mut observed = recovering();
    let former =
        Volume { is_ours: false, record: Some(crate::record::tests::record("former", &[1])), ..volume(1) };
    observed.volumes.insert(1, former);
    let decision = decide(&observed);
    assert_eq!(decision.adoption_problem, Some(AdoptionProblem::Recovery(vec![1])));
    assert!(decision.actions.is_empty() && decision.membership.members.is_empty());
    observed.former = FormerVolumes::Fresh;
    assert_eq!(decide(&observed).actions, [Action::CreateVolume(2)]);
}

#[test]
fn recovery_without_a_source_waits() {
    let mut observed = recovering();
    let problem = RecoveryProblem::NoBackup("first".into());
    observed.recovery = Some(Err(problem.clone()));
    let decision = decide(&observed);
    assert_eq!(decision.recovery_problem, Some(problem));
    assert!(decision.actions.is_empty() && decision.membership.members.is_empty());
}
