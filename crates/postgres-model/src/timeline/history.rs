//! Timeline history files.

use std::fmt;

use super::{TimelineId, ZeroTimeline};
use crate::lsn::{Lsn, half};

/// Content of a timeline history file: the ancestors of a timeline, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    timeline: TimelineId,
    switches: Vec<Switch>,
}

/// Line of a timeline history file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switch {
    /// The timeline that ends.
    timeline: TimelineId,
    /// Where it ends, and its child begins.
    lsn: Lsn,
}

/// Range of WAL on one timeline of a history. `TimeLineHistoryEntry` of `timeline.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) timeline: TimelineId,
    pub(super) begin: Lsn,
    /// `None` for the timeline of the history itself, which goes on.
    pub(super) end: Option<Lsn>,
}

/// Error of a text that is no timeline history file, as in `readTimeLineHistory` of `timeline.c`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseHistoryError {
    /// A line does not begin with a timeline.
    #[error(
        "line {line} of the history of timeline {timeline} does not begin with a timeline; get the file \
         again from the primary or from the archive"
    )]
    Timeline {
        /// Timeline of the file.
        timeline: TimelineId,
        /// Number of the line, from 1.
        line: usize,
    },
    /// A line has no switch point.
    #[error(
        "line {line} of the history of timeline {timeline} has no position such as 0/3000000 after the \
         timeline; get the file again from the primary or from the archive"
    )]
    SwitchPoint {
        /// Timeline of the file.
        timeline: TimelineId,
        /// Number of the line, from 1.
        line: usize,
    },
    /// A line names a timeline that is not above that of the line before.
    #[error(
        "line {line} of the history of timeline {timeline} is out of order: timelines must ascend; get the \
         file again from the primary or from the archive"
    )]
    Order {
        /// Timeline of the file.
        timeline: TimelineId,
        /// Number of the line, from 1.
        line: usize,
    },
    /// A line names the timeline of the file itself, or one above.
    #[error(
        "line {line} of the history of timeline {timeline} names a timeline that is not below {timeline}; \
         the file may have the wrong name"
    )]
    NotBelow {
        /// Timeline of the file.
        timeline: TimelineId,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl History {
    /// Returns the history of timeline 1, which has no file.
    pub const fn first() -> Self {
        Self { timeline: TimelineId::FIRST, switches: Vec::new() }
    }

    /// Parses the file of a timeline, with the rules of `readTimeLineHistory` in `timeline.c`.
    ///
    /// Blank lines, comments, and what follows the switch point are ignored. Unlike PostgreSQL, signs,
    /// a prefix `0x`, and a missing space after the timeline are errors.
    ///
    /// # Errors
    /// Returns an error that names the first bad line.
    pub fn parse(timeline: TimelineId, text: &str) -> Result<Self, ParseHistoryError> {
        let mut history = Self { timeline, switches: Vec::new() };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| has_content(line)) {
            history.push(line, index + 1)?;
        }
        Ok(history)
    }

    fn push(&mut self, text: &str, line: usize) -> Result<(), ParseHistoryError> {
        let timeline = self.timeline;
        let (number, rest) = split_timeline(text).ok_or(ParseHistoryError::Timeline { timeline, line })?;
        let lsn = switch_point(rest).ok_or(ParseHistoryError::SwitchPoint { timeline, line })?;
        if self.switches.last().is_some_and(|last| number <= last.timeline) {
            return Err(ParseHistoryError::Order { timeline, line });
        }
        if number >= timeline {
            return Err(ParseHistoryError::NotBelow { timeline, line });
        }
        self.switches.push(Switch { timeline: number, lsn });
        Ok(())
    }

    /// Returns the history of `timeline` whose ancestors are all lower timelines, at `0/0`.
    pub(super) fn of_all_below(timeline: TimelineId) -> Self {
        let below = (1..timeline.get()).filter_map(|number| TimelineId::new(number).ok());
        let switches = below.map(|timeline| Switch { timeline, lsn: Lsn::INVALID }).collect();
        Self { timeline, switches }
    }

    /// Returns the timeline whose history this is.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Returns the ancestors, oldest first, and where each of them ends.
    pub fn switches(&self) -> impl Iterator<Item = (TimelineId, Lsn)> {
        self.switches.iter().map(|switch| (switch.timeline, switch.lsn))
    }

    /// Returns the history of the timeline that a member is on whose WAL ends at `end`: this timeline,
    /// or one of its ancestors.
    #[must_use]
    pub fn until(&self, end: Lsn) -> Self {
        let complete = self.switches.iter().position(|switch| end <= switch.lsn);
        let Some(index) = complete else { return self.clone() };
        let (ancestors, rest) = self.switches.split_at(index);
        let timeline = rest.first().map_or(self.timeline, |switch| switch.timeline);
        Self { timeline, switches: ancestors.to_vec() }
    }

    /// Returns the ranges of WAL, oldest first. The last one is that of the timeline itself.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range> {
        let ends = self.switches.iter().map(|switch| (switch.timeline, Some(switch.lsn)));
        let begins = std::iter::once(Lsn::INVALID).chain(self.switches.iter().map(|switch| switch.lsn));
        ends.chain([(self.timeline, None)]).zip(begins).map(|((timeline, end), begin)| Range {
            timeline,
            begin,
            end,
        })
    }
}

/// Renders the file. The history of timeline 1 is empty.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.switches.iter().try_for_each(|switch| writeln!(f, "{}\t{}", switch.timeline, switch.lsn))
    }
}

