//! Progress of a PodSet towards its spec. Pure.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::{
    api::PodSet,
    pod_cache::{CachedPod, is_replica},
};

/// Pods of a PodSet that count as replicas, and their progress. Names are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodCounts {
    /// Names of all replicas.
    pub(crate) names: Vec<String>,
    /// Names of the replicas that are not ready.
    pub(crate) unready: Vec<String>,
    /// Progress of all replicas together.
    pub(crate) progress: Progress,
}

/// Progress of a rollout or of scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The number of Pods differs from `spec.replicas`.
    Scaling,
    /// Some Pods are not ready.
    Starting,
    /// All Pods are ready. At this time, they will have been ready for `spec.minReadySeconds`.
    MinReadyWait(Timestamp),
    /// All Pods have been ready for `spec.minReadySeconds`.
    Complete,
}

impl PodCounts {
    /// Counts the replicas among the Pods that the PodSet owns.
    pub(crate) fn of(set: &PodSet, owned: &[CachedPod], now: Timestamp) -> Self {
        let replicas: Vec<_> = owned.iter().filter(|pod| is_replica(set, pod)).collect();
        let names = sorted(replicas.iter().map(|pod| pod.name_any()));
        let unready = sorted(replicas.iter().filter(|pod| !pod.is_ready()).map(|pod| pod.name_any()));
        let progress = if usize::try_from(set.spec.replicas) != Ok(names.len()) {
            Progress::Scaling
        } else if unready.is_empty() {
            let all_ready_since = replicas.iter().filter_map(|pod| pod.ready_since).max();
            min_ready_wait(all_ready_since, set.spec.min_ready_seconds, now)
        } else {
            Progress::Starting
        };
        Self { names, unready, progress }
    }

    /// Returns the time until the progress changes without a change of a Pod.
    pub(crate) fn requeue_after(&self, now: Timestamp) -> Option<Duration> {
        match self.progress {
            Progress::MinReadyWait(until) => now.duration_until(until).try_into().ok(),
            Progress::Scaling | Progress::Starting | Progress::Complete => None,
        }
    }
}

/// Returns the progress of Pods that are all ready since `since`.
///
/// The clock of a node may be ahead. Without `spec.minReadySeconds`, the PodSet does not wait for it.
fn min_ready_wait(since: Option<Timestamp>, seconds: i32, now: Timestamp) -> Progress {
    let min_ready = SignedDuration::from_secs(seconds.into());
    let until = since.map(|since| since.checked_add(min_ready).unwrap_or(Timestamp::MAX));
    match until {
        Some(until) if seconds > 0 && until > now => Progress::MinReadyWait(until),
        _ => Progress::Complete,
    }
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::PodSetSpec, testing::pod};

    fn set(replicas: i32, min_ready_seconds: i32) -> PodSet {
        PodSet::new("web", PodSetSpec { replicas, min_ready_seconds, ..PodSetSpec::default() })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready_since(number: usize, second: i64) -> CachedPod {
        pod(number, |pod| pod.ready_since = Some(at(second)))
    }

    fn progress(set: &PodSet, owned: &[CachedPod], now: i64) -> Progress {
        PodCounts::of(set, owned, at(now)).progress
    }

    #[test]
    fn complete_after_min_ready_seconds_of_the_last_pod() {
        let pods = [ready_since(1, 100), ready_since(2, 103)];
        for (now, expected) in [
            (103, Progress::MinReadyWait(at(113))),
            (112, Progress::MinReadyWait(at(113))),
            (113, Progress::Complete),
            (999, Progress::Complete),
        ] {
            assert_eq!(progress(&set(2, 10), &pods, now), expected, "at {now}");
        }
    }

    #[test]
    fn requeues_only_for_the_end_of_min_ready_seconds() {
        let (set, ready) = (set(2, 10), ready_since(1, 100));
        let next = |owned: &[CachedPod], now| PodCounts::of(&set, owned, at(now)).requeue_after(at(now));
        let all_ready = [ready.clone(), ready_since(2, 103)];
        assert_eq!(next(&all_ready, 105), Some(Duration::from_secs(8)));
        assert_eq!(next(&all_ready, 113), None, "complete");
        assert_eq!(next(std::slice::from_ref(&ready), 105), None, "a Pod is missing");
        assert_eq!(next(&[ready, pod(2, |pod| pod.ready_since = None)], 105), None, "a Pod is not ready");
    }

    #[test]
    fn restarts_min_ready_seconds_when_a_pod_fails() {
        let failed = [ready_since(1, 100), pod(2, |pod| pod.ready_since = None)];
        assert_eq!(progress(&set(2, 10), &failed, 105), Progress::Starting);
        let recovered = [ready_since(1, 100), ready_since(2, 108)];
        assert_eq!(progress(&set(2, 10), &recovered, 110), Progress::MinReadyWait(at(118)));
    }

    #[test]
    fn ignores_a_clock_that_is_ahead_without_min_ready_seconds() {
        let ahead = [ready_since(1, 500)];
        assert_eq!(progress(&set(1, 0), &ahead, 100), Progress::Complete);
        assert_eq!(progress(&set(1, 10), &ahead, 100), Progress::MinReadyWait(at(510)));
        assert_eq!(
            progress(&set(1, i32::MAX), &ahead, 100),
            Progress::MinReadyWait(at(500 + i64::from(i32::MAX)))
        );
    }

    #[test]
    fn scaling_takes_precedence_over_readiness() {
        assert_eq!(progress(&set(2, 10), &[ready_since(1, 0)], 100), Progress::Scaling);
        assert_eq!(progress(&set(1, 0), &[ready_since(1, 0), ready_since(2, 0)], 100), Progress::Scaling);
    }
}
