//! The life of members, step by step.

use super::*;
use crate::{
    lsn::Lsn,
    space::{Ballast, Space},
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    volume_state::{RecoveryState, VolumeState},
};

const SYSTEM: SystemIdentifier = SystemIdentifier(7);
const NOW: Moment = Duration::from_secs(100);

fn acquire(epoch: u64) -> LeaseIntent {
    LeaseIntent::Acquire { epoch, expired: None }
}

fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

fn history(number: u32, text: &str) -> History {
    History::parse(timeline(number), text).unwrap()
}

/// Returns a cluster in which `db-1` is the primary on timeline 1.
fn view() -> ClusterView {
    ClusterView {
        epoch: 1,
        target: Some("db-1".into()),
        current: Some("db-1".into()),
        expired_lease: None,
        timeline: timeline(1),
        primary_history: Some(History::first()),
        create_on: None,
        recovers: false,
        system_identifier: Some(SYSTEM),
        fenced: false,
        upgrade: None,
        fencing: true,
    }
}

fn whole(history: History) -> DataDirectory {
    DataDirectory::Whole(ControlData { system_identifier: SYSTEM, history, end: Some(Lsn(0x50)) })
}

/// Returns a member with data on timeline 1, on which PostgreSQL does not run.
fn member(name: &str) -> Observed {
    let mut volume = VolumeState::empty("c", "c");
    volume.system_identifier = Some(SYSTEM);
    Observed {
        now: NOW,
        member: name.into(),
        volume_uid: format!("volume of {name}"),
        cluster: Some(view()),
        lease: LeaseView::default(),
        volume,
        space: Space::default(),
        data: whole(History::first()),
        server: Server::Down,
        failed_starts: 0,
        task: None,
        recovered: false,
        versions: MajorVersions { programs: 17, data: Some(17), upgrade_failed: false },
        seal_requested: None,
    }
}

/// Returns the primary.
fn primary() -> Observed {
    let mut observed = member("db-1");
    observed.volume.own_timeline = Some(timeline(1));
    observed.server = Server::Primary { responsive: true };
    observed.lease = LeaseView { leads_until: NOW + Duration::from_secs(5), epoch: Some(1) };
    observed
}

/// Returns a standby that follows the primary.
fn standby(name: &str) -> Observed {
    Observed { server: Server::Standby { upstream: Some("db-1".into()) }, ..member(name) }
}

impl Observed {
    fn view(&mut self) -> &mut ClusterView {
        self.cluster.as_mut().unwrap()
    }

    fn hold_lease(&mut self, epoch: u64) {
        self.lease = LeaseView { leads_until: NOW + Duration::from_secs(5), epoch: Some(epoch) };
    }

    fn command(&self) -> Option<Command> {
        plan(self).command
    }
}

#[test]
fn first_member_creates_the_database_and_starts_with_the_lease() {
    let mut first = member("db-1");
    first.volume = VolumeState::empty("c", "c");
    first.data = DataDirectory::Missing;
    let view = first.view();
    (view.current, view.primary_history, view.system_identifier) = (None, None, None);
    assert_eq!(plan(&first).problem, Some(Problem::TargetWithoutData));
    first.view().create_on = Some("volume of db-1".into());
    assert_eq!(first.command(), Some(Command::CreateDatabase));

    first.volume.system_identifier = Some(SYSTEM);
    first.volume.own_timeline = Some(timeline(1));
    first.data = whole(History::first());
    assert_eq!((plan(&first).command, plan(&first).lease), (None, acquire(1)));
    first.hold_lease(1);
    assert_eq!(first.command(), Some(Command::StartPrimary));
    first.server = Server::Primary { responsive: true };
    let running = plan(&first);
    assert_eq!(
        (running.state, running.command, running.lease),
        (InstanceState::Primary, None, LeaseIntent::Renew)
    );
}