/// Returns whether a line is neither blank nor a comment.
fn has_content(line: &str) -> bool {
    let line = line.trim_start_matches(is_space);
    !line.is_empty() && !line.starts_with('#')
}

/// `isspace` of C in the locale that PostgreSQL reads files with.
fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// Splits the timeline from the start of a line.
fn split_timeline(line: &str) -> Option<(TimelineId, &str)> {
    let line = line.trim_start_matches(is_space);
    let end = line.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at_checked(end)?;
    let timeline: Result<TimelineId, ZeroTimeline> = TimelineId::new(digits.parse().ok()?);
    Some((timeline.ok()?, rest))
}

/// Reads the switch point: two hexadecimal numbers after white space.
fn switch_point(rest: &str) -> Option<Lsn> {
    let trimmed = rest.trim_start_matches(is_space);
    let has_space = trimmed.len() < rest.len();
    let (high, rest) = trimmed.split_once('/').filter(|_| has_space)?;
    let end = rest.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(rest.len());
    let low = half(rest.split_at_checked(end)?.0)?;
    Some(Lsn(u64::from(half(high)?) << 32 | u64::from(low)))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::{collection::btree_map, prelude::*};

    use super::*;

    pub(in crate::timeline) fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).unwrap()
    }

    pub(in crate::timeline) fn history(own: u32, text: &str) -> History {
        History::parse(timeline(own), text).unwrap()
    }

    /// Histories with ascending switch points, as promotions make them.
    pub(in crate::timeline) fn histories() -> impl Strategy<Value = History> {
        (btree_map(1..6_u32, 1..50_u64, 0..4), 1..3_u32).prop_map(|(switches, above)| {
            let own = switches.keys().last().map_or(1, |last| last + above);
            let mut lsn = 0;
            let switches = switches.into_iter().map(|(number, bytes)| {
                lsn += bytes;
                Switch { timeline: timeline(number), lsn: Lsn(lsn) }
            });
            History { timeline: timeline(own), switches: switches.collect() }
        })
    }

    #[test]
    fn parses_a_file_as_postgresql_writes_it() {
        let text = "1\t0/3000060\tno recovery target specified\n\n2\t16/B374D848\tbefore 2026-11-23\n";
        let parsed = history(4, text);
        assert_eq!(parsed.timeline(), timeline(4));
        assert_eq!(parsed.to_string(), "1\t0/3000060\n2\t16/B374D848\n");
        assert_eq!(
            parsed
                .ranges()
                .map(|range| (range.timeline.get(), range.begin.0, range.end.map(|end| end.0)))
                .collect::<Vec<_>>(),
            [(1, 0, Some(0x300_0060)), (2, 0x300_0060, Some(0x16_B374_D848)), (4, 0x16_B374_D848, None)]
        );
    }

    #[test]
    fn ignores_blank_lines_and_comments() {
        let text = "# a comment\n \t\r\n   # another one\r\n  1   0/AB\n\n3\t0/CD\t# reason";
        assert_eq!(history(5, text).to_string(), "1\t0/AB\n3\t0/CD\n");
        assert_eq!(history(1, ""), History::first());
    }

    #[test]
    fn rejects_what_postgresql_rejects() {
        let error = |text: &str| History::parse(timeline(4), text).unwrap_err();
        let (timeline, line) = (timeline(4), 2);
        assert_eq!(error("1\t0/1\nx\t0/2"), ParseHistoryError::Timeline { timeline, line });
        assert_eq!(error("1\t0/1\n0\t0/2"), ParseHistoryError::Timeline { timeline, line });
        assert_eq!(error("#\n4294967296\t0/2"), ParseHistoryError::Timeline { timeline, line });
        for bad in ["2", "2\t", "2\t0", "2\t0/", "2\t/1", "2\tx/1", "2 0/100000000", "20/1"] {
            assert_eq!(
                error(&format!("\n{bad}")),
                ParseHistoryError::SwitchPoint { timeline, line },
                "{bad}"
            );
        }
        assert_eq!(error("2\t0/1\n2\t0/2"), ParseHistoryError::Order { timeline, line });
        assert_eq!(error("3\t0/1\n1\t0/2"), ParseHistoryError::Order { timeline, line });
        assert_eq!(error("1\t0/1\n4\t0/2"), ParseHistoryError::NotBelow { timeline, line });
    }

    #[test]
    fn end_of_wal_is_on_the_timeline_that_has_its_last_byte() {
        let newest = history(4, "1\t0/50\n3\t0/60\n");
        for (end, expected) in
            [(0x50, history(1, "")), (0x51, history(3, "1\t0/50\n")), (0x61, newest.clone())]
        {
            assert_eq!(newest.until(Lsn(end)), expected);
        }
    }

    proptest! {
        #[test]
        fn rendering_parses_back(history in histories()) {
            prop_assert_eq!(History::parse(history.timeline, &history.to_string()), Ok(history.clone()));
        }

        #[test]
        fn any_text_parses_or_fails(text in "\\PC*|([0-9]{1,2}[ \t][0-9A-F]{1,3}/[0-9A-F]{0,3}.?\n?){0,4}", own in 1..9_u32) {
            if let Ok(history) = History::parse(timeline(own), &text) {
                prop_assert_eq!(History::parse(timeline(own), &history.to_string()), Ok(history));
            }
        }
    }
}
