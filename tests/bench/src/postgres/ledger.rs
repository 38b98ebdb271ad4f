//! Rows that members have acknowledged, with the times.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// An acknowledged row.
struct Row {
    number: i64,
    member: String,
    at: Instant,
}

/// All acknowledged rows.
#[derive(Default)]
pub(crate) struct Ledger {
    numbers: AtomicI64,
    rows: Mutex<Vec<Row>>,
}

impl Ledger {
    /// Returns the number of the next row.
    pub(crate) fn next(&self) -> i64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Remembers that a member has acknowledged a row.
    pub(crate) fn acknowledged(&self, number: i64, member: &str) {
        self.rows.lock().push(Row { number, member: member.to_owned(), at: Instant::now() });
    }

    /// Returns the number of acknowledged rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.lock().len()
    }

    /// Returns the number of acknowledged rows that are not among those.
    pub(crate) fn missing(&self, present: &HashSet<i64>) -> usize {
        self.rows.lock().iter().filter(|row| !present.contains(&row.number)).count()
    }

    /// Returns whether a row was acknowledged after a moment.
    pub(crate) fn has_row_after(&self, moment: Instant) -> bool {
        self.rows.lock().iter().any(|row| row.at > moment)
    }

    /// Returns the longest time without an acknowledged row that ended after a moment.
    pub(crate) fn longest_gap(&self, moment: Instant) -> Option<Duration> {
        let rows = self.rows.lock();
        // Clients add rows in the order of their acknowledgements, but for microseconds.
        let pairs = rows.iter().zip(rows.iter().skip(1)).filter(|(_, next)| next.at > moment);
        pairs.map(|(row, next)| next.at.saturating_duration_since(row.at)).max()
    }

    /// Returns the time from a moment to the last row of a member.
    pub(crate) fn last_of(&self, member: &str, moment: Instant) -> Option<Duration> {
        let rows = self.rows.lock();
        let last = rows.iter().rev().find(|row| row.member == member)?;
        Some(last.at.saturating_duration_since(moment))
    }

    /// Returns the time from a moment to the first row of another member.
    pub(crate) fn first_of_others(&self, member: &str, moment: Instant) -> Option<Duration> {
        let rows = self.rows.lock();
        let first = rows.iter().find(|row| row.member != member && row.at > moment)?;
        Some(first.at.saturating_duration_since(moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ledger with a row at each of these times in milliseconds, and its begin.
    fn ledger(rows: &[(&str, u64)]) -> (Ledger, Instant) {
        let (ledger, began) = (Ledger::default(), Instant::now());
        for (member, millis) in rows {
            let at = began + Duration::from_millis(*millis);
            ledger.rows.lock().push(Row { number: ledger.next(), member: (*member).to_owned(), at });
        }
        (ledger, began)
    }

    #[test]
    fn longest_gap_is_the_one_that_ends_after_the_moment() {
        let (ledger, began) = ledger(&[("a", 0), ("a", 900), ("a", 1000), ("b", 1700), ("b", 1710)]);
        let moment = began + Duration::from_millis(950);
        assert_eq!(ledger.longest_gap(moment), Some(Duration::from_millis(700)));
        assert_eq!(ledger.longest_gap(began + Duration::from_secs(2)), None);
    }

    #[test]
    fn rows_of_a_former_primary_are_told_from_those_of_the_next() {
        let (ledger, began) = ledger(&[("b", 0), ("a", 50), ("a", 1000), ("b", 1700), ("b", 1710)]);
        let moment = began + Duration::from_millis(100);
        assert_eq!(ledger.last_of("a", moment), Some(Duration::from_millis(900)));
        assert_eq!(ledger.first_of_others("a", moment), Some(Duration::from_millis(1600)));
        assert_eq!(ledger.last_of("c", moment), None);
    }

    #[test]
    fn rows_that_a_member_lacks_are_counted() {
        let (ledger, _) = ledger(&[("a", 0), ("a", 1), ("a", 2)]);
        assert_eq!((ledger.len(), ledger.missing(&HashSet::from([0, 2, 9]))), (3, 1));
    }
}
