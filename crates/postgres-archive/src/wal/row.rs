//! The segments that a recovery reads, one after the other, across timelines.

use postgres_model::{
    lsn::Lsn,
    timeline::{History, TimelineId},
    wal_file::{SegmentSize, WalSegment},
};

/// Segments of the ancestors of a timeline, and of the timeline itself.
///
/// A segment in which a timeline begins exists twice: the copy of the later timeline has all that
/// precedes the fork, and what follows on that timeline. PostgreSQL reads that copy
/// (`XLogFileReadAnyTLI` of `xlogrecovery.c`), so the row has only that one.
pub(crate) struct Row<'a> {
    history: &'a History,
    size: SegmentSize,
}

impl<'a> Row<'a> {
    pub(crate) fn new(history: &'a History, size: SegmentSize) -> Self {
        Self { history, size }
    }

    /// Returns the timelines, oldest first, and where each begins.
    fn begins(&self) -> impl Iterator<Item = (TimelineId, Lsn)> {
        let timelines = self.history.switches().map(|(timeline, _)| timeline);
        let ends = self.history.switches().map(|(_, end)| end);
        timelines.chain([self.history.timeline()]).zip([Lsn::INVALID].into_iter().chain(ends))
    }

    /// Returns the segment with a number: `None` if no segment has it.
    pub(crate) fn segment(&self, number: u64) -> Option<WalSegment> {
        let reached = self.begins().filter(|(_, begin)| self.size.segment_number(*begin) <= number);
        self.at(reached.last()?.0, number)
    }

    fn at(&self, timeline: TimelineId, number: u64) -> Option<WalSegment> {
        Some(WalSegment::at(timeline, Lsn(number.checked_mul(self.size.bytes())?), self.size))
    }

    /// Returns the number of a segment: `None` if segments of this size have no such name.
    pub(crate) fn number(&self, segment: WalSegment) -> Option<u64> {
        Some(self.size.segment_number(segment.start(self.size)?))
    }

    /// Returns the numbers of the segments that are read from a timeline: from the first one to the last
    /// one. `None`: the timeline is no part of the row, or all its segments are read from later ones.
    pub(crate) fn numbers(&self, timeline: TimelineId) -> Option<(u64, u64)> {
        let number = |lsn| self.size.segment_number(lsn);
        let (_, begin) = self.begins().find(|(other, _)| *other == timeline)?;
        let later = self.begins().skip_while(|(other, _)| *other != timeline).skip(1);
        let next = later.map(|(_, begin)| number(begin)).min();
        let last = next.map_or_else(|| Some(number(Lsn(u64::MAX))), |next| next.checked_sub(1))?;
        (number(begin) <= last).then_some((number(begin), last))
    }

    /// Returns the first segment from number `first` to number `last` that does not exist.
    ///
    /// With `until`, the recovery ends at this position in the last segment, and the copy of an earlier
    /// timeline is enough if the position is before the fork.
    pub(crate) fn missing(
        &self,
        first: u64,
        last: u64,
        until: Option<Lsn>,
        exists: impl Fn(WalSegment) -> bool,
    ) -> Option<WalSegment> {
        let is_there = |segment| exists(segment) || self.has_copy(segment, last, until, &exists);
        (first..=last).map_while(|number| self.segment(number)).find(|segment| !is_there(*segment))
    }

    fn has_copy(
        &self,
        segment: WalSegment,
        last: u64,
        until: Option<Lsn>,
        exists: impl Fn(WalSegment) -> bool,
    ) -> bool {
        let Some(until) = until.filter(|_| self.number(segment) == Some(last)) else { return false };
        // The timeline of the position, and those that begin after it in the same segment.
        let reached = self.begins().filter(|(_, begin)| self.size.segment_number(*begin) <= last);
        let reached: Vec<_> = reached.collect();
        let first = reached.iter().rposition(|(_, begin)| *begin <= until).unwrap_or_default();
        let mut copies = reached.iter().skip(first).filter_map(|(timeline, _)| self.at(*timeline, last));
        copies.any(exists)
    }

