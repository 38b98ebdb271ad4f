//! What is said about a PodSet. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::conditions::{READY, Verdict, settle};

use crate::{
    api::{PodSet, PodSetStatus},
    build::selector,
    observe::{KnownPod, counts},
};

/// Condition: pods are being made, deleted or waited for.
pub const PROGRESSING: &str = "Progressing";
/// Condition: pods could not be made or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Something that kept the plan from being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// `FailedCreate` or `FailedDelete`, as a ReplicaSet says.
    pub(crate) reason: &'static str,
    /// What went wrong, in the API server's words.
    pub(crate) message: String,
}

/// The status of a PodSet that owns these pods.
pub(crate) fn status(
    set: &PodSet,
    owned: &[KnownPod],
    trouble: Option<&Trouble>,
    now: Timestamp,
) -> PodSetStatus {
    let present: Vec<_> = owned.iter().filter(|pod| counts(set, pod)).collect();
    let mut pod_names: Vec<_> = present.iter().map(|pod| pod.name_any()).collect();
    pod_names.sort();
    let count = count(present.len());
    let ready = self::count(present.iter().filter(|pod| pod.is_ready()).count());
    let verdicts = verdicts(set.spec.replicas, count, ready, trouble);
    let before = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = set.metadata.generation.unwrap_or_default();
    PodSetStatus {
        pod_names,
        available_replicas: count,
        replicas: count,
        ready_replicas: ready,
        selector: selector(set),
        observed_generation: Some(generation),
        conditions: settle(before, &verdicts, generation, now),
    }
}

fn verdicts(wanted: i32, present: i32, ready: i32, trouble: Option<&Trouble>) -> [Verdict; 3] {
    let is_complete = present == wanted && ready == wanted && trouble.is_none();
    let seen = format!("{ready} of {wanted} pods are ready, {present} exist");
    let (ready, progressing) = if is_complete {
        (
            Verdict::is_true(READY, "Complete", format!("all {wanted} pods are ready")),
            Verdict::is_false(PROGRESSING, "Complete", "nothing is left to do"),
        )
    } else {
        let reason = trouble.map_or("PodsNotReady", |trouble| trouble.reason);
        (Verdict::is_false(READY, reason, seen.clone()), Verdict::is_true(PROGRESSING, reason, seen))
    };
    let failure = match trouble {
        Some(trouble) => Verdict::is_true(REPLICA_FAILURE, trouble.reason, trouble.message.clone()),
        None => Verdict::is_false(REPLICA_FAILURE, "NoFailure", "pods are made and deleted as asked"),
    };
    [ready, progressing, failure]
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::{find, is_true};

    use super::*;
    use crate::api::PodSetSpec;

    fn set(replicas: i32) -> PodSet {
        PodSet::new("web", PodSetSpec { replicas, template: None })
    }

    #[test]
    fn ready_is_said_on_the_first_visit() {
        let status = status(&set(3), &[], None, Timestamp::UNIX_EPOCH);
        assert_eq!(find(&status.conditions, READY).unwrap().message, "0 of 3 pods are ready, 0 exist");
        assert!(is_true(&status.conditions, PROGRESSING));
        assert_eq!(status.selector, "app=web,version=v0.1");
    }

    #[test]
    fn trouble_is_told_in_the_servers_words_and_forgotten_when_it_is_over() {
        let mut set = set(3);
        let trouble = Trouble { reason: "FailedCreate", message: "exceeded quota".into() };
        let bad = status(&set, &[], Some(&trouble), Timestamp::UNIX_EPOCH);
        assert_eq!(find(&bad.conditions, REPLICA_FAILURE).unwrap().message, "exceeded quota");
        set.status = Some(bad);
        let healed = status(&set, &[], None, Timestamp::UNIX_EPOCH);
        assert_eq!(find(&healed.conditions, REPLICA_FAILURE).unwrap().status, "False");
    }
}
