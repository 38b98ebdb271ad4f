//! Records baselines: workloads without a fault.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};

use crate::{
    oracle::{
        counts::Counts,
        end_state::{EndState, difference},
    },
    proxy::{request_info::Key, rules::Record},
};

/// How often each workload is recorded.
pub const RECORDINGS: usize = 3;

/// A recording of a workload.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The end state.
    pub end: EndState,
    /// Number of objects created and deleted.
    pub counts: Counts,
    /// The manager's writes, in the order of their responses.
    pub writes: Vec<Record>,
    /// Number of frames, by resource and event type.
    pub frame_counts: Vec<(String, String, usize)>,
    /// The writes of Leases by members, in the order of their responses.
    pub lease_writes: Vec<Record>,
}

/// Expected result of a workload.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// The end state.
    pub end: EndState,
    /// Maximum number of objects created and deleted.
    pub counts: Counts,
    /// Effective writes with their minimum count, in a deterministic order.
    pub writes: Vec<(Key, usize)>,
    /// Minimum number of frames, by resource and event type.
    pub frame_counts: Vec<(String, String, usize)>,
    /// Effective writes of Leases by members, as in `writes`.
    pub lease_writes: Vec<(Key, usize)>,
}

/// Returns the points at which a write fault can be injected: the key and its ordinal.
/// Time-dependent writes come last, so that the numbers of the others are stable.
pub fn points(writes: &[(Key, usize)]) -> Vec<(Key, usize)> {
    let points = |late: bool| {
        let of_time = writes.iter().filter(move |(key, _)| key.depends_on_time() == late);
        of_time.flat_map(|(key, count)| (1..=*count).map(|nth| (key.clone(), nth)))
    };
    points(false).chain(points(true)).collect()
}

/// Combines several recordings into a baseline.
///
/// # Errors
/// Returns an error if the recordings differ in deterministic results.
pub fn baseline(recordings: &[Recording]) -> Result<Baseline> {
    let Some(first) = recordings.first() else { bail!("there are no recordings") };
    let mut counts = Counts::new();
    for recording in recordings {
        if let Some(difference) = difference(&first.end, &recording.end) {
            bail!("the end state differs without a fault: {difference}");
        }
        for (name, (made, deleted)) in &recording.counts {
            let most = counts.entry(name.clone()).or_default();
            *most = (*made.max(&most.0), *deleted.max(&most.1));
        }
    }
    let writes = common(recordings, |recording| &recording.writes)?;
    let lease_writes = common(recordings, |recording| &recording.lease_writes)?;
    let frame_counts = first.frame_counts.iter().filter_map(|(resource, event, _)| {
        let count = |recording: &Recording| {
            let count = recording.frame_counts.iter().find(|count| count.0 == *resource && count.1 == *event);
            count.map_or(0, |count| count.2)
        };
        let least = recordings.iter().map(count).min().filter(|least| *least > 0)?;
        Some((resource.clone(), event.clone(), least))
    });
    let frame_counts = frame_counts.collect();
    Ok(Baseline { end: first.end.clone(), counts, writes, frame_counts, lease_writes })
}

/// Returns the effective writes of all recordings with their minimum count.
fn common(recordings: &[Recording], writes: impl Fn(&Recording) -> &[Record]) -> Result<Vec<(Key, usize)>> {
    let tallies: Vec<_> = recordings.iter().map(|recording| count_effective(writes(recording))).collect();
    let mut common = Vec::new();
    for key in tallies.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
        let times: Vec<_> = tallies.iter().map(|tally| tally.get(key).copied().unwrap_or_default()).collect();
        let (least, most) = (times.iter().min().copied(), times.iter().max().copied());
        ensure!(
            key.depends_on_time() || least == most,
            "the number of writes differs without a fault: {key} {times:?} times"
        );
        common.extend(least.filter(|least| *least > 0).map(|least| (key.clone(), least)));
    }
    Ok(common)
}

/// Counts effective writes. Writes without an effect need no faults.
fn count_effective(writes: &[Record]) -> BTreeMap<Key, usize> {
    let mut count_effective = BTreeMap::new();
    for write in writes.iter().filter(|write| write.changed) {
        *count_effective.entry(write.key.clone()).or_default() += 1;
    }
    count_effective
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::token::Token;

    fn write(resource: &str, changed: bool) -> Record {
        let key = Key { verb: "update".to_owned(), resource: resource.to_owned(), name: "n/RUN".to_owned() };
        Record { token: Token::nth(1), key, code: 200, changed, lacks_uid: false }
    }

    fn recordings(writes: Vec<Record>) -> Recording {
        Recording { writes, ..Recording::default() }
    }

    #[test]
    fn ignores_ineffective_writes_and_counts_time_dependent_ones_at_minimum() {
        let status = || write("podsets.x/status", true);
        let looks = [
            recordings(vec![write("pods", true), write("pods", false), status(), status()]),
            recordings(vec![write("pods", true), status()]),
        ];
        let points = points(&baseline(&looks).unwrap().writes);
        let points: Vec<_> = points.iter().map(|(key, nth)| (key.resource.as_str(), *nth)).collect();
        assert_eq!(points, [("pods", 1), ("podsets.x/status", 1)]);
    }

    #[test]
    fn rejects_nondeterministic_workloads() {
        let looks = [recordings(vec![write("pods", true)]), recordings(vec![])];
        assert!(baseline(&looks).unwrap_err().to_string().contains("the number of writes differs"));
        let other =
            Recording { end: [("Pod n/x".to_owned(), vec![json!({})])].into(), ..Recording::default() };
        let looks = [recordings(vec![]), other];
        assert!(baseline(&looks).unwrap_err().to_string().contains("the end state differs"));
    }
}
