//! Stub histories, which make a promotion take exactly the claimed timeline.

use super::{History, TimelineId};

/// Highest claim for which stubs are written. A stub has a line for each lower timeline, so a claim
/// without a limit would fill the volume.
const MAX_CLAIM: u32 = 65_536;
/// Most stubs of one promotion.
const MAX_STUBS: u32 = 256;

/// Error of a claim for which no stubs can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StubError {
    /// The claim is not above the timeline of the member.
    #[error(
        "cannot promote a member on timeline {current} to timeline {claim}: the claim must be higher; claim \
         a number above every known timeline"
    )]
    NotAbove {
        /// Timeline of the member.
        current: TimelineId,
        /// Claimed timeline.
        claim: TimelineId,
    },
    /// The gap or the claim is too large.
    #[error(
        "cannot promote a member on timeline {current} to timeline {claim}: at most {MAX_STUBS} timelines \
         may lie between them, and a claim with a gap may be at most {MAX_CLAIM}; clone the cluster into a \
         new one"
    )]
    TooMany {
        /// Timeline of the member.
        current: TimelineId,
        /// Claimed timeline.
        claim: TimelineId,
    },
}

/// Returns the histories to write into `pg_wal` before a member is promoted, lowest first.
///
/// PostgreSQL takes the number after the last timeline whose history file exists without a gap
/// (`findNewestTimeLine` of `timeline.c`). Stubs for the numbers between the member's timeline and
/// the claim therefore make it take exactly the claim. Each stub lists all lower timelines at `0/0`,
/// as decision 29 tried on 14 to 18. A claim of the next number needs no stub.
///
/// # Errors
/// Returns an error if the claim is not above the timeline, or the gap is too large.
pub fn stub_histories(
    current: TimelineId,
    claim: TimelineId,
) -> Result<impl Iterator<Item = History>, StubError> {
    let first = current.next().filter(|first| *first <= claim);
    let first = first.ok_or(StubError::NotAbove { current, claim })?;
    let stubs = claim.get() - first.get();
    if stubs > MAX_STUBS || (stubs > 0 && claim.get() > MAX_CLAIM) {
        return Err(StubError::TooMany { current, claim });
    }
    let between = (first.get()..claim.get()).filter_map(|number| TimelineId::new(number).ok());
    Ok(between.map(History::of_all_below))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::timeline::history::tests::timeline;

    fn stubs(current: u32, claim: u32) -> Result<Vec<History>, StubError> {
        stub_histories(timeline(current), timeline(claim)).map(Iterator::collect)
    }

    /// `findNewestTimeLine` of `timeline.c`.
    fn newest(start: u32, files: &BTreeSet<u32>) -> u32 {
        (start + 1..=u32::MAX).take_while(|probe| files.contains(probe)).last().unwrap_or(start)
    }

    #[test]
    fn gap_gets_a_stub_for_each_number() {
        let texts: Vec<_> = stubs(1, 4).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["1\t0/0\n", "1\t0/0\n2\t0/0\n"]);
        assert_eq!(stubs(3, 4), Ok(vec![]));
    }

    #[test]
    fn claim_must_be_above_the_timeline() {
        for (current, claim) in [(4, 4), (4, 3), (u32::MAX, u32::MAX)] {
            let expected = StubError::NotAbove { current: timeline(current), claim: timeline(claim) };
            assert_eq!(stubs(current, claim), Err(expected));
        }
    }

    #[test]
    fn large_gaps_and_claims_are_refused() {
        assert_eq!(stubs(1, MAX_STUBS + 2).unwrap().len(), 256);
        for (current, claim) in [(1, MAX_STUBS + 3), (1, u32::MAX), (MAX_CLAIM - 1, MAX_CLAIM + 1)] {
            let expected = StubError::TooMany { current: timeline(current), claim: timeline(claim) };
            assert_eq!(stubs(current, claim), Err(expected));
        }
        assert_eq!(stubs(u32::MAX - 1, u32::MAX), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn promotion_takes_the_claim(current in 1..40_u32, above in 1..40_u32) {
            let claim = current + above;
            let stubs = stubs(current, claim).unwrap();
            let files = stubs.iter().map(|stub| stub.timeline().get()).collect();
            prop_assert_eq!(newest(current, &files) + 1, claim);
            for stub in stubs {
                prop_assert_eq!(History::parse(stub.timeline(), &stub.to_string()), Ok(stub));
            }
        }
    }
}
