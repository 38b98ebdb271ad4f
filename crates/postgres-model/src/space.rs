//! Space of a volume: when it is full, and what an instance keeps in reserve.
//!
//! PostgreSQL survives a full disk only by luck: a statement that finds no room for its rows fails,
//! and a server that finds no room for the next WAL segment ends at once. So an instance stops
//! PostgreSQL before that. It keeps a *ballast* file, and gives it up for the last checkpoint and the
//! next recovery.
//!
//! ```text
//! free     0 ─────── reserve ─────────────────────── 4 × reserve ─────▶
//! with the ballast    │ stops below                      │
//! after it was spent  │                                  │ starts again from here
//! ```

use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Bounds of the reserve. The least is a WAL segment of 16 MiB, and half of one for the rest.
const RESERVE: std::ops::RangeInclusive<u64> = 24 * MIB..=64 * MIB;
/// The reserve is the fiftieth part of a volume, within its bounds.
const RESERVE_PART: u64 = 50;
/// How many reserves a full volume needs before PostgreSQL starts again. One becomes the ballast,
/// and two can be filled before PostgreSQL stops again.
const RESUME: u64 = 4;
/// A volume of which less than this part is free has little space.
const LOW_PART: u64 = 10;
/// No volume of a database is filled faster.
const FASTEST_PER_SECOND: u64 = 1 << 30;
/// Shortest and longest time between two looks.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Space of a volume, as an instance sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the volume. Zero if they are not known: nothing is full then.
    pub total: u64,
    /// Bytes that PostgreSQL can still write.
    pub free: u64,
    /// Bytes in temporary files of queries. They become free when their statements fail, or when
    /// PostgreSQL starts.
    pub temporary: u64,
    /// The ballast file.
    pub ballast: Ballast,
    /// Bytes that a copy of the primary had, and that were too few for it.
    pub too_few_for_copy: Option<u64>,
}

/// The ballast file. Its state survives restarts of the instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ballast {
    /// There is none of the right size.
    #[default]
    Missing,
    /// It has its full size on disk.
    Whole,
    /// It was given up because the volume was full.
    Spent,
}

/// What an instance does with its ballast file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BallastIntent {
    /// Leave it as it is.
    Keep,
    /// Allocate its full size.
    Allocate,
    /// Give it up, and remember that.
    Spend,
}

impl Space {
    /// Returns whether PostgreSQL must not write to the volume.
    ///
    /// After the ballast was spent, much more has to be free than before, so that PostgreSQL does not
    /// start and stop again and again.
    pub fn is_full(&self) -> bool {
        let reserves = if self.ballast == Ballast::Spent { RESUME } else { 1 };
        self.total > 0 && self.available() < reserves * reserve(self.total)
    }

    /// Returns what to do with the ballast.
    pub fn ballast_intent(&self) -> BallastIntent {
        let has_room = self.total > 0 && self.free >= 2 * reserve(self.total);
        match self.ballast {
            Ballast::Spent if self.is_full() => BallastIntent::Keep,
            _ if self.is_full() => BallastIntent::Spend,
            Ballast::Missing | Ballast::Spent if has_room => BallastIntent::Allocate,
            _ => BallastIntent::Keep,
        }
    }

    /// Returns the bytes that a copy of the primary can use.
    pub fn for_copy(&self) -> u64 {
        let ballast = if self.ballast == Ballast::Whole { reserve(self.total) } else { 0 };
        self.free.saturating_add(ballast)
    }

    /// Returns whether a copy can fit. One that did not is tried again when there is more space.
    pub fn may_copy(&self) -> bool {
        let has_more = |had: u64| self.for_copy() >= had.saturating_add(reserve(self.total));
        self.too_few_for_copy.is_none_or(has_more)
    }

    /// Returns how long the volume cannot get full, even if it is filled as fast as possible.
    pub fn next_look(&self) -> Duration {
        let (shortest, longest) = LOOK;
        if self.total == 0 {
            return longest;
        }
        let left = self.available().saturating_sub(reserve(self.total));
        let millis = left.saturating_mul(1000) / FASTEST_PER_SECOND;
        Duration::from_millis(millis).clamp(shortest, longest)
    }

    fn available(&self) -> u64 {
        self.free.saturating_add(self.temporary)
    }
}

/// Returns the bytes of the ballast of a volume, and the free bytes below which it is full.
pub fn reserve(total: u64) -> u64 {
    (total / RESERVE_PART).clamp(*RESERVE.start(), *RESERVE.end())
}

