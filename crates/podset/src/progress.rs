//! How far a PodSet is. Pure.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::{
    api::PodSet,
    observe::{KnownPod, counts},
};

/// The pods of a PodSet that count, and how far they are. Names are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodCounts {
    /// The names of all.
    pub(crate) names: Vec<String>,
    /// The names of those that are not ready.
    pub(crate) unready: Vec<String>,
    /// How far they are together.
    pub(crate) progress: Progress,
}

/// What a PodSet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// For its number of pods.
    Scaling,
    /// For pods to be ready.
    Starting,
    /// For this moment, when all pods will have been ready for as long as the spec asks, if none fails before.
    MinReadyWait(Timestamp),
    /// For nothing.
    Complete,
}

impl PodCounts {
    /// The pods that count of those that the PodSet owns.
    pub(crate) fn of(set: &PodSet, owned: &[KnownPod], now: Timestamp) -> Self {
        let present: Vec<_> = owned.iter().filter(|pod| counts(set, pod)).collect();
        let names = sorted(present.iter().map(|pod| pod.name_any()));
        let unready = sorted(present.iter().filter(|pod| !pod.is_ready()).map(|pod| pod.name_any()));
        let progress = if usize::try_from(set.spec.replicas) != Ok(names.len()) {
            Progress::Scaling
        } else if unready.is_empty() {
            let all_ready_since = present.iter().filter_map(|pod| pod.ready_since).max();
            proving(all_ready_since, set.spec.min_ready_seconds, now)
        } else {
            Progress::Starting
        };
        Self { names, unready, progress }
    }

    /// How long the PodSet has to wait for the next thing that happens without any change of a pod.
    pub(crate) fn next_in(&self, now: Timestamp) -> Option<Duration> {
        match self.progress {
            Progress::MinReadyWait(until) => now.duration_until(until).try_into().ok(),
            Progress::Scaling | Progress::Starting | Progress::Complete => None,
        }
    }
}

/// The clock of a node may be ahead of ours; who asks for no time does not wait for it.
fn proving(since: Option<Timestamp>, seconds: i32, now: Timestamp) -> Progress {
    let time = SignedDuration::from_secs(seconds.into());
    let until = since.map(|since| since.checked_add(time).unwrap_or(Timestamp::MAX));
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

    fn ready_since(number: usize, second: i64) -> KnownPod {
        pod(number, |pod| pod.ready_since = Some(at(second)))
    }

    fn progress(set: &PodSet, owned: &[KnownPod], now: i64) -> Progress {
        PodCounts::of(set, owned, at(now)).progress
    }

    #[test]
    fn a_set_is_complete_when_the_last_pod_has_been_ready_for_the_time_asked_for() {
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
    fn the_next_look_is_at_the_very_moment_and_only_where_time_is_all_that_is_missing() {
        let (set, ready) = (set(2, 10), ready_since(1, 100));
        let next = |owned: &[KnownPod], now| PodCounts::of(&set, owned, at(now)).next_in(at(now));
        let proving = [ready.clone(), ready_since(2, 103)];
        assert_eq!(next(&proving, 105), Some(Duration::from_secs(8)));
        assert_eq!(next(&proving, 113), None, "complete");
        assert_eq!(next(std::slice::from_ref(&ready), 105), None, "a pod is missing");
        assert_eq!(next(&[ready, pod(2, |pod| pod.ready_since = None)], 105), None, "a pod is not ready");
    }

    #[test]
    fn a_pod_that_fails_in_between_starts_anew() {
        let failed = [ready_since(1, 100), pod(2, |pod| pod.ready_since = None)];
        assert_eq!(progress(&set(2, 10), &failed, 105), Progress::Starting);
        let back = [ready_since(1, 100), ready_since(2, 108)];
        assert_eq!(progress(&set(2, 10), &back, 110), Progress::MinReadyWait(at(118)));
    }

    #[test]
    fn who_asks_for_no_time_does_not_wait_for_a_clock_that_is_ahead() {
        let ahead = [ready_since(1, 500)];
        assert_eq!(progress(&set(1, 0), &ahead, 100), Progress::Complete);
        assert_eq!(progress(&set(1, 10), &ahead, 100), Progress::MinReadyWait(at(510)));
        assert_eq!(
            progress(&set(1, i32::MAX), &ahead, 100),
            Progress::MinReadyWait(at(500 + i64::from(i32::MAX)))
        );
    }

    #[test]
    fn missing_and_surplus_pods_come_first() {
        assert_eq!(progress(&set(2, 10), &[ready_since(1, 0)], 100), Progress::Scaling);
        assert_eq!(progress(&set(1, 0), &[ready_since(1, 0), ready_since(2, 0)], 100), Progress::Scaling);
    }
}