#[test]
fn database_is_created_only_once_and_only_on_the_named_volume() {
    let mut first = member("db-1");
    first.volume = VolumeState::empty("c", "c");
    first.data = DataDirectory::Missing;
    first.view().create_on = Some("volume of db-1".into());
    assert_eq!(plan(&first).problem, Some(Problem::TargetWithoutData), "the cluster has a database");
    first.view().system_identifier = None;
    first.view().create_on = Some("another volume".into());
    assert_eq!(plan(&first).problem, Some(Problem::TargetWithoutData));
    first.view().create_on = Some("volume of db-1".into());
    first.volume.system_identifier = Some(SYSTEM);
    assert_eq!(plan(&first).problem, Some(Problem::DataLost), "the volume had a database");
}

#[test]
fn new_member_clones_the_primary_and_follows_it() {
    let mut second = member("db-2");
    second.volume = VolumeState::empty("c", "c");
    second.data = DataDirectory::Missing;
    assert_eq!(second.command(), Some(Command::Clone { primary: "db-1".into() }));
    second.data = whole(History::first());
    assert_eq!(second.command(), Some(Command::StartStandby { upstream: Some("db-1".into()) }));
    second.server = Server::Standby { upstream: Some("db-1".into()) };
    assert_eq!(plan(&second), Plan::new(InstanceState::Standby));
    second.view().current = None;
    assert_eq!(plan(&second), Plan::new(InstanceState::Standby), "it keeps its upstream");
}

#[test]
fn primary_without_lease_is_killed_and_hung_primary_does_not_renew() {
    let mut primary = primary();
    primary.server = Server::Primary { responsive: false };
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::Keep));
    primary.now = primary.lease.leads_until;
    assert_eq!(primary.command(), Some(Command::Stop(StopMode::Immediate)));
    primary.cluster = None;
    assert_eq!(primary.command(), Some(Command::Stop(StopMode::Immediate)));
    primary.cluster = Some(ClusterView { fencing: false, ..view() });
    assert_eq!(primary.command(), None, "a single member goes on");
}

#[test]
fn failover_seals_promotes_and_retargets() {
    let failing_over = ClusterView { epoch: 2, target: None, ..view() };
    let mut second = standby("db-2");
    second.seal_requested = Some(2);
    assert_eq!(second.command(), Some(Command::Seal { epoch: 2 }), "also if the view is behind");
    second.volume.sealed_epoch = Some(2);
    second.server = Server::Standby { upstream: None };
    assert_eq!(plan(&second), Plan::new(InstanceState::Sealed), "the old primary is not followed");
    second.cluster = Some(failing_over.clone());
    assert_eq!(plan(&second), Plan::new(InstanceState::Sealed));

    let chosen = ClusterView { target: Some("db-2".into()), timeline: timeline(3), ..failing_over };
    let mut third = second.clone();
    third.member = "db-3".into();
    (second.cluster, third.cluster) = (Some(chosen.clone()), Some(chosen.clone()));
    assert_eq!((plan(&second).command, plan(&second).lease), (None, acquire(2)));
    assert_eq!(plan(&third), Plan::new(InstanceState::Sealed));
    second.hold_lease(2);
    assert_eq!(second.command(), Some(Command::Promote { timeline: timeline(3) }));
    second.volume.promotion_begun = Some(timeline(3));
    second.task = Some(Task::Promote);
    assert_eq!(plan(&second).state, InstanceState::Promoting);

    let confirmed = ClusterView {
        current: Some("db-2".into()),
        primary_history: Some(history(3, "1\t0/50\n")),
        ..chosen
    };
    third.cluster = Some(confirmed);
    assert_eq!(third.command(), Some(Command::Follow { upstream: "db-2".into() }));
}

#[test]
fn former_primary_stops_releases_and_returns_as_a_standby() {
    let mut former = primary();
    former.view().epoch = 2;
    former.view().target = None;
    assert_eq!(former.command(), Some(Command::Stop(StopMode::Fast)));
    former.server = Server::Stopping { mode: StopMode::Fast, since: NOW };
    assert_eq!(plan(&former).command, None);
    former.now = NOW + FAST_SHUTDOWN;
    assert_eq!(former.command(), Some(Command::Stop(StopMode::Immediate)));
    (former.server, former.now) = (Server::Down, NOW);
    assert_eq!((plan(&former).command, plan(&former).lease), (None, LeaseIntent::Release));

    former.lease = LeaseView::default();
    let view = former.view();
    (view.target, view.current) = (Some("db-2".into()), Some("db-2".into()));
    view.timeline = timeline(2);
    view.primary_history = None;
    assert_eq!(plan(&former), Plan::new(InstanceState::Hold), "the fork is not known yet");
    for (fork, command) in [
        ("1\t0/50\n", Command::StartStandby { upstream: Some("db-2".into()) }),
        ("1\t0/4F\n", Command::Rewind { primary: "db-2".into() }),
    ] {
        former.view().primary_history = Some(history(2, fork));
        assert_eq!(former.command(), Some(command), "fork at {fork}");
    }
}

