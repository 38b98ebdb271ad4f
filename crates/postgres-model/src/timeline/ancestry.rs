//! Where two histories part, and whether a member can follow a primary.

use super::{History, Position, TimelineId};
use crate::lsn::Lsn;

/// Last timeline that two histories share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Last timeline that both histories contain, from the same position on.
    pub timeline: TimelineId,
    /// Position at which the first of them leaves the timeline. `None` if neither does.
    pub lsn: Option<Lsn>,
}

/// Returns where two histories part, as `findCommonAncestorTimeline` of `pg_rewind.c` does.
///
/// Returns `None` if they have no timeline in common.
pub fn fork(a: &History, b: &History) -> Option<Fork> {
    let shared = a.ranges().zip(b.ranges());
    let shared = shared.take_while(|(a, b)| (a.timeline, a.begin) == (b.timeline, b.begin));
    let (a, b) = shared.last()?;
    Some(Fork { timeline: a.timeline, lsn: a.end.into_iter().chain(b.end).min() })
}

/// Relation of a member's WAL to the history of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ancestry {
    /// The member can follow the primary without `pg_rewind`.
    ///
    /// A member on the timeline of the primary always can. If it has more WAL than the primary, the
    /// primary lost WAL. The caller compares the positions.
    Ancestor,
    /// The member has WAL after this position that the primary lacks. It needs `pg_rewind`.
    Diverged(Position),
    /// The histories have no timeline in common. Clone the member again.
    Unrelated,
}

/// Returns the relation of a member to a primary.
///
/// `member` is the history of the member's timeline, and `end` is where its WAL ends. A member on an
/// ancestor of the primary's timeline follows if its WAL ends at the fork or before it: the rule of
/// `rescanLatestTimeLine` in `xlogrecovery.c`, and of `pg_rewind.c` for "no rewind required".
///
/// The result relies on unique numbers: two promotions with the same number can have identical
/// histories although their WAL differs.
pub fn ancestry(member: &History, end: Lsn, primary: &History) -> Ancestry {
    let Some(fork) = fork(member, primary) else { return Ancestry::Unrelated };
    match fork.lsn {
        None => Ancestry::Ancestor,
        Some(lsn) if fork.timeline == member.timeline() && end <= lsn => Ancestry::Ancestor,
        Some(lsn) => Ancestry::Diverged(Position { timeline: fork.timeline, lsn }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::history::tests::{histories, history, timeline};

    fn diverged(number: u32, lsn: u64) -> Ancestry {
        Ancestry::Diverged(Position { timeline: timeline(number), lsn: Lsn(lsn) })
    }

    #[test]
    fn former_primary_follows_if_it_stopped_before_the_fork() {
        let successor = history(2, "1\t0/40\n");
        for (end, expected) in
            [(0x3F, Ancestry::Ancestor), (0x40, Ancestry::Ancestor), (0x41, diverged(1, 0x40))]
        {
            assert_eq!(ancestry(&History::first(), Lsn(end), &successor), expected, "{end:X}");
        }
    }

    #[test]
    fn member_on_the_timeline_of_the_primary_follows() {
        let both = history(2, "1\t0/40\n");
        assert_eq!(ancestry(&both, Lsn(u64::MAX), &both), Ancestry::Ancestor);
        assert_eq!(fork(&both, &both), Some(Fork { timeline: timeline(2), lsn: None }));
    }

    #[test]
    fn interrupted_promotion_diverged_where_it_forked() {
        let interrupted = history(2, "1\t0/40\n");
        assert_eq!(ancestry(&interrupted, Lsn(0x40), &history(3, "1\t0/50\n")), diverged(1, 0x40));
        assert_eq!(ancestry(&interrupted, Lsn(0x40), &history(3, "1\t0/30\n")), diverged(1, 0x30));
        assert_eq!(ancestry(&interrupted, Lsn(0x40), &History::first()), diverged(1, 0x40));
    }

    #[test]
    fn same_number_from_another_position_is_another_timeline() {
        let (member, primary) = (history(3, "1\t0/40\n2\t0/50\n"), history(4, "1\t0/30\n2\t0/60\n"));
        assert_eq!(ancestry(&member, Lsn(0x55), &primary), diverged(1, 0x30));
    }

    #[test]
    fn histories_without_a_common_timeline_are_unrelated() {
        let (member, primary) = (history(3, "2\t0/40\n"), history(3, "1\t0/40\n"));
        assert_eq!(fork(&member, &primary), None);
        assert_eq!(ancestry(&member, Lsn(1), &primary), Ancestry::Unrelated);
    }

    proptest! {
        #[test]
        fn fork_is_symmetric(a in histories(), b in histories()) {
            prop_assert_eq!(fork(&a, &b), fork(&b, &a));
        }

        #[test]
        fn ancestor_never_diverged(primary in histories(), index: prop::sample::Index, back in 0..60_u64) {
            let ranges: Vec<_> = primary.ranges().collect();
            let range = index.get(&ranges);
            let lines = primary.to_string().lines().map(str::to_owned).collect::<Vec<_>>();
            let before = ranges.iter().position(|other| other == range).unwrap();
            let member = history(range.timeline.get(), &lines[..before].join("\n"));
            let end = Lsn(range.end.map_or(u64::MAX, |end| end.0).saturating_sub(back));
            prop_assert_eq!(ancestry(&member, end, &primary), Ancestry::Ancestor);
        }

        #[test]
        fn wal_after_the_fork_diverged(primary in histories(), index: prop::sample::Index, more in 1..60_u64) {
            let ranges: Vec<_> = primary.ranges().collect();
            let before = index.index(ranges.len());
            let lines = primary.to_string().lines().map(str::to_owned).collect::<Vec<_>>();
            let member = history(ranges[before].timeline.get(), &lines[..before].join("\n"));
            if let Some(fork) = ranges[before].end {
                let expected = diverged(ranges[before].timeline.get(), fork.0);
                prop_assert_eq!(ancestry(&member, Lsn(fork.0 + more), &primary), expected);
            }
        }
    }
}
