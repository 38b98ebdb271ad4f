//! What is said about a PodSet: numbers, and conditions in sentences. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::conditions::{self, READY, Verdict};

use crate::{
    api::{PodSet, PodSetStatus},
    build::selector,
    error::Trouble,
    progress::{PodCounts, Progress},
    reasons::{self, PROGRESSING, REPLICA_FAILURE},
};

/// The status of a PodSet that has these pods. Conditions of types that are not ours stay as they are.
pub(crate) fn status(
    set: &PodSet,
    pods: &PodCounts,
    trouble: Option<&Trouble>,
    now: Timestamp,
) -> PodSetStatus {
    let generation = set.metadata.generation.unwrap_or_default();
    let mut conditions = set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    for verdict in verdicts(set, pods, trouble) {
        conditions::set(&mut conditions, &verdict, generation, now);
    }
    let present = count(&pods.names);
    PodSetStatus {
        available_replicas: present,
        replicas: present,
        ready_replicas: present.saturating_sub(count(&pods.unready)),
        pod_names: pods.names.clone(),
        selector: selector(set),
        observed_generation: Some(generation),
        conditions,
    }
}

fn verdicts(set: &PodSet, pods: &PodCounts, trouble: Option<&Trouble>) -> [Verdict; 3] {
    let (ready, progressing) = match waits_for(set, pods, trouble) {
        None => (
            Verdict::is_true(READY, reasons::AS_SPECIFIED, is_ready(set)),
            Verdict::is_false(PROGRESSING, reasons::AS_SPECIFIED, "nothing is left to do"),
        ),
        Some((reason, message)) => (
            Verdict::is_false(READY, reason, message.clone()),
            Verdict::is_true(PROGRESSING, reason, message),
        ),
    };
    let failure = match trouble {
        Some(trouble) => Verdict::is_true(REPLICA_FAILURE, trouble.reason, trouble.message.clone()),
        None => Verdict::is_false(REPLICA_FAILURE, reasons::NO_FAILURE, "pods are made and deleted as asked"),
    };
    [ready, progressing, failure]
}

fn is_ready(set: &PodSet) -> String {
    match (set.spec.replicas, set.spec.min_ready_seconds) {
        (pods, 0) => format!("{pods} of {pods} pods are ready"),
        (pods, seconds) => format!("{pods} of {pods} pods have been ready for {seconds} s"),
    }
}