#[test]
fn member_that_crashed_recovers_before_it_is_compared() {
    let mut former = member("db-1");
    let view = former.view();
    (view.target, view.current) = (Some("db-2".into()), Some("db-2".into()));
    former.data =
        DataDirectory::Whole(ControlData { system_identifier: SYSTEM, history: History::first(), end: None });
    let follow = Command::StartStandby { upstream: Some("db-2".into()) };
    assert_eq!(former.command(), Some(follow), "it is on the timeline of the primary");

    let view = former.view();
    (view.timeline, view.primary_history) = (timeline(2), Some(history(2, "1\t0/4F\n")));
    assert_eq!(former.command(), Some(Command::StartStandby { upstream: None }));
    former.server = Server::Standby { upstream: None };
    assert_eq!(plan(&former), Plan::new(InstanceState::Standby), "it replays");
    former.data = whole(History::first());
    assert_eq!(former.command(), Some(Command::Stop(StopMode::Fast)));
    former.server = Server::Down;
    assert_eq!(former.command(), Some(Command::Rewind { primary: "db-2".into() }));
}

#[test]
fn standby_that_got_wal_of_the_former_primary_stops() {
    let mut third = standby("db-3");
    let view = third.view();
    (view.target, view.current) = (Some("db-2".into()), Some("db-2".into()));
    (view.timeline, view.primary_history) = (timeline(2), Some(history(2, "1\t0/4F\n")));
    third.server = Server::Standby { upstream: Some("db-2".into()) };
    assert_eq!(third.command(), Some(Command::Stop(StopMode::Fast)));
}

#[test]
fn only_the_author_of_a_timeline_writes_on_it() {
    let mut other = member("db-2");
    other.view().target = Some("db-2".into());
    other.hold_lease(1);
    assert_eq!(plan(&other).problem, Some(Problem::TimelineOfAnother));
    other.volume.own_timeline = Some(timeline(1));
    assert_eq!(other.command(), Some(Command::StartPrimary));
    other.data = whole(history(2, "1\t0/40\n"));
    assert_eq!(plan(&other).problem, Some(Problem::LaterTimeline));
}

#[test]
fn interrupted_promotion_waits_for_a_higher_claim() {
    let mut second = member("db-2");
    second.view().target = Some("db-2".into());
    second.view().timeline = timeline(2);
    second.volume.promotion_begun = Some(timeline(2));
    second.hold_lease(1);
    assert_eq!(plan(&second).problem, Some(Problem::InterruptedPromotion));
    second.view().timeline = timeline(3);
    assert_eq!(second.command(), Some(Command::StartStandby { upstream: None }));
    second.server = Server::Standby { upstream: None };
    assert_eq!(second.command(), Some(Command::Promote { timeline: timeline(3) }));
    // The promotion was durable, and only its confirmation was lost.
    second.volume.promotion_begun = Some(timeline(3));
    second.data = whole(history(3, "1\t0/50\n"));
    second.server = Server::Down;
    assert_eq!(second.command(), Some(Command::StartPrimary));
}

#[test]
fn lease_of_an_older_epoch_does_not_count() {
    let mut primary = primary();
    primary.view().epoch = 3;
    assert_eq!(primary.command(), Some(Command::Stop(StopMode::Fast)));
    primary.server = Server::Down;
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::Release));
    primary.lease = LeaseView::default();
    assert_eq!(plan(&primary).lease, acquire(3));
}

