//! When a cluster is reconciled again without any news.

use std::time::Duration;

use postgres_model::failover::Replication;

use super::{Decision, Observed, rollout};
use crate::secrets::RECHECK;

/// Time until the next look after a change of the membership.
const AFTER_CHANGE: Duration = Duration::from_millis(100);
/// Time between two looks at a cluster that changes its primary, or its synchronous replication.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks while a decision may wait for the age of a change.
const LOOK_AFTER_CHANGE: Duration = Duration::from_secs(5);
/// Time in which the last of these looks certainly happens.
const MARGIN: Duration = Duration::from_secs(10);

/// Returns the time until the next look. Secrets are read again then; `recheck` is the time until they have to be.
///
/// A Lease that expires [reconciles](crate::lease_ages) the cluster.
pub(crate) fn requeue_after(observed: &Observed, decision: &Decision, recheck: Duration) -> Duration {
    let failover = &decision.membership.failover;
    // What is served depends on the membership, and the write of a status is no news.
    if decision.membership != observed.membership {
        return AFTER_CHANGE;
    }
    // The cluster has no watch on a backup of another one.
    if !observed.paused && (decision.recovery_problem.is_some() || decision.membership.is_recovering()) {
        return LOOK;
    }
    // A primary that is fenced stays down until the annotation changes.
    // A fence and a pause need no look, but certificates expire during them.
    let waits = observed.paused
        || observed.hibernated
        || observed.primary_is_listed()
        || !decision.membership.is_bootstrapped();
    let lease_is_free = decision.membership.members.len() > 1 && observed.failover.lease_expires_in.is_zero();
    let changes = failover.current.is_none() || failover.reigns.len() > 1 || observed.standbys_are_missing();
    if !waits && (changes || lease_is_free) {
        LOOK
    } else if has_changed_lately(observed) {
        LOOK_AFTER_CHANGE
    } else if waits {
        RECHECK
    } else {
        recheck
    }
}

/// Returns whether a decision may still wait until a change is old enough.
fn has_changed_lately(observed: &Observed) -> bool {
    let (failover, synchronous) = (&observed.failover, &observed.synchronous);
    let longest = (failover.lease * 2).max(rollout::PAUSE).max(Replication::PATIENCE) + MARGIN;
    let is_young = |age: Duration| age < longest;
    is_young(failover.since_change)
        || is_young(failover.since_fenced)
        // Without a primary that runs, the time is zero.
        || (!synchronous.streaming.is_empty() && is_young(synchronous.streaming_since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{decide, tests::running};

    /// Returns the time until the next look at a cluster of three after this change of what is seen.
    fn after(change: impl FnOnce(&mut Observed)) -> Duration {
        let mut observed = running(3, &[1, 2, 3]);
        change(&mut observed);
        let decision = Decision { membership: observed.membership.clone(), ..decide(&observed) };
        requeue_after(&observed, &decision, Duration::from_secs(77))
    }

    #[test]
    fn settled_cluster_is_looked_at_when_its_secrets_are_read() {
        assert_eq!(after(|_| {}), Duration::from_secs(77));
        // Renewals move the expiry, and need no look.
        assert_eq!(
            after(|it| it.failover.lease_expires_in = Duration::from_secs(1)),
            Duration::from_secs(77)
        );
    }

    #[test]
    fn change_is_looked_at_until_no_decision_waits_for_its_age() {
        let changes: [fn(&mut Observed, Duration); 3] = [
            |observed, age| observed.failover.since_change = age,
            |observed, age| observed.failover.since_fenced = age,
            |observed, age| observed.synchronous.streaming_since = age,
        ];
        for change in changes {
            let of_age = |seconds| after(|it| change(it, Duration::from_secs(seconds)));
            assert_eq!((of_age(31), of_age(40)), (LOOK_AFTER_CHANGE, Duration::from_secs(77)));
        }
    }

    #[test]
    fn cluster_without_a_holder_of_the_lease_is_looked_at_each_second() {
        assert_eq!(after(|it| it.failover.lease_expires_in = Duration::ZERO), LOOK);
        assert_eq!(after(|it| it.synchronous.streaming.clear()), LOOK);
    }

    #[test]
    fn paused_and_hibernated_clusters_rest() {
        let stopped = |change: fn(&mut Observed)| {
            after(|observed| {
                observed.synchronous.streaming.clear();
                observed.synchronous.streaming_since = Duration::ZERO;
                observed.failover.lease_expires_in = Duration::ZERO;
                change(observed);
            })
        };
        let paused = stopped(|observed| observed.paused = true);
        let hibernated = stopped(|observed| observed.hibernated = true);
        assert_eq!((paused, hibernated), (RECHECK, RECHECK));
    }

    #[test]
    fn change_of_the_membership_is_looked_at_at_once() {
        let observed = running(3, &[1, 2, 3]);
        let mut decision = decide(&observed);
        decision.membership.next_serial += 1;
        assert_eq!(requeue_after(&observed, &decision, RECHECK), AFTER_CHANGE);
    }
}
