//! What holds for every observation, also for impossible ones.

use proptest::{option, prelude::*, sample::select};

use super::*;
use crate::{
    lsn::Lsn,
    space::{Ballast, Space},
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    volume_state::{RecoveryState, VolumeState},
};

fn timelines() -> impl Strategy<Value = TimelineId> {
    (1..4_u32).prop_map(|number| TimelineId::new(number).unwrap())
}

fn histories() -> impl Strategy<Value = History> {
    (timelines(), 0x40..0x60_u64).prop_map(|(timeline, lsn)| {
        let text = if timeline == TimelineId::FIRST { String::new() } else { format!("1\t0/{lsn:X}\n") };
        History::parse(timeline, &text).unwrap()
    })
}

fn systems() -> impl Strategy<Value = SystemIdentifier> {
    prop_oneof![9 => Just(SystemIdentifier(7)), 1 => Just(SystemIdentifier(8))]
}

fn members() -> impl Strategy<Value = String> {
    select(vec!["db-1".to_owned(), "db-2".to_owned()])
}

prop_compose! {
    fn views()(
        epoch in 1..4_u64,
        target in option::of(members()),
        current in option::of(members()),
        timeline in timelines(),
        primary_history in option::of(histories()),
        create_on in option::of(select(vec!["v".to_owned(), "w".to_owned()])),
        system_identifier in option::of(systems()),
        fenced in prop::bool::weighted(0.1),
        (fencing, recovers) in (prop::bool::weighted(0.9), prop::bool::weighted(0.2)),
        upgrade in option::weighted(0.1, majors()),
    ) -> ClusterView {
        ClusterView {
            epoch, target, current, timeline, primary_history, create_on, recovers, system_identifier, fenced,
            fencing, upgrade,
            expired_lease: None,
        }
    }
}

fn majors() -> impl Strategy<Value = u16> {
    17..19_u16
}

fn servers() -> impl Strategy<Value = Server> {
    prop_oneof![
        Just(Server::Down),
        option::of(members()).prop_map(|upstream| Server::Standby { upstream }),
        any::<bool>().prop_map(|responsive| Server::Primary { responsive }),
        (select(vec![StopMode::Fast, StopMode::Immediate]), 0..30_u64)
            .prop_map(|(mode, since)| Server::Stopping { mode, since: Duration::from_secs(since) }),
    ]
}

fn tasks() -> impl Strategy<Value = Option<Task>> {
    let tasks = select(vec![
        Task::CreateDatabase,
        Task::Restore,
        Task::Clone,
        Task::Rewind,
        Task::Promote,
        Task::Upgrade,
    ]);
    prop_oneof![9 => Just(None), 1 => tasks.prop_map(Some)]
}

prop_compose! {
    fn volumes()(
        system_identifier in option::of(systems()),
        sealed_epoch in option::of(1..4_u64),
        promotion_begun in option::of(timelines()),
        own_timeline in option::of(timelines()),
        recovery in option::weighted(0.2, timelines()),
    ) -> VolumeState {
        let mut volume = VolumeState::empty("c", "c");
        volume.system_identifier = system_identifier;
        volume.sealed_epoch = sealed_epoch;
        volume.promotion_begun = promotion_begun;
        volume.own_timeline = own_timeline;
        volume.recovery = recovery.map(|timeline| RecoveryState { timeline, end: None });
        volume
    }
}

fn spaces() -> impl Strategy<Value = Space> {
    let ballast = select(vec![Ballast::Missing, Ballast::Whole, Ballast::Spent]);
    (0..2_u64, 0..20_u64, ballast, option::of(0..20_u64)).prop_map(|(known, free, ballast, copy)| Space {
        total: known << 30,
        free: free << 24,
        temporary: 0,
        ballast,
        too_few_for_copy: copy.map(|free| free << 24),
    })
}

prop_compose! {
    fn observations()(
        cluster in option::weighted(0.95, views()),
        leads_until in 0..40_u64,
        lease_epoch in option::of(1..4_u64),
        volume in volumes(),
        space in spaces(),
        data in option::weighted(0.8, (systems(), histories(), option::of(Just(Lsn(0x50))))),
        server in servers(),
        failed_starts in 0..5_u32,
        (task, recovered) in (tasks(), any::<bool>()),
        (programs, data_version, upgrade_failed) in (majors(), majors(), any::<bool>()),
        seal_requested in option::of(1..5_u64),
    ) -> Observed {
        let control = |(system_identifier, history, end)| ControlData { system_identifier, history, end };
        Observed {
            now: Duration::from_secs(20),
            member: "db-1".into(),
            volume_uid: "v".into(),
            cluster,
            lease: LeaseView { leads_until: Duration::from_secs(leads_until), epoch: lease_epoch },
            volume,
            space,
            data: data.map_or(DataDirectory::Missing, |data| DataDirectory::Whole(control(data))),
            server,
            failed_starts,
            task,
            recovered,
            versions: MajorVersions { programs, data: Some(data_version), upgrade_failed },
            seal_requested,
        }
    }
}

/// Returns the view under which the member may write: it is the target, not fenced, and holds the
/// Lease of the epoch.
fn mandate(observed: &Observed) -> Option<&ClusterView> {
    let view = observed.cluster.as_ref()?;
    let has_lease = observed.now < observed.lease.leads_until && observed.lease.epoch == Some(view.epoch);
    (view.target.as_deref() == Some("db-1") && has_lease && !view.fenced && view.upgrade.is_none())
        .then_some(view)
}