#[test]
fn fenced_member_and_data_of_another_system_are_stopped() {
    let mut fenced = standby("db-2");
    fenced.view().fenced = true;
    assert_eq!(fenced.command(), Some(Command::Stop(StopMode::Fast)));
    fenced.server = Server::Down;
    assert_eq!(plan(&fenced), Plan::new(InstanceState::Fenced));

    let mut other = standby("db-2");
    other.view().system_identifier = Some(SystemIdentifier(8));
    assert_eq!(other.command(), Some(Command::Stop(StopMode::Fast)));
    other.server = Server::Down;
    assert_eq!(plan(&other), Plan::problem(Problem::OtherSystem));
}

#[test]
fn target_that_does_not_start_leaves_the_lease_to_others() {
    let mut first = member("db-1");
    first.volume.own_timeline = Some(timeline(1));
    first.hold_lease(1);
    first.failed_starts = 2;
    assert_eq!(first.command(), Some(Command::StartPrimary));
    first.failed_starts = 3;
    assert_eq!(plan(&first), Plan { lease: LeaseIntent::Release, ..Plan::problem(Problem::DoesNotStart) });
    first.view().fencing = false;
    assert_eq!(first.command(), Some(Command::StartPrimary), "there is nobody else");
}

#[test]
fn data_that_are_not_whole_are_never_started() {
    let mut second = member("db-2");
    second.volume.rewind_begun = true;
    assert_eq!(plan(&second), Plan::problem(Problem::RewindInterrupted));
    second.view().target = Some("db-2".into());
    second.hold_lease(1);
    assert_eq!((plan(&second).command, plan(&second).lease), (None, LeaseIntent::Release));
}

#[test]
fn seals_of_the_past_are_ignored_and_a_primary_stops_first() {
    let mut second = standby("db-2");
    second.view().epoch = 5;
    second.seal_requested = Some(4);
    assert_eq!(second.command(), None);
    second.seal_requested = Some(6);
    second.volume.sealed_epoch = Some(6);
    assert!(!matches!(second.command(), Some(Command::Seal { .. })));

    let mut primary = primary();
    primary.seal_requested = Some(2);
    assert_eq!(primary.command(), None, "the view is behind");
    primary.view().epoch = 2;
    primary.view().target = None;
    assert_eq!(primary.command(), Some(Command::Stop(StopMode::Fast)));
    primary.server = Server::Down;
    assert_eq!(primary.command(), Some(Command::Seal { epoch: 2 }));
}

#[test]
fn instance_that_cannot_read_the_cluster_changes_nothing() {
    for server in [Server::Down, Server::Standby { upstream: None }] {
        let observed = Observed { cluster: None, server, ..member("db-2") };
        assert_eq!(observed.command(), None);
    }
    let primary = Observed { cluster: None, ..primary() };
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::Renew));
}

/// The operator may have promoted another member by what the seal told it.
#[test]
fn sealed_member_does_not_lead_an_earlier_epoch() {
    let mut former = primary();
    former.server = Server::Down;
    assert_eq!(former.command(), Some(Command::StartPrimary));
    former.volume.sealed_epoch = Some(2);
    let next = plan(&former);
    assert_eq!((next.command, next.lease), (None, LeaseIntent::Release));

    let mut writing = primary();
    writing.volume.sealed_epoch = Some(2);
    assert_eq!(writing.command(), Some(Command::Stop(StopMode::Fast)));
    writing.view().epoch = 2;
    writing.hold_lease(2);
    assert_eq!(writing.command(), None, "it is the target of the epoch of its seal");
}

/// Returns a volume of 10 GiB with this number of free MiB.
fn space(free: u64, ballast: Ballast) -> Space {
    Space { total: 10 << 30, free: free << 20, ballast, ..Space::default() }
}

#[test]
fn full_primary_spends_its_ballast_stops_and_releases_the_lease() {
    let mut primary = primary();
    primary.space = space(63, Ballast::Whole);
    let stop = plan(&primary);
    assert_eq!((stop.command, stop.ballast), (Some(Command::Stop(StopMode::Fast)), BallastIntent::Spend));
    assert_eq!((stop.lease, stop.problem), (LeaseIntent::Keep, Some(Problem::DiskFull)));

    primary.server = Server::Stopping { mode: StopMode::Fast, since: NOW };
    primary.space = space(127, Ballast::Spent);
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::Keep));
    primary.server = Server::Down;
    let down = plan(&primary);
    assert_eq!((down.command, down.state, down.lease), (None, InstanceState::DiskFull, LeaseIntent::Release));
}

