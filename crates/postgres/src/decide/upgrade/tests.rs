//! Single decisions about an upgrade.

use postgres_model::{report::InstanceState, timeline::TimelineId};

use super::*;
use crate::decide::{
    decide,
    tests::{report, running},
};

/// Returns a cluster of three whose spec asks for an upgrade.
fn asked() -> Observed {
    let mut observed = running(3, &[1, 2, 3]);
    observed.upgrade = Some(RequestedUpgrade { from: "17.6".to_owned(), to: "18.6".to_owned() });
    observed
}

/// Stores the membership of the next decision, and returns its actions.
fn step(observed: &mut Observed) -> Vec<Action> {
    let decision = decide(observed);
    observed.membership = decision.membership;
    observed.fence = match observed.membership.upgrade_in_progress() {
        Some(_) => postgres_model::fence::Fence::all(),
        None => postgres_model::fence::Fence::default(),
    };
    decision.actions
}

/// Returns a cluster whose upgrade has begun, and whose Pods should have the programs of both versions.
fn begun() -> Observed {
    let mut observed = asked();
    assert_eq!(step(&mut observed), []);
    observed.updates.revision = Some("both".to_owned());
    observed
}

/// Returns a cluster of which only the member runs that upgrades its data.
fn started() -> Observed {
    let mut observed = begun();
    observed.pods.retain(|serial, _| *serial == 1);
    observed.reports.retain(|serial, _| *serial == 1);
    observed.pods.get_mut(&1).unwrap().revision = "both".to_owned();
    *observed.reports.get_mut(&1).unwrap() = report(1, InstanceState::Fenced, TimelineId::FIRST);
    assert_eq!(step(&mut observed), []);
    assert!(observed.membership.upgrade.as_ref().unwrap().started);
    observed
}

fn progress(observed: &mut Observed, data_version: u16, failure: Option<&str>) {
    let report = observed.reports.get_mut(&1).unwrap();
    report.upgrade = Some(UpgradeReport { data_version, failure: failure.map(str::to_owned) });
}

#[test]
fn upgrade_begins_when_all_members_work_and_fences_the_primary() {
    let mut observed = asked();
    observed.pods.get_mut(&3).unwrap().is_ready = false;
    assert_eq!(decide(&observed).membership, observed.membership);
    observed.pods.get_mut(&3).unwrap().is_ready = true;
    assert_eq!(step(&mut observed), [], "the Pods still have the former programs");
    let upgrade = observed.membership.upgrade.clone().unwrap();
    assert_eq!((upgrade.member.as_str(), upgrade.to.as_str(), upgrade.started), ("db-1", "18.6", false));
    assert!(observed.membership.failover.fenced);
    let mut other = running(3, &[1, 2, 3]);
    assert!(step(&mut other).is_empty() && other.membership.upgrade.is_none(), "the spec asks for none");
}

#[test]
fn primary_stops_first_and_its_pod_gets_both_programs() {
    let mut observed = begun();
    assert_eq!(step(&mut observed), [Action::DeletePod(1, "p-1".to_owned())]);
    observed.pods.get_mut(&1).unwrap().is_terminating = true;
    assert_eq!(step(&mut observed), [], "the standbys get its last WAL");
    observed.pods.remove(&1);
    observed.reports.remove(&1);
    let actions = step(&mut observed);
    assert_eq!(actions, [Action::CreatePod(1), Action::DeletePod(2, "p-2".to_owned())]);
    (observed.updates.revision, observed.upgrade) = (None, None);
    let before = observed.membership.clone();
    assert_eq!((step(&mut observed), observed.membership), (Vec::new(), before), "no image is known");
}

#[test]
fn upgrade_can_be_cancelled_until_it_has_started() {
    let mut observed = begun();
    observed.upgrade = None;
    assert_eq!(step(&mut observed), []);
    assert!(observed.membership.upgrade.as_ref().unwrap().failure.starts_with("it was cancelled"));
    let mut observed = started();
    observed.upgrade = None;
    assert_eq!(step(&mut observed), []);
    assert!(observed.membership.upgrade_in_progress().is_some());
}

#[test]
fn upgraded_member_is_the_only_one_that_stays() {
    let mut observed = started();
    progress(&mut observed, 17, None);
    let before = observed.membership.clone();
    assert_eq!((step(&mut observed), &observed.membership), (Vec::new(), &before));
    progress(&mut observed, 18, None);
    observed.reports.get_mut(&1).unwrap().system_identifier = "8".parse().ok();
    assert_eq!(step(&mut observed), []);
    let after = observed.membership.clone();
    let staying: Vec<_> = after.staying().map(|member| member.serial).collect();
    assert_eq!((staying, after.system_id.unwrap().0), (vec![1], 8));
    assert!(after.upgrade.as_ref().unwrap().done && after.timelines.is_empty());
    let failover = &after.failover;
    assert_eq!(
        (failover.epoch, &failover.target, failover.fenced),
        (before.failover.epoch + 1, &None, false)
    );
    observed.reports.get_mut(&1).unwrap().state = InstanceState::Hold;
    let actions = step(&mut observed);
    assert!(actions.contains(&Action::Seal(1, failover.epoch)), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Record(2, _))), "it is a way back");
}

#[test]
fn former_version_runs_again_after_a_failure() {
    let mut observed = started();
    progress(&mut observed, 17, Some("no space"));
    assert_eq!(step(&mut observed), []);
    assert_eq!(observed.membership.upgrade.as_ref().unwrap().failure, "no space");
    observed.updates.revision = Some("new".to_owned());
    observed.failover.since_fenced = std::time::Duration::ZERO;
    let actions = step(&mut observed);
    assert!(actions.contains(&Action::DeletePod(1, "p-1".to_owned())), "{actions:?}");
    assert!(
        actions.contains(&Action::CreatePod(2)) && actions.contains(&Action::CreatePod(3)),
        "{actions:?}"
    );
    assert!(observed.membership.failover.fenced && observed.membership.upgrade.is_some());

    // It leads again, and the spec asks for nothing else.
    observed.membership.failover.fenced = false;
    assert!(step(&mut observed).iter().all(|action| !matches!(action, Action::DeletePod(..))));
    assert!(observed.membership.upgrade.is_some(), "it does not begin again");
    observed.upgrade = None;
    step(&mut observed);
    assert_eq!(observed.membership.upgrade, None);
}

#[test]
fn lost_volume_and_forced_promotion_end_an_upgrade() {
    let mut lost = started();
    lost.volumes.remove(&1);
    step(&mut lost);
    assert_eq!(lost.membership.upgrade.unwrap().failure, "the volume of db-1 is lost");
    let mut forced = started();
    forced.forced = Some("any".to_owned());
    step(&mut forced);
    assert!(forced.membership.upgrade.unwrap().failure.contains("forced"));
}
