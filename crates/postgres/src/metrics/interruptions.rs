//! Times for which clusters take no writes because their primary changes.
//!
//! All replicas of the manager follow the changes, so the next leader knows when an interruption
//! began. Only the leader reports it.

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;
use operator_core::{
    ControllerBuilder,
    conditions::{find, is_true},
    informer::Change,
    kind::uid,
    metrics::Observe,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{FAILOVER, SWITCHOVER};
use crate::{
    api::{Phase, PostgresCluster, PostgresClusterStatus},
    condition_types::AVAILABLE,
};

/// Interruptions of all clusters.
pub(crate) struct Interruptions {
    /// Those that last, by the UIDs of the clusters.
    present: Mutex<HashMap<String, Interruption>>,
    failover: Observe,
    switchover: Observe,
}

/// An interruption of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interruption {
    since: Instant,
    /// Epoch of the primary that took writes before.
    epoch: i64,
    /// Whether a switchover caused it.
    is_planned: bool,
}

impl Interruptions {
    pub(crate) fn build(builder: &ControllerBuilder<'_, PostgresCluster>) -> Self {
        Self {
            present: Mutex::default(),
            failover: builder.histogram(&FAILOVER),
            switchover: builder.histogram(&SWITCHOVER),
        }
    }

    /// Follows a change of a cluster at a time.
    pub(crate) fn note(&self, change: &Change<PostgresCluster>, now: Instant) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let statuses = [&change.old, &change.new].map(|cluster| cluster.as_ref()?.status.as_ref());
        let mut present = self.present.lock();
        let known = present.remove(&uid(cluster.as_ref()));
        let Some(new) = statuses[1] else { return };
        let Some(interruption) = known.or_else(|| begun(statuses[0], new, now, Timestamp::now())) else {
            return;
        };
        if !takes_writes(new) {
            present.insert(uid(cluster.as_ref()), interruption.continued(new));
        } else if new.primary.epoch > interruption.epoch {
            let observe = if interruption.is_planned { &self.switchover } else { &self.failover };
            observe(now.saturating_duration_since(interruption.since));
        }
    }
}

impl Interruption {
    /// Returns the interruption after a change, with its cause as far as it is known now.
    fn continued(self, status: &PostgresClusterStatus) -> Self {
        let is_decided = status.primary.current.is_empty();
        let is_planned = if is_decided { !status.primary.switchover.is_empty() } else { self.is_planned };
        Self { is_planned, ..self }
    }
}

/// Returns the interruption that a change begins.
fn begun(
    old: Option<&PostgresClusterStatus>,
    new: &PostgresClusterStatus,
    now: Instant,
    time: Timestamp,
) -> Option<Interruption> {
    if takes_writes(new) {
        return None;
    }
    match old {
        Some(old) => takes_writes(old).then_some((now, old.primary.epoch)),
        // The process started meanwhile. The status has the time in seconds.
        None if matches!(new.phase, Phase::FailingOver | Phase::SwitchingOver) => {
            let condition = find(&new.conditions, AVAILABLE).filter(|condition| condition.status == "False");
            let age = condition.map(|condition| time.duration_since(condition.last_transition_time.0));
            let since = now.checked_sub(age?.try_into().ok()?)?;
            Some((since, new.primary.epoch.saturating_sub(1)))
        }
        None => None,
    }
    .map(|(since, epoch)| Interruption { since, epoch, is_planned: false }.continued(new))
}