#[test]
fn full_primary_starts_again_with_its_lease_if_the_stop_made_room() {
    let mut primary = primary();
    primary.server = Server::Down;
    primary.space = space(256, Ballast::Spent);
    let start = plan(&primary);
    assert_eq!((start.command, start.ballast), (Some(Command::StartPrimary), BallastIntent::Allocate));
    assert_eq!(start.lease, LeaseIntent::Renew);
}

#[test]
fn single_member_stops_too() {
    let mut primary = primary();
    primary.view().fencing = false;
    primary.space = space(0, Ballast::Missing);
    assert_eq!(primary.command(), Some(Command::Stop(StopMode::Fast)));
    primary.server = Server::Down;
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::Release));
    primary.lease = LeaseView::default();
    primary.space = space(255, Ballast::Spent);
    assert_eq!((plan(&primary).command, plan(&primary).lease), (None, LeaseIntent::None));
    primary.space = space(256, Ballast::Spent);
    assert_eq!(plan(&primary).lease, acquire(1));
}

#[test]
fn full_standby_stops_and_returns_when_there_is_room() {
    let mut second = standby("db-2");
    second.space = space(63, Ballast::Whole);
    assert_eq!(second.command(), Some(Command::Stop(StopMode::Fast)));
    (second.server, second.space) = (Server::Down, space(255, Ballast::Spent));
    assert_eq!((second.command(), plan(&second).state), (None, InstanceState::DiskFull));
    second.space = space(256, Ballast::Spent);
    assert_eq!(second.command(), Some(Command::StartStandby { upstream: Some("db-1".into()) }));
}

/// A failover may need what a full member has, and no other.
#[test]
fn full_member_tells_what_it_has_when_it_is_sealed() {
    let mut second = member("db-2");
    second.space = space(0, Ballast::Spent);
    (second.view().epoch, second.view().target) = (2, None);
    assert_eq!(second.command(), None, "nobody has asked");
    second.seal_requested = Some(2);
    assert_eq!(second.command(), Some(Command::Seal { epoch: 2 }));
    second.volume.sealed_epoch = Some(2);
    assert_eq!(second.command(), Some(Command::StartStandby { upstream: None }));
    second.server = Server::Standby { upstream: None };
    assert_eq!((second.command(), plan(&second).state), (None, InstanceState::Sealed));

    for target in ["db-1", "db-2"] {
        second.view().target = Some(target.into());
        assert_eq!(second.command(), Some(Command::Stop(StopMode::Fast)), "{target} is chosen");
    }
}

#[test]
fn copy_that_filled_the_volume_waits_for_more_space() {
    let mut second = member("db-2");
    second.volume = VolumeState::empty("c", "c");
    second.data = DataDirectory::Missing;
    second.space = space(8000, Ballast::Whole);
    second.space.too_few_for_copy = Some(second.space.for_copy());
    let next = plan(&second);
    assert_eq!((next.command, next.state), (None, InstanceState::DiskFull));
    assert_eq!(next.problem, Some(Problem::TooSmall));
    second.space.free += 64 << 20;
    assert_eq!(second.command(), Some(Command::Clone { primary: "db-1".into() }));
}

/// Returns a member that restores the database, and is not the target.
fn restoring() -> Observed {
    let mut member = member("db-1");
    member.volume = VolumeState::empty("c", "c");
    member.data = DataDirectory::Missing;
    let view = member.view();
    (view.target, view.current, view.primary_history, view.system_identifier) = (None, None, None, None);
    (view.create_on, view.recovers) = (Some("volume of db-1".into()), true);
    member
}

