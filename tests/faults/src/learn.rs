//! What a workload does where nothing goes wrong.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use crate::{
    oracle::{
        counts::Counts,
        normal::{EndState, difference},
    },
    proxy::{asked::Key, rules::Record},
};

/// How often a workload is looked at.
pub const TIMES: usize = 3;

/// What was seen of a workload once.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it came to.
    pub end: EndState,
    /// What was made and deleted.
    pub counts: Counts,
    /// The writes of the manager, in the order of their answers.
    pub writes: Vec<Record>,
    /// How many frames the manager was told, by resource and event.
    pub notices: Vec<(String, String, usize)>,
}

/// What runs of a workload are held to.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// What it comes to.
    pub end: EndState,
    /// What is made and deleted at most.
    pub counts: Counts,
    /// The writes that change something, with how often each comes at least. In an order that depends on nothing.
    pub writes: Vec<(Key, usize)>,
    /// How many frames the manager is told at least, by resource and event.
    pub notices: Vec<(String, String, usize)>,
}

impl Reference {
    /// The points at which a write may be struck: its key and which of its kind. What depends on time comes last, so
    /// that the others keep their numbers.
    pub fn points(&self) -> Vec<(Key, usize)> {
        let points = |late: bool| {
            let of_time = self.writes.iter().filter(move |(key, _)| key.depends_on_time() == late);
            of_time.flat_map(|(key, count)| (1..=*count).map(|nth| (key.clone(), nth)))
        };
        points(false).chain(points(true)).collect()
    }
}

/// What several looks have in common.
///
/// # Errors
/// When they differ in what must not differ.
pub fn reference(seen: &[Seen]) -> Result<Reference> {
    let Some(first) = seen.first() else { bail!("nothing was seen") };
    let mut counts = Counts::new();
    for look in seen {
        if let Some(difference) = difference(&first.end, &look.end) {
            bail!("without a fault, it does not always come to the same: {difference}");
        }
        for (name, (made, deleted)) in &look.counts {
            let most = counts.entry(name.clone()).or_default();
            *most = (*made.max(&most.0), *deleted.max(&most.1));
        }
    }
    let tallies: Vec<_> = seen.iter().map(|look| tally(&look.writes)).collect();
    let mut writes = Vec::new();
    for key in tallies.iter().flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>() {
        let times: Vec<_> = tallies.iter().map(|tally| tally.get(key).copied().unwrap_or_default()).collect();
        let (least, most) = (times.iter().min().copied(), times.iter().max().copied());
        ensure!(
            key.depends_on_time() || least == most,
            "without a fault, it does not always write the same: {key} {times:?} times"
        );
        writes.extend(least.filter(|least| *least > 0).map(|least| (key.clone(), least)));
    }
    let notices = first.notices.iter().filter_map(|(resource, event, _)| {
        let count = |look: &Seen| {
            let told = look.notices.iter().find(|told| told.0 == *resource && told.1 == *event);
            told.map_or(0, |told| told.2)
        };
        let least = seen.iter().map(count).min().filter(|least| *least > 0)?;
        Some((resource.clone(), event.clone(), least))
    });
    Ok(Reference { end: first.end.clone(), counts, writes, notices: notices.collect() })
}

/// How often each write came that changed something. What changed nothing need not be struck.
fn tally(writes: &[Record]) -> BTreeMap<Key, usize> {
    let mut tally = BTreeMap::new();
    for write in writes.iter().filter(|write| write.changed) {
        *tally.entry(write.key.clone()).or_default() += 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::token::Token;

    fn write(resource: &str, changed: bool) -> Record {
        let key = Key { verb: "update".to_owned(), resource: resource.to_owned(), name: "n/RUN".to_owned() };
        Record { token: Token::nth(1), key, code: 200, changed, deletes_blindly: false }
    }

    fn seen(writes: Vec<Record>) -> Seen {
        Seen { writes, ..Seen::default() }
    }

    #[test]
    fn what_changed_nothing_is_left_out_and_what_depends_on_time_counts_as_often_as_it_surely_comes() {
        let status = || write("podsets.x/status", true);
        let looks = [
            seen(vec![write("pods", true), write("pods", false), status(), status()]),
            seen(vec![write("pods", true), status()]),
        ];
        let points = reference(&looks).unwrap().points();
        let points: Vec<_> = points.iter().map(|(key, nth)| (key.resource.as_str(), *nth)).collect();
        assert_eq!(points, [("pods", 1), ("podsets.x/status", 1)]);
    }

    #[test]
    fn a_workload_that_is_not_the_same_each_time_is_refused() {
        let looks = [seen(vec![write("pods", true)]), seen(vec![])];
        assert!(reference(&looks).unwrap_err().to_string().contains("does not always write the same"));
        let other = Seen { end: [("Pod n/x".to_owned(), vec![json!({})])].into(), ..Seen::default() };
        let looks = [seen(vec![]), other];
        assert!(reference(&looks).unwrap_err().to_string().contains("does not always come to the same"));
    }
}
