//! `restart`: replaces the Pods of all members.

use ::postgres::{PostgresCluster, RESTART, condition_types::UPGRADING, reasons};
use anyhow::Result;
use operator_core::conditions::find;

use super::{
    progress::Progress,
    target::{Target, check_not_paused, describe_condition, status_of},
};
use crate::{cluster::Cluster, flags::postgres::Restart, output::ExitStatus};

pub(super) async fn run(cluster: &Cluster, flags: &Restart) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let request = cluster.now().to_string();
    let before = target
        .annotate(RESTART, |current| {
            check_not_paused(current)?;
            Ok(Some(request.clone()))
        })
        .await?;
    target.follow(flags.waiting, |current| progress(&before, current)).await
}

/// Compares the condition Upgrading with that before the request: it is true while Pods are replaced.
fn progress(before: &PostgresCluster, current: &PostgresCluster) -> Progress {
    let (before, status) = (status_of(before), status_of(current));
    let waiting = || Progress::Waiting(describe_condition(&status, UPGRADING));
    let before = find(&before.conditions, UPGRADING);
    let Some(current) = find(&status.conditions, UPGRADING) else { return waiting() };
    let has_changed = before.is_none_or(|before| {
        (&before.last_transition_time, &before.reason) != (&current.last_transition_time, &current.reason)
    });
    match current.reason.as_str() {
        _ if !has_changed || current.status != "False" => waiting(),
        reasons::AS_SPECIFIED => Progress::Done("all members have new Pods".to_owned()),
        reasons::SWITCHOVER_REQUIRED => Progress::Done(current.message.clone()),
        _ => Progress::Failed(current.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;
    use crate::postgres::testing::available;

    fn upgrading(status: &str, reason: &str, second: i64) -> PostgresCluster {
        let mut cluster = available(&["db-1", "db-2"]);
        cluster.status.as_mut().unwrap().conditions.push(Condition {
            type_: UPGRADING.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "1 of 2 Pods are as specified".to_owned(),
            last_transition_time: Time(jiff::Timestamp::from_second(second).unwrap()),
            observed_generation: None,
        });
        cluster
    }

    #[test]
    fn restart_is_done_after_a_rollout_that_began_after_the_request() {
        let before = upgrading("False", "AsSpecified", 1);
        let is_waiting = |current| matches!(progress(&before, &current), Progress::Waiting(_));
        assert!(is_waiting(upgrading("False", "AsSpecified", 1)));
        assert!(is_waiting(upgrading("True", "RollingOut", 2)));
        assert!(matches!(progress(&before, &upgrading("False", "AsSpecified", 3)), Progress::Done(_)));
        // A primary that must be replaced by hand is the end of what the controller does.
        assert!(matches!(progress(&before, &upgrading("False", "SwitchoverRequired", 1)), Progress::Done(_)));
        assert!(matches!(progress(&before, &upgrading("False", "Paused", 3)), Progress::Failed(_)));
    }
}