/// Returns whether there is a primary that takes writes.
fn takes_writes(status: &PostgresClusterStatus) -> bool {
    !status.primary.current.is_empty() && is_true(&status.conditions, AVAILABLE)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use operator_core::ObjectKey;
    use serde_json::json;

    use super::*;
    use crate::api::fixture;

    /// Status with a primary of this epoch. An empty name means that there is none.
    fn cluster(primary: &str, epoch: i64, available: &str, switchover: &str) -> Arc<PostgresCluster> {
        let phase = match (primary, switchover) {
            ("", "") => "FailingOver",
            ("", _) => "SwitchingOver",
            _ => "Running",
        };
        let time = Timestamp::now() - Duration::from_mins(1);
        let mut cluster = fixture::cluster(&json!({"size": 3}));
        let status = json!({
            "phase": phase,
            "primary": {"current": primary, "epoch": epoch, "switchover": switchover},
            "conditions": [{
                "type": "Available", "status": available, "reason": "R", "message": "",
                "lastTransitionTime": time.to_string(),
            }],
        });
        cluster.status = Some(serde_json::from_value(status).unwrap());
        Arc::new(cluster)
    }

    /// Returns the seconds of the failovers, and of the switchovers. A second passes before each change.
    fn observed(changes: &[Option<Arc<PostgresCluster>>]) -> (Vec<u64>, Vec<u64>) {
        let seconds: [Arc<Mutex<Vec<u64>>>; 2] = Default::default();
        let [failover, switchover] = seconds
            .clone()
            .map(|seconds| -> Observe { Box::new(move |duration| seconds.lock().push(duration.as_secs())) });
        let interruptions = Interruptions { present: Mutex::default(), failover, switchover };
        let (mut old, mut now) = (None, Instant::now());
        for new in changes {
            now += Duration::from_secs(1);
            let key = ObjectKey::namespaced("shop", "db");
            interruptions.note(&Change { key, old, new: new.clone() }, now);
            old = new.clone();
        }
        assert!(changes.last().unwrap().is_some() || interruptions.present.lock().is_empty());
        let [failovers, switchovers] = seconds.map(|seconds| seconds.lock().clone());
        (failovers, switchovers)
    }

    #[test]
    fn failover_lasts_from_the_loss_of_the_primary_to_the_next_one() {
        let first = cluster("db-1", 1, "True", "");
        let lost = cluster("db-1", 1, "False", "");
        let deciding = cluster("", 2, "False", "");
        let unready = cluster("db-2", 2, "False", "");
        let second = cluster("db-2", 2, "True", "");
        let changes = [&first, &lost, &deciding, &unready, &second, &second].map(|one| Some(one.clone()));
        assert_eq!(observed(&changes), (vec![3], vec![]));
        let stored_at_once = [&first, &deciding, &second].map(|one| Some(one.clone()));
        assert_eq!(observed(&stored_at_once), (vec![1], vec![]));
    }

    #[test]
    fn switchover_is_counted_apart() {
        let first = cluster("db-1", 1, "True", "");
        // The status has the decision before the conditions follow.
        let decided = cluster("", 2, "True", "any");
        let second = cluster("db-2", 2, "True", "any");
        let changes = [&first, &decided, &second].map(|one| Some(one.clone()));
        assert_eq!(observed(&changes), (vec![], vec![1]));
    }

    #[test]
    fn primary_that_comes_back_and_a_new_cluster_are_not_counted() {
        let (first, lost) = (cluster("db-1", 1, "True", ""), cluster("db-1", 1, "False", ""));
        let changes = [&lost, &first, &lost, &first].map(|one| Some(one.clone()));
        assert_eq!(observed(&changes), (vec![], vec![]));
    }

    #[test]
    fn process_that_starts_during_a_failover_uses_the_time_in_the_status() {
        let changes = [cluster("", 2, "False", ""), cluster("db-2", 2, "True", "")].map(Some);
        let (failovers, switchovers) = observed(&changes);
        assert!(matches!(failovers[..], [60..=63]) && switchovers.is_empty(), "{failovers:?}");
    }

    #[test]
    fn deleted_cluster_is_forgotten() {
        let changes = [Some(cluster("db-1", 1, "True", "")), Some(cluster("", 2, "False", "")), None];
        assert_eq!(observed(&changes), (vec![], vec![]));
    }
}