#[test]
fn database_is_restored_and_then_replayed_before_it_can_be_sealed() {
    let mut member = restoring();
    assert_eq!(plan(&member), Plan::with(InstanceState::Restore, Command::Restore));
    member.volume.system_identifier = Some(SYSTEM);
    member.volume.recovery = Some(RecoveryState { timeline: timeline(1), end: None });
    member.data = whole(History::first());
    member.view().system_identifier = Some(SYSTEM);
    let replays = Plan::with(InstanceState::Restore, Command::StartStandby { upstream: None });
    assert_eq!(plan(&member), replays);
    member.failed_starts = MAX_FAILED_STARTS;
    assert_eq!(plan(&member), Plan { problem: Some(Problem::RecoveryFails), ..replays });
    member.server = Server::Standby { upstream: None };
    assert_eq!(plan(&member), Plan::new(InstanceState::Restore));
    member.recovered = true;
    assert_eq!(plan(&member), Plan::new(InstanceState::Standby));
    member.seal_requested = Some(1);
    assert_eq!(member.command(), Some(Command::Seal { epoch: 1 }));
}

#[test]
fn target_that_started_again_is_promoted_only_after_its_recovery() {
    let mut member = restoring();
    (member.volume.system_identifier, member.volume.sealed_epoch) = (Some(SYSTEM), Some(1));
    member.volume.recovery = Some(RecoveryState { timeline: timeline(1), end: None });
    member.data = whole(History::first());
    let view = member.view();
    (view.target, view.timeline, view.system_identifier) = (Some("db-1".into()), timeline(2), Some(SYSTEM));
    member.hold_lease(1);
    assert_eq!(member.command(), Some(Command::StartStandby { upstream: None }));
    member.server = Server::Standby { upstream: None };
    assert_eq!(plan(&member), Plan { lease: LeaseIntent::Renew, ..Plan::new(InstanceState::Promoting) });
    member.recovered = true;
    assert_eq!(member.command(), Some(Command::Promote { timeline: timeline(2) }));
}

#[test]
fn data_that_have_not_recovered_are_not_taken_by_another_cluster() {
    let mut member = restoring();
    member.volume.system_identifier = Some(SYSTEM);
    member.volume.recovery = Some(RecoveryState { timeline: timeline(1), end: None });
    member.data = whole(History::first());
    member.view().recovers = false;
    assert_eq!(plan(&member).problem, Some(Problem::UnfinishedRecovery));
    member.volume.promotion_begun = Some(timeline(2));
    assert_eq!(plan(&member).problem, None, "they had recovered when the promotion began");
}

#[test]
fn one_member_upgrades_its_data_once_after_postgresql_has_stopped() {
    let mut first = member("db-1");
    first.cluster = Some(ClusterView { upgrade: Some(18), ..view() });
    first.server = Server::Primary { responsive: true };
    first.lease = LeaseView { leads_until: NOW + Duration::from_secs(9), epoch: Some(1) };
    assert_eq!(plan(&first).command, Some(Command::Stop(StopMode::Fast)));
    first.server = Server::Down;
    let wrong = plan(&first);
    assert_eq!((wrong.command, wrong.problem), (None, Some(Problem::OtherVersion)));
    first.versions = MajorVersions { programs: 17, data: None, upgrade_failed: false };
    let waits = plan(&first);
    assert_eq!((waits.command, waits.lease), (None, LeaseIntent::Release), "the Pod is about to be replaced");
    first.versions = MajorVersions { programs: 18, data: Some(17), upgrade_failed: false };
    let upgrades = plan(&first);
    assert_eq!((upgrades.command, upgrades.state), (Some(Command::Upgrade), InstanceState::Upgrade));
    let mut failed = first.clone();
    failed.versions.upgrade_failed = true;
    assert_eq!((plan(&failed).command, plan(&failed).state), (None, InstanceState::Hold));
    first.versions.data = Some(18);
    first.volume.system_identifier = Some(SystemIdentifier(8));
    let done = plan(&first);
    assert_eq!((done.command, done.state, done.problem), (None, InstanceState::Hold, None));
    first.data = DataDirectory::Missing;
    assert_eq!(plan(&first).problem, Some(Problem::DataLost));
    failed.versions.upgrade_failed = false;
    failed.space = Space { total: 1 << 30, ..Space::default() };
    assert_eq!(plan(&failed).problem, Some(Problem::DiskFull));
}