/// Returns whether a volume has little space: less than a tenth, and on small volumes less than two
/// reserves. `was_low` is whether it had at the last look. It then needs half as much again, so that
/// it does not change with each WAL segment.
pub fn is_low(total: u64, free: u64, was_low: bool) -> bool {
    let limit = (total / LOW_PART).max(2 * reserve(total));
    let limit = if was_low { limit.saturating_add(limit / 2) } else { limit };
    total > 0 && free < limit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn space(total: u64, free: u64, ballast: Ballast) -> Space {
        Space { total, free, ballast, ..Space::default() }
    }

    #[test]
    fn reserve_is_two_percent_within_bounds() {
        for (total, expected) in [(256 * MIB, 24), (GIB, 24), (2 * GIB, 40), (4 * GIB, 64), (GIB << 10, 64)] {
            assert_eq!(reserve(total) / MIB, expected, "{total}");
        }
    }

    #[test]
    fn volume_is_full_below_the_reserve_and_until_there_is_four_times_as_much() {
        for (free, ballast, expected) in [
            (64, Ballast::Whole, false),
            (63, Ballast::Whole, true),
            (63, Ballast::Missing, true),
            (255, Ballast::Spent, true),
            (256, Ballast::Spent, false),
        ] {
            assert_eq!(space(10 * GIB, free * MIB, ballast).is_full(), expected, "{free} {ballast:?}");
        }
        assert!(!Space::default().is_full(), "nothing is known");
    }

    #[test]
    fn temporary_files_of_a_query_do_not_make_a_volume_full() {
        let sorting = Space { temporary: GIB, ..space(10 * GIB, 0, Ballast::Whole) };
        assert!(!sorting.is_full());
        assert_eq!(sorting.ballast_intent(), BallastIntent::Keep);
    }

    #[test]
    fn ballast_is_spent_on_a_full_volume_and_allocated_when_there_is_room() {
        for (free, ballast, expected) in [
            (63, Ballast::Whole, BallastIntent::Spend),
            (63, Ballast::Missing, BallastIntent::Spend),
            (63, Ballast::Spent, BallastIntent::Keep),
            (255, Ballast::Spent, BallastIntent::Keep),
            (256, Ballast::Spent, BallastIntent::Allocate),
            (127, Ballast::Missing, BallastIntent::Keep),
            (128, Ballast::Missing, BallastIntent::Allocate),
            (128, Ballast::Whole, BallastIntent::Keep),
        ] {
            let intent = space(10 * GIB, free * MIB, ballast).ballast_intent();
            assert_eq!(intent, expected, "{free} {ballast:?}");
        }
    }

    #[test]
    fn copy_that_did_not_fit_is_tried_again_with_more_space() {
        let mut space = space(GIB, 400 * MIB, Ballast::Whole);
        assert!(space.may_copy());
        space.too_few_for_copy = Some(space.for_copy());
        assert!(!space.may_copy());
        (space.ballast, space.free) = (Ballast::Spent, 424 * MIB);
        assert!(!space.may_copy(), "only the ballast is gone");
        space.free += 24 * MIB;
        assert!(space.may_copy());
    }

    #[test]
    fn small_volume_is_not_low_from_its_birth() {
        // A new database has about 40 MiB, and up to 80 MiB of WAL.
        for total in [256 * MIB, 512 * MIB, GIB] {
            assert!(!is_low(total, total - 120 * MIB - reserve(total), true), "{total}");
        }
        for (free, was_low, expected) in
            [(1023, false, true), (1024, false, false), (1024, true, true), (1536, true, false)]
        {
            assert_eq!(is_low(10 * GIB, free * MIB, was_low), expected, "{free}");
        }
        assert!(is_low(256 * MIB, 47 * MIB, false), "before PostgreSQL stops");
        assert!(!is_low(0, 0, true), "nothing is known");
    }

    #[test]
    fn looks_are_more_frequent_when_less_is_left() {
        let millis = |free: u64| space(100 * GIB, free, Ballast::Whole).next_look().as_millis();
        assert_eq!((millis(50 * GIB), millis(576 * MIB), millis(0)), (1000, 500, 50));
        assert_eq!(Space::default().next_look(), Duration::from_secs(1));
    }

    proptest! {
        /// Whatever is done with the ballast, a volume does not change between full and not full.
        #[test]
        fn ballast_does_not_make_a_volume_full_or_free(
            total in 1..1_u64 << 44,
            free in 0..1_u64 << 34,
            ballast in prop::sample::select(vec![Ballast::Missing, Ballast::Whole, Ballast::Spent]),
        ) {
            let before = space(total, free, ballast);
            let reserve = reserve(total);
            let after = match before.ballast_intent() {
                BallastIntent::Keep => before,
                BallastIntent::Allocate => Space { free: free - reserve, ballast: Ballast::Whole, ..before },
                BallastIntent::Spend => {
                    let freed = if ballast == Ballast::Whole { reserve } else { 0 };
                    Space { free: free + freed, ballast: Ballast::Spent, ..before }
                }
            };
            prop_assert_eq!(after.is_full(), before.is_full());
            prop_assert_eq!(after.ballast_intent(), BallastIntent::Keep);
        }
    }
}