fn is_of_the_system(observed: &Observed, view: &ClusterView) -> bool {
    let data = observed.data.control().map(|control| control.system_identifier);
    data.is_some() && view.system_identifier.is_none_or(|system| Some(system) == data)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn only_the_target_with_the_lease_starts_to_write(observed in observations()) {
        let command = plan(&observed).command;
        let Some(Command::StartPrimary | Command::Promote { .. }) = command else { return Ok(()) };
        let view = mandate(&observed);
        prop_assert!(view.is_some(), "{command:?} without a mandate");
        let (view, control) = (view.unwrap(), observed.data.control().unwrap());
        prop_assert!(is_of_the_system(&observed, view));
        if let Some(Command::Promote { timeline }) = command {
            prop_assert_eq!(timeline, view.timeline);
            prop_assert!(timeline > control.history.timeline());
            prop_assert!(observed.volume.promotion_begun.is_none_or(|begun| timeline > begun));
            prop_assert!(observed.volume.recovery.is_none() || observed.recovered);
            let is_standby = matches!(observed.server, Server::Standby { .. });
            prop_assert!(is_standby);
        } else {
            let volume = &observed.volume;
            prop_assert_eq!(control.history.timeline(), view.timeline);
            prop_assert!([volume.own_timeline, volume.promotion_begun].contains(&Some(view.timeline)));
            prop_assert_eq!(&observed.server, &Server::Down);
        }
    }

    #[test]
    fn primary_without_a_mandate_stops(observed in observations()) {
        let is_exempt = observed.cluster.is_none() && observed.now < observed.lease.leads_until;
        let is_single = observed.cluster.as_ref().is_some_and(|view| {
            !view.fencing && view.target.as_deref() == Some("db-1") && !view.fenced && view.upgrade.is_none()
        });
        if !matches!(observed.server, Server::Primary { .. }) || is_exempt || is_single || observed.task.is_some() {
            return Ok(());
        }
        if mandate(&observed).is_none() {
            prop_assert!(matches!(plan(&observed).command, Some(Command::Stop(_))), "{:?}", plan(&observed));
            prop_assert_ne!(plan(&observed).lease, LeaseIntent::Renew);
        }
    }

    #[test]
    fn database_is_created_or_restored_only_where_it_may_be(observed in observations()) {
        let command = plan(&observed).command;
        if let Some(Command::CreateDatabase | Command::Restore) = command {
            let view = observed.cluster.as_ref().unwrap();
            prop_assert_eq!(view.recovers, command == Some(Command::Restore));
            prop_assert_eq!(view.create_on.as_deref(), Some("v"));
            prop_assert_eq!((view.system_identifier, observed.volume.system_identifier), (None, None));
            prop_assert_eq!(&observed.data, &DataDirectory::Missing);
        }
    }

    #[test]
    fn sealed_member_follows_nobody_of_the_past(observed in observations()) {
        let Some(
            Command::Follow { upstream } | Command::StartStandby { upstream: Some(upstream) },
        ) = plan(&observed).command
        else {
            return Ok(());
        };
        let view = observed.cluster.as_ref().unwrap();
        prop_assert!(observed.volume.sealed_epoch.is_none_or(|sealed| view.epoch >= sealed));
        prop_assert_eq!(Some(&upstream), view.target.as_ref());
        prop_assert_eq!(Some(&upstream), view.current.as_ref());
        prop_assert_ne!(upstream, "db-1");
    }

    #[test]
    fn lease_is_released_only_when_postgresql_is_down(observed in observations()) {
        if plan(&observed).lease == LeaseIntent::Release {
            prop_assert!(matches!(observed.server, Server::Down | Server::Standby { .. }), "{:?}", observed.server);
        }
    }

    #[test]
    fn data_are_replaced_only_if_there_are_none_or_they_diverged(observed in observations()) {
        match plan(&observed).command {
            Some(Command::Clone { .. }) => prop_assert_eq!(&observed.data, &DataDirectory::Missing),
            Some(Command::Rewind { .. }) => prop_assert_eq!(&observed.server, &Server::Down),
            Some(Command::Upgrade) => {
                let view = observed.cluster.as_ref().unwrap();
                prop_assert_eq!(&observed.server, &Server::Down);
                prop_assert_eq!(view.upgrade, Some(observed.versions.programs));
                prop_assert!(observed.versions.data != view.upgrade && is_of_the_system(&observed, view));
            }
            _ => {}
        }
    }

    #[test]
    fn full_volume_gets_neither_writes_nor_wal(observed in observations()) {
        if !observed.space.is_full() {
            return Ok(());
        }
        let command = plan(&observed).command;
        let is_safe = match &command {
            None | Some(Command::Stop(_) | Command::Seal { .. }) => true,
            Some(Command::StartStandby { upstream }) => upstream.is_none(),
            Some(_) => false,
        };
        prop_assert!(is_safe, "{command:?}");
        let is_idle = matches!(observed.server, Server::Down | Server::Standby { upstream: None });
        let is_busy = observed.task.is_some() || matches!(observed.server, Server::Stopping { .. });
        let is_ruled = observed.cluster.as_ref().is_some_and(|view| {
            observed.volume.sealed_epoch.is_none_or(|sealed| sealed <= view.epoch)
        });
        prop_assert!(is_idle || is_busy || !is_ruled || command.is_some(), "{:?} goes on", observed.server);
    }
}
