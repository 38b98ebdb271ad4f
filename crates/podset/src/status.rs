//! Status of a PodSet: replica counts and conditions. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::conditions::{self, NewCondition, READY};

use crate::{
    api::{PodSet, PodSetStatus},
    condition_types::{PROGRESSING, REPLICA_FAILURE},
    error::Failure,
    pod_template::selector,
    progress::{PodCounts, Progress},
    reasons,
};

/// Returns the status of a PodSet with these replicas. Conditions of other types are preserved.
pub(crate) fn status(
    set: &PodSet,
    pods: &PodCounts,
    failure: Option<&Failure>,
    now: Timestamp,
) -> PodSetStatus {
    let generation = set.metadata.generation.unwrap_or_default();
    let mut conditions = set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    for condition in new_conditions(set, pods, failure) {
        conditions::set_condition(&mut conditions, &condition, generation, now);
    }
    let replicas = count(&pods.names);
    PodSetStatus {
        available_replicas: replicas,
        replicas,
        ready_replicas: replicas.saturating_sub(count(&pods.unready)),
        pod_names: pods.names.clone(),
        selector: selector(set),
        observed_generation: Some(generation),
        conditions,
    }
}

fn new_conditions(set: &PodSet, pods: &PodCounts, failure: Option<&Failure>) -> [NewCondition; 3] {
    let (ready, progressing) = match not_ready(set, pods, failure) {
        None => (
            NewCondition::is_true(READY, reasons::AS_SPECIFIED, ready_message(set)),
            NewCondition::is_false(PROGRESSING, reasons::AS_SPECIFIED, "scaling is complete"),
        ),
        Some((reason, message)) => (
            NewCondition::is_false(READY, reason, message.clone()),
            NewCondition::is_true(PROGRESSING, reason, message),
        ),
    };
    let replica_failure = match failure {
        Some(failure) => NewCondition::is_true(REPLICA_FAILURE, failure.reason, failure.message.clone()),
        None => NewCondition::is_false(
            REPLICA_FAILURE,
            reasons::NO_FAILURE,
            "the last reconcile of the Pods succeeded",
        ),
    };
    [ready, progressing, replica_failure]
}

fn ready_message(set: &PodSet) -> String {
    match (set.spec.replicas, set.spec.min_ready_seconds) {
        (pods, 0) => format!("{pods} of {pods} Pods are ready"),
        (pods, seconds) => format!("{pods} of {pods} Pods have been ready for {seconds} s"),
    }
}

/// Returns why the PodSet is not ready, as a reason and a message.
fn not_ready(set: &PodSet, pods: &PodCounts, failure: Option<&Failure>) -> Option<(&'static str, String)> {
    let desired = set.spec.replicas;
    let existing = pods.names.len();
    let ready = existing.saturating_sub(pods.unready.len());
    if let Some(failure) = failure {
        return Some((
            failure.reason,
            format!(
                "{existing} of {desired} Pods exist, {ready} are ready; see the condition {REPLICA_FAILURE}"
            ),
        ));
    }
    Some(match pods.progress {
        Progress::Complete => return None,
        Progress::Scaling => (reasons::SCALING, format!("{existing} of {desired} Pods exist")),
        Progress::Starting => {
            let namespace = set.namespace().unwrap_or_default();
            let unready = pods.unready.join(" ");
            (
                reasons::PODS_NOT_READY,
                format!(
                    "{ready} of {desired} Pods are ready; to see the cause, run \
                     `kubectl describe pod --namespace={namespace} {unready}`"
                ),
            )
        }
        Progress::MinReadyWait(until) => {
            let seconds = set.spec.min_ready_seconds;
            (
                reasons::MIN_READY_SECONDS,
                format!(
                    "{ready} of {desired} Pods are ready; spec.minReadySeconds ({seconds} s) ends at {until} \
                     if no Pod fails before"
                ),
            )
        }
    })
}