    /// Returns whether a position on a timeline is part of this history.
    pub(crate) fn contains(&self, timeline: TimelineId, lsn: Lsn) -> bool {
        let end = self.history.switches().find(|(other, _)| *other == timeline).map(|(_, end)| end);
        timeline == self.history.timeline() || end.is_some_and(|end| lsn <= end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SIZE: SegmentSize = SegmentSize::DEFAULT;

    fn history(timeline: u32, text: &str) -> History {
        History::parse(TimelineId::new(timeline).unwrap(), text).unwrap()
    }

    fn names(history: &History, numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
        let row = Row::new(history, SIZE);
        numbers.map(|number| row.segment(number).unwrap().to_string()).collect()
    }

    #[test]
    fn segment_of_a_fork_is_read_from_the_later_timeline() {
        // Forks in segment 3, at the start of segment 5, and twice in segment 6.
        let history = history(5, "1\t0/3000028\n2\t0/5000000\n3\t0/6000100\n4\t0/6000200\n");
        assert_eq!(
            names(&history, 2..=7),
            [
                "000000010000000000000002",
                "000000020000000000000003",
                "000000020000000000000004",
                "000000030000000000000005",
                "000000050000000000000006",
                "000000050000000000000007"
            ]
        );
        let row = Row::new(&history, SIZE);
        let numbers = |timeline| row.numbers(TimelineId::new(timeline).unwrap());
        assert_eq!(numbers(1), Some((0, 2)));
        assert_eq!(numbers(2), Some((3, 4)));
        assert_eq!(numbers(3), Some((5, 5)));
        assert_eq!(numbers(4), None);
        assert_eq!(numbers(5), Some((6, u64::MAX >> 24)));
        assert_eq!(numbers(6), None);
    }

    #[test]
    fn missing_segment_is_named() {
        let history = history(2, "1\t0/3000028\n");
        let row = Row::new(&history, SIZE);
        let mut archive: BTreeSet<_> = (1..=5).filter_map(|number| row.segment(number)).collect();
        let missing =
            |archive: &BTreeSet<_>, until| row.missing(1, 5, until, |segment| archive.contains(&segment));
        assert_eq!(missing(&archive, None), None);
        assert_eq!(row.missing(1, 9, None, |segment| archive.contains(&segment)), row.segment(6));
        let fork = row.segment(3).unwrap();
        archive.remove(&fork);
        archive.insert(row.at(TimelineId::FIRST, 3).unwrap());
        assert_eq!(missing(&archive, None), Some(fork));
    }

    #[test]
    fn copy_before_the_fork_is_enough_for_a_position_before_it() {
        let history = history(2, "1\t0/3000028\n");
        let row = Row::new(&history, SIZE);
        let archive: BTreeSet<_> = (1..=3).filter_map(|number| row.at(TimelineId::FIRST, number)).collect();
        let missing = |until| row.missing(1, 3, Some(Lsn(until)), |segment| archive.contains(&segment));
        assert_eq!(missing(0x300_0027), None);
        assert_eq!(missing(0x300_0028), row.segment(3));
    }

    #[test]
    fn position_after_the_fork_is_on_another_history() {
        let history = history(3, "1\t0/3000028\n2\t0/5000000\n");
        let row = Row::new(&history, SIZE);
        let contains = |timeline, lsn| row.contains(TimelineId::new(timeline).unwrap(), Lsn(lsn));
        assert!(contains(1, 0x300_0028) && !contains(1, 0x300_0029));
        assert!(contains(2, 0x500_0000) && !contains(2, 0x500_0001));
        assert!(contains(3, u64::MAX) && !contains(4, 0));
    }

    proptest! {
        #[test]
        fn numbers_are_those_whose_segment_has_the_timeline(forks in prop::collection::vec(0..8_u64 << 24, 0..4)) {
            let mut forks = forks;
            forks.sort_unstable();
            let lines: Vec<_> = forks.iter().zip(1..).map(|(fork, n)| format!("{n}\t{}\n", Lsn(*fork))).collect();
            let history = history(u32::try_from(forks.len()).unwrap() + 1, &lines.concat());
            let row = Row::new(&history, SIZE);
            for number in 0..10 {
                let timeline = row.segment(number).unwrap().timeline();
                let (first, last) = row.numbers(timeline).unwrap();
                prop_assert!((first..=last).contains(&number));
            }
        }

        #[test]
        fn hostile_ranges_end(first: u64, last: u64) {
            let history = History::first();
            let found = Row::new(&history, SIZE).missing(first, last, None, |_| false);
            prop_assert_eq!(found.is_some(), first <= last && first <= u64::MAX >> 24);
        }
    }
}
