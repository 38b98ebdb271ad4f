//! Timelines: the lines of WAL that promotions begin.
//!
//! The timeline history file `0000000N.history` lists the ancestors of timeline N and where each
//! forked ("Timelines" in the chapter on continuous archiving of the PostgreSQL documentation).

mod ancestry;
mod history;
mod stub;

use std::{borrow::Cow, fmt, num::NonZeroU32};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use self::{
    ancestry::{Ancestry, Fork, ancestry, fork},
    history::{History, ParseHistoryError},
    stub::{StubError, stub_histories},
};
use crate::lsn::Lsn;

/// Number of a timeline. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimelineId(NonZeroU32);

impl TimelineId {
    /// The timeline that `initdb` creates.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the timeline with a number.
    ///
    /// # Errors
    /// Returns an error for zero.
    pub fn new(number: u32) -> Result<Self, ZeroTimeline> {
        NonZeroU32::new(number).map(Self).ok_or(ZeroTimeline)
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the next number. Returns `None` after the last one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

/// Error of a timeline with the number zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("0 is not a timeline: the first timeline is 1")]
pub struct ZeroTimeline;

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for TimelineId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TimelineId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": u32::MAX })
    }
}

/// Position on a timeline. Ordered by timeline, then by LSN.
///
/// The order ranks the candidates of a failover: a higher timeline is always the younger one,
/// because each promotion claims a number above all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// timeline is the number of the timeline.
    pub timeline: TimelineId,
    /// lsn is the position in the write-ahead log.
    pub lsn: Lsn,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on timeline {}", self.lsn, self.timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_timeline() {
        assert_eq!(TimelineId::new(0), Err(ZeroTimeline));
        assert_eq!(TimelineId::new(1), Ok(TimelineId::FIRST));
        assert!(serde_json::from_str::<TimelineId>("0").is_err());
        assert_eq!(serde_json::from_str::<TimelineId>("7").unwrap().to_string(), "7");
    }

    #[test]
    fn last_timeline_has_no_next_one() {
        assert_eq!(TimelineId::FIRST.next().map(TimelineId::get), Some(2));
        assert_eq!(TimelineId::new(u32::MAX).unwrap().next(), None);
    }

    #[test]
    fn later_timeline_outranks_a_higher_position() {
        let at = |timeline, lsn| Position { timeline: TimelineId::new(timeline).unwrap(), lsn: Lsn(lsn) };
        assert!(at(2, 1) > at(1, 9) && at(2, 2) > at(2, 1));
        assert_eq!(at(2, 0x10).to_string(), "0/10 on timeline 2");
    }
}