fn count(names: &[String]) -> i32 {
    i32::try_from(names.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use operator_core::conditions::find;

    use super::*;
    use crate::api::PodSetSpec;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn set(replicas: i32) -> PodSet {
        let mut set = PodSet::new("web", PodSetSpec { replicas, ..PodSetSpec::default() });
        set.metadata.namespace = Some("shop".into());
        set.metadata.generation = Some(7);
        set
    }

    fn pods(names: &[&str], unready: &[&str], progress: Progress) -> PodCounts {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        PodCounts { names: strings(names), unready: strings(unready), progress }
    }

    fn failure() -> Failure {
        Failure { reason: "FailedCreate", message: "exceeded quota; raise it".into() }
    }

    /// Returns the status, reason, and message of a condition.
    fn condition<'s>(status: &'s PodSetStatus, type_: &str) -> (&'s str, &'s str, &'s str) {
        let condition = find(&status.conditions, type_).unwrap();
        assert_eq!(condition.observed_generation, Some(7));
        (&condition.status, &condition.reason, &condition.message)
    }

    #[test]
    fn each_progress_has_a_reason_and_a_message() {
        let until = Timestamp::from_second(60).unwrap();
        let cases = [
            (pods(&[], &[], Progress::Scaling), "Scaling", "0 of 2 Pods exist"),
            (
                pods(&["a", "b"], &["b"], Progress::Starting),
                "PodsNotReady",
                "1 of 2 Pods are ready; to see the cause, run `kubectl describe pod --namespace=shop b`",
            ),
            (
                pods(&["a", "b"], &[], Progress::MinReadyWait(until)),
                "MinReadySeconds",
                "2 of 2 Pods are ready; spec.minReadySeconds (60 s) ends at 1970-01-01T00:01:00Z \
                 if no Pod fails before",
            ),
        ];
        let mut set = set(2);
        set.spec.min_ready_seconds = 60;
        for (pods, reason, message) in cases {
            let status = status(&set, &pods, None, NOW);
            assert_eq!(condition(&status, READY), ("False", reason, message));
            assert_eq!(condition(&status, PROGRESSING), ("True", reason, message));
            assert_eq!(condition(&status, REPLICA_FAILURE).0, "False");
        }
    }

    #[test]
    fn complete_podset_is_ready_and_not_progressing() {
        let status = status(&set(2), &pods(&["a", "b"], &[], Progress::Complete), None, NOW);
        assert_eq!(condition(&status, READY), ("True", "AsSpecified", "2 of 2 Pods are ready"));
        assert_eq!(condition(&status, PROGRESSING), ("False", "AsSpecified", "scaling is complete"));
        assert_eq!((status.replicas, status.available_replicas, status.ready_replicas), (2, 2, 2));
        assert_eq!((status.selector.as_str(), status.observed_generation), ("app=web,version=v0.1", Some(7)));
    }

    #[test]
    fn available_counts_existing_pods_and_ready_counts_ready_pods() {
        let status = status(&set(3), &pods(&["a", "b", "c"], &["a", "b"], Progress::Starting), None, NOW);
        assert_eq!((status.replicas, status.available_replicas, status.ready_replicas), (3, 3, 1));
    }

    #[test]
    fn failure_takes_precedence_and_clears_when_resolved() {
        let mut set = set(2);
        let complete = pods(&["a", "b"], &[], Progress::Complete);
        let failed = status(&set, &complete, Some(&failure()), NOW);
        assert_eq!(condition(&failed, REPLICA_FAILURE), ("True", "FailedCreate", "exceeded quota; raise it"));
        assert_eq!((condition(&failed, READY).0, condition(&failed, READY).1), ("False", "FailedCreate"));
        set.status = Some(failed);
        let recovered = status(&set, &complete, None, NOW);
        assert_eq!(
            (condition(&recovered, REPLICA_FAILURE).0, condition(&recovered, READY).0),
            ("False", "True")
        );
    }

    #[test]
    fn conditions_of_other_types_are_preserved() {
        let mut set = set(1);
        let foreign = Condition {
            type_: "example.com/Audited".into(),
            status: "True".into(),
            reason: "Seen".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(NOW),
        };
        set.status = Some(PodSetStatus { conditions: vec![foreign.clone()], ..PodSetStatus::default() });
        let status = status(&set, &pods(&["a"], &[], Progress::Complete), None, NOW);
        assert_eq!(find(&status.conditions, "example.com/Audited"), Some(&foreign));
        assert_eq!(status.conditions.len(), 4);
    }
}