/// What keeps the PodSet from being ready, as a reason and a sentence.
fn waits_for(set: &PodSet, pods: &PodCounts, trouble: Option<&Trouble>) -> Option<(&'static str, String)> {
    let wanted = set.spec.replicas;
    let present = pods.names.len();
    let ready = present.saturating_sub(pods.unready.len());
    if let Some(trouble) = trouble {
        let seen = format!("{present} of {wanted} pods exist, {ready} are ready");
        return Some((
            trouble.reason,
            format!("{seen}; the condition {REPLICA_FAILURE} says what is in the way"),
        ));
    }
    Some(match pods.progress {
        Progress::Complete => return None,
        Progress::Scaling => (reasons::SCALING, format!("{present} pods exist, {wanted} are asked for")),
        Progress::Starting => {
            let command = format!("kubectl describe pod --namespace={}", set.namespace().unwrap_or_default());
            let unready = pods.unready.join(" ");
            let what = "says what the others wait for";
            (
                reasons::PODS_NOT_READY,
                format!("{ready} of {wanted} pods are ready; `{command} {unready}` {what}"),
            )
        }
        Progress::MinReadyWait(until) => {
            let seconds = set.spec.min_ready_seconds;
            let asked =
                format!("spec.minReadySeconds asks for {seconds} s of that, which are over at {until}");
            (
                reasons::MIN_READY_SECONDS,
                format!("{ready} of {wanted} pods are ready; {asked} if none fails before"),
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
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        PodCounts { names: owned(names), unready: owned(unready), progress }
    }

    fn trouble() -> Trouble {
        Trouble { reason: "FailedCreate", message: "exceeded quota; raise it".into() }
    }

    /// Status, reason and message of a condition.
    fn said<'s>(status: &'s PodSetStatus, type_: &str) -> (&'s str, &'s str, &'s str) {
        let condition = find(&status.conditions, type_).unwrap();
        assert_eq!(condition.observed_generation, Some(7));
        (&condition.status, &condition.reason, &condition.message)
    }

    #[test]
    fn each_state_has_a_reason_and_says_what_is_waited_for() {
        let until = Timestamp::from_second(60).unwrap();
        let cases = [
            (pods(&[], &[], Progress::Scaling), "Scaling", "0 pods exist, 2 are asked for"),
            (
                pods(&["a", "b"], &["b"], Progress::Starting),
                "PodsNotReady",
                "1 of 2 pods are ready; `kubectl describe pod --namespace=shop b` says what the others wait for",
            ),
            (
                pods(&["a", "b"], &[], Progress::MinReadyWait(until)),
                "MinReadySeconds",
                "2 of 2 pods are ready; spec.minReadySeconds asks for 60 s of that, which are over at \
                 1970-01-01T00:01:00Z if none fails before",
            ),
        ];
        let mut set = set(2);
        set.spec.min_ready_seconds = 60;
        for (pods, reason, message) in cases {
            let status = status(&set, &pods, None, NOW);
            assert_eq!(said(&status, READY), ("False", reason, message));
            assert_eq!(said(&status, PROGRESSING), ("True", reason, message));
            assert_eq!(said(&status, REPLICA_FAILURE).0, "False");
        }
    }

    #[test]
    fn a_complete_set_has_nothing_left_to_do() {
        let status = status(&set(2), &pods(&["a", "b"], &[], Progress::Complete), None, NOW);
        assert_eq!(said(&status, READY), ("True", "AsSpecified", "2 of 2 pods are ready"));
        assert_eq!(said(&status, PROGRESSING), ("False", "AsSpecified", "nothing is left to do"));
        assert_eq!((status.replicas, status.available_replicas, status.ready_replicas), (2, 2, 2));
        assert_eq!((status.selector.as_str(), status.observed_generation), ("app=web,version=v0.1", Some(7)));
    }

    #[test]
    fn available_pods_are_those_that_are_there_and_ready_ones_those_that_are_ready() {
        let status = status(&set(3), &pods(&["a", "b", "c"], &["a", "b"], Progress::Starting), None, NOW);
        assert_eq!((status.replicas, status.available_replicas, status.ready_replicas), (3, 3, 1));
    }

    #[test]
    fn trouble_comes_before_all_else_and_is_forgotten_when_it_is_over() {
        let mut set = set(2);
        let all_there = pods(&["a", "b"], &[], Progress::Complete);
        let bad = status(&set, &all_there, Some(&trouble()), NOW);
        assert_eq!(said(&bad, REPLICA_FAILURE), ("True", "FailedCreate", "exceeded quota; raise it"));
        assert_eq!((said(&bad, READY).0, said(&bad, READY).1), ("False", "FailedCreate"));
        set.status = Some(bad);
        let healed = status(&set, &all_there, None, NOW);
        assert_eq!((said(&healed, REPLICA_FAILURE).0, said(&healed, READY).0), ("False", "True"));
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut set = set(1);
        let theirs = Condition {
            type_: "example.com/Audited".into(),
            status: "True".into(),
            reason: "Seen".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(NOW),
        };
        set.status = Some(PodSetStatus { conditions: vec![theirs.clone()], ..PodSetStatus::default() });
        let status = status(&set, &pods(&["a"], &[], Progress::Complete), None, NOW);
        assert_eq!(find(&status.conditions, "example.com/Audited"), Some(&theirs));
        assert_eq!(status.conditions.len(), 4);
    }
}
