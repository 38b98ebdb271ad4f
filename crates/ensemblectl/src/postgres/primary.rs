//! `switchover` and `promote`: which member is the primary.

use ::postgres::{FORCE_PROMOTE, PostgresCluster, SWITCHOVER, condition_types::AVAILABLE};
use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use operator_core::conditions::is_true;

use super::{
    progress::Progress,
    target::{Target, check_member, check_not_paused, describe_condition, status_of},
};
use crate::{
    cluster::Cluster,
    flags::postgres::{Promote, Switchover},
    output::ExitStatus,
};

/// Leaves the choice of the member to the controller.
const ANY: &str = "any";

pub(super) async fn switch_over(cluster: &Cluster, flags: &Switchover) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let before = target
        .annotate(SWITCHOVER, |current| {
            check_switchover(current, flags.to.as_deref())
                .with_context(|| format!("cannot switch over {}", target.describe()))?;
            Ok(Some(flags.to.as_deref().unwrap_or(ANY).to_owned()))
        })
        .await?;
    let former = status_of(&before).primary.current;
    target.follow(flags.waiting, |current| switchover_progress(current, &former)).await
}

pub(super) async fn promote(cluster: &Cluster, flags: &Promote) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let before = target
        .annotate(FORCE_PROMOTE, |current| {
            check_promotion(current, flags.member.as_deref())
                .with_context(|| format!("cannot promote a member of {}", target.describe()))?;
            Ok(Some(flags.member.as_deref().unwrap_or(ANY).to_owned()))
        })
        .await?;
    let epoch = status_of(&before).primary.epoch;
    target.follow(flags.waiting, |current| promotion_progress(current, epoch)).await
}

/// Checks what the controller would wait for silently.
fn check_switchover(cluster: &PostgresCluster, to: Option<&str>) -> Result<()> {
    check_not_paused(cluster)?;
    let status = status_of(cluster);
    let primary = &status.primary.current;
    ensure!(
        !primary.is_empty() && is_true(&status.conditions, AVAILABLE),
        "it has no primary that takes writes: {}; see `ensemblectl postgres status {}`",
        describe_condition(&status, AVAILABLE),
        cluster.name_any()
    );
    let Some(to) = to else {
        let has_standby = status.instances.iter().any(|instance| instance.ready && instance.name != *primary);
        ensure!(has_standby, "no standby is ready to take over from {primary}");
        return Ok(());
    };
    check_member(&status, to)?;
    ensure!(to != primary, "{to} is the primary already");
    let is_ready = status.instances.iter().any(|instance| instance.name == to && instance.ready);
    ensure!(is_ready, "the standby {to} is not ready");
    Ok(())
}

fn check_promotion(cluster: &PostgresCluster, member: Option<&str>) -> Result<()> {
    check_not_paused(cluster)?;
    let status = status_of(cluster);
    if is_true(&status.conditions, AVAILABLE) {
        bail!(
            "the primary {} takes writes; use `ensemblectl postgres switchover {}`, which loses nothing",
            status.primary.current,
            cluster.name_any()
        );
    }
    if status.primary.fenced {
        bail!(
            "the primary is fenced; run `ensemblectl postgres unfence {}` to let it continue",
            cluster.name_any()
        );
    }
    member.map_or(Ok(()), |member| check_member(&status, member))
}

fn switchover_progress(cluster: &PostgresCluster, former: &str) -> Progress {
    let status = status_of(cluster);
    let primary = &status.primary.current;
    if !primary.is_empty() && primary != former && is_true(&status.conditions, AVAILABLE) {
        return Progress::Done(format!("{primary} has taken over from {former}"));
    }
    if primary == former && !cluster.annotations().contains_key(SWITCHOVER) && status.primary.target == former
    {
        return Progress::Failed(format!("the request was withdrawn, and {former} is still the primary"));
    }
    Progress::Waiting(describe_condition(&status, AVAILABLE))
}

fn promotion_progress(cluster: &PostgresCluster, epoch: i64) -> Progress {
    let status = status_of(cluster);
    let primary = &status.primary.current;
    if !primary.is_empty() && is_true(&status.conditions, AVAILABLE) {
        let how = if status.primary.epoch > epoch { "is the primary" } else { "takes writes again" };
        return Progress::Done(format!("{primary} {how}"));
    }
    Progress::Waiting(describe_condition(&status, AVAILABLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::testing::{available, cluster};

    fn refusal(checked: Result<()>) -> String {
        checked.map_or_else(|error| error.to_string(), |()| "allowed".to_owned())
    }

    #[test]
    fn switchover_needs_a_ready_standby() {
        let ready = available(&["db-1", "db-2"]);
        assert_eq!(refusal(check_switchover(&ready, None)), "allowed");
        assert_eq!(refusal(check_switchover(&ready, Some("db-2"))), "allowed");
        assert_eq!(refusal(check_switchover(&ready, Some("db-1"))), "db-1 is the primary already");
        let unknown = refusal(check_switchover(&ready, Some("db-9")));
        assert_eq!(unknown, "db-9 is no member; the members are db-1, db-2");
        let single = available(&["db-1"]);
        assert_eq!(refusal(check_switchover(&single, None)), "no standby is ready to take over from db-1");
        let mut paused = ready.clone();
        paused.spec.paused = true;
        assert!(refusal(check_switchover(&paused, None)).contains("spec.paused"));
        let mut unready = ready;
        unready.status.as_mut().unwrap().instances[1].ready = false;
        assert_eq!(refusal(check_switchover(&unready, Some("db-2"))), "the standby db-2 is not ready");
        let new = refusal(check_switchover(&cluster(), None));
        assert!(new.contains("the controller has not written a status yet"), "{new}");
    }

    #[test]
    fn promotion_is_refused_while_the_primary_takes_writes() {
        let ready = available(&["db-1", "db-2"]);
        assert!(refusal(check_promotion(&ready, None)).contains("postgres switchover db"));
        let mut lost = ready;
        let status = lost.status.as_mut().unwrap();
        status.conditions[0].status = "False".to_owned();
        assert_eq!(refusal(check_promotion(&lost, Some("db-2"))), "allowed");
        assert!(refusal(check_promotion(&lost, Some("db-9"))).contains("no member"));
        lost.status.as_mut().unwrap().primary.fenced = true;
        assert!(refusal(check_promotion(&lost, None)).contains("unfence"));
    }

    #[test]
    fn switchover_is_done_when_another_member_takes_writes() {
        let mut current = available(&["db-1", "db-2"]);
        assert!(matches!(switchover_progress(&current, "db-2"), Progress::Done(_)));
        assert!(matches!(switchover_progress(&current, "db-1"), Progress::Failed(_)));
        current.annotations_mut().insert(SWITCHOVER.to_owned(), "any".to_owned());
        assert!(matches!(switchover_progress(&current, "db-1"), Progress::Waiting(_)));
        // The primary has stopped, and the standby does not take writes yet.
        current.annotations_mut().clear();
        let status = current.status.as_mut().unwrap();
        (status.primary.target, status.conditions[0].status) = ("db-2".to_owned(), "False".to_owned());
        assert!(matches!(switchover_progress(&current, "db-1"), Progress::Waiting(_)));
    }
}
