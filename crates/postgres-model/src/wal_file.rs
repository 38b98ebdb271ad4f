//! WAL segments, and the names of the files in `pg_wal`.
//!
//! The names are those of `xlog_internal.h`.

use std::{fmt, str::FromStr};

use crate::{hex, lsn::Lsn, timeline::TimelineId};

/// `wal_segment_size`: a power of two from 1 MiB to 1 GiB (`IsValidWalSegSize`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSize(u32);

/// Error of a size that WAL segments cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("WAL segments cannot have {0} bytes: use a power of two from 1 MiB to 1 GiB")]
pub struct SegmentSizeError(u64);

impl SegmentSize {
    /// Size that `initdb` sets by default.
    pub const DEFAULT: Self = Self(16 << 20);

    /// Returns a size in bytes.
    ///
    /// # Errors
    /// Returns an error if PostgreSQL does not support the size.
    pub fn from_bytes(bytes: u64) -> Result<Self, SegmentSizeError> {
        let is_valid = bytes.is_power_of_two() && (1 << 20..=1 << 30).contains(&bytes);
        let bytes_u32 = u32::try_from(bytes).ok().filter(|_| is_valid);
        bytes_u32.map(Self).ok_or(SegmentSizeError(bytes))
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }

    /// `XLogSegmentsPerXLogId`.
    fn segments_per_log(self) -> u64 {
        (1 << 32) / self.bytes()
    }

    /// Returns the number of the segment that contains a position (`XLByteToSeg`).
    pub fn segment_number(self, lsn: Lsn) -> u64 {
        lsn.0 / self.bytes()
    }
}

/// WAL segment, as its file name identifies it.
///
/// The name alone does not say which positions the segment contains. That depends on the size of the
/// segments of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalSegment {
    timeline: TimelineId,
    /// The upper half of the positions in the segment.
    log: u32,
    /// The number of the segment among those with the same upper half.
    index: u32,
}

impl WalSegment {
    /// Returns the segment that contains a position.
    pub fn at(timeline: TimelineId, lsn: Lsn, size: SegmentSize) -> Self {
        let index = size.segment_number(lsn) % size.segments_per_log();
        // Both fit: the position has 64 bits, and a log has at most 4096 segments.
        let [log, index] = [lsn.0 >> 32, index].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Self { timeline, log, index }
    }

    /// Returns the timeline.
    pub fn timeline(self) -> TimelineId {
        self.timeline
    }

    /// Returns the position at which the segment starts.
    ///
    /// Returns `None` if segments of this size have no such name.
    pub fn start(self, size: SegmentSize) -> Option<Lsn> {
        let index = u64::from(self.index);
        (index < size.segments_per_log()).then(|| Lsn(u64::from(self.log) << 32 | (index * size.bytes())))
    }

    /// Returns the segment that follows on the same timeline.
    ///
    /// Returns `None` after the last segment, or if segments of this size have no such name.
    pub fn next(self, size: SegmentSize) -> Option<Self> {
        let end = self.start(size)?.0.checked_add(size.bytes())?;
        Some(Self::at(self.timeline, Lsn(end), size))
    }

    /// Splits a segment from the start of a file name.
    fn split(name: &str) -> Option<(Self, &str)> {
        let (timeline, rest) = hex::split(name)?;
        let (log, rest) = hex::split(rest)?;
        let (index, rest) = hex::split(rest)?;
        Some((Self { timeline: TimelineId::new(timeline).ok()?, log, index }, rest))
    }
}

/// Prints the file name (`XLogFileName`).
impl fmt::Display for WalSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}{:08X}{:08X}", self.timeline.get(), self.log, self.index)
    }
}

/// Name of a file in `pg_wal` that PostgreSQL archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WalFileName {
    /// A segment.
    Segment(WalSegment),
    /// The last segment of a timeline, which a promotion left incomplete: `.partial`.
    Partial(WalSegment),
    /// A timeline history file: `.history`.
    History(TimelineId),
    /// A backup history file: `.backup`.
    Backup {
        /// Segment in which the backup starts.
        segment: WalSegment,
        /// Offset in the segment at which the backup starts.
        offset: u32,
    },
}

/// Error of a name that no archived file in `pg_wal` has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not the name of a WAL file: expected 24 hexadecimal digits in upper case, alone or with \
     .partial or .XXXXXXXX.backup, or eight digits with .history"
)]
pub struct ParseWalFileNameError(String);

impl FromStr for WalFileName {
    type Err = ParseWalFileNameError;

    fn from_str(name: &str) -> Result<Self, ParseWalFileNameError> {
        let parsed = parse_history(name).or_else(|| parse_segment(name));
        parsed.ok_or_else(|| ParseWalFileNameError(name.to_owned()))
    }
}

fn parse_history(name: &str) -> Option<WalFileName> {
    let (timeline, suffix) = hex::split(name)?;
    let timeline = TimelineId::new(timeline).ok().filter(|_| suffix == ".history")?;
    Some(WalFileName::History(timeline))
}

fn parse_segment(name: &str) -> Option<WalFileName> {
    let (segment, suffix) = WalSegment::split(name)?;
    match suffix {
        "" => Some(WalFileName::Segment(segment)),
        ".partial" => Some(WalFileName::Partial(segment)),
        _ => {
            let (offset, suffix) = hex::split(suffix.strip_prefix('.')?)?;
            (suffix == ".backup").then_some(WalFileName::Backup { segment, offset })
        }
    }
}

impl fmt::Display for WalFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(segment) => segment.fmt(f),
            Self::Partial(segment) => write!(f, "{segment}.partial"),
            Self::History(timeline) => write!(f, "{:08X}.history", timeline.get()),
            Self::Backup { segment, offset } => write!(f, "{segment}.{offset:08X}.backup"),
        }
    }
}

/// Returns the names of history files above the confirmed timeline.
///
/// Before a member starts as a standby, it moves these files out of `pg_wal` (decision 29).
/// Otherwise it would follow the highest timeline of which it has a history, such as the stub of an
/// interrupted promotion, and refuse to stream from the primary. Other names are ignored.
pub fn history_files_above<'a>(
    confirmed: TimelineId,
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    let is_above =
        move |name: &&str| matches!(name.parse(), Ok(WalFileName::History(timeline)) if timeline > confirmed);
    names.into_iter().filter(is_above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(timeline: u32, lsn: u64, size: SegmentSize) -> WalSegment {
        WalSegment::at(TimelineId::new(timeline).unwrap(), Lsn(lsn), size)
    }

    #[test]
    fn sizes_are_powers_of_two_from_1_mib_to_1_gib() {
        for bytes in [0, 1, 1 << 19, 3 << 20, (1 << 20) + 1, 1 << 31, 1 << 32, u64::MAX] {
            assert_eq!(SegmentSize::from_bytes(bytes), Err(SegmentSizeError(bytes)));
        }
        for power in 20..=30 {
            assert_eq!(SegmentSize::from_bytes(1 << power).unwrap().bytes(), 1 << power);
        }
        assert_eq!(SegmentSize::from_bytes(16 << 20), Ok(SegmentSize::DEFAULT));
    }

    #[test]
    fn file_names_are_those_of_pg_walfile_name() {
        for (lsn, bytes, name) in [
            (0x16_B374_D848, 16 << 20, "0000000300000016000000B3"),
            (0x16_B374_D848, 1 << 20, "000000030000001600000B37"),
            (0x16_B374_D848, 1 << 30, "000000030000001600000002"),
            (0x16_FFFF_FFFF, 64 << 20, "00000003000000160000003F"),
            (u64::MAX, 1 << 20, "00000003FFFFFFFF00000FFF"),
        ] {
            let size = SegmentSize::from_bytes(bytes).unwrap();
            assert_eq!(segment(3, lsn, size).to_string(), name);
        }
    }

    #[test]
    fn segment_starts_only_with_its_size() {
        let segment = WalSegment::split("000000010000000200000100").unwrap().0;
        assert_eq!(segment.start(SegmentSize::DEFAULT), None);
        assert_eq!(segment.next(SegmentSize::DEFAULT), None);
        assert_eq!(segment.start(SegmentSize(1 << 20)), Some(Lsn(0x2_1000_0000)));
        assert_eq!(self::segment(1, u64::MAX, SegmentSize::DEFAULT).next(SegmentSize::DEFAULT), None);
    }

    #[test]
    fn parses_each_kind_of_name() {
        let name = |text: &str| text.parse::<WalFileName>().unwrap();
        let segment = segment(2, 0x300_0000, SegmentSize::DEFAULT);
        assert_eq!(name("000000020000000000000003"), WalFileName::Segment(segment));
        assert_eq!(name("000000020000000000000003.partial"), WalFileName::Partial(segment));
        assert_eq!(name("00000002.history"), WalFileName::History(segment.timeline()));
        let backup = WalFileName::Backup { segment, offset: 0x60 };
        assert_eq!(name("000000020000000000000003.00000060.backup"), backup);
    }

    #[test]
    fn rejects_other_names() {
        for name in [
            "",
            "archive_status",
            "00000000.history",
            "0000000a.history",
            "00000001.historyx",
            "00000000000000010000000A",
            "00000001000000000000000a",
            "0000000100000000000000010",
            "000000010000000000000001.part",
            "000000010000000000000001.60.backup",
            "000000010000000000000001.00000060.backup.zst",
            "../00000001.history",
        ] {
            let error = name.parse::<WalFileName>().unwrap_err().to_string();
            assert!(error.contains("is not the name of a WAL file"), "{error}");
        }
    }

    #[test]
    fn history_files_above_the_confirmed_timeline_are_found() {
        let names =
            ["00000002.history", "00000003.history", "0000000A.history", "0000000A0000000000000001", "x"];
        let above: Vec<_> = history_files_above(TimelineId::new(2).unwrap(), names).collect();
        assert_eq!(above, ["00000003.history", "0000000A.history"]);
    }

    proptest! {
        #[test]
        fn segment_contains_its_position(timeline in 1..u32::MAX, lsn: u64, power in 20..=30_u32) {
            let size = SegmentSize(1 << power);
            let segment = segment(timeline, lsn, size);
            let offset = Lsn(lsn).bytes_since(segment.start(size).unwrap()).unwrap();
            prop_assert!(offset < size.bytes());
            prop_assert_eq!(segment.to_string().parse(), Ok(WalFileName::Segment(segment)));
            if let Some(next) = segment.next(size) {
                prop_assert_eq!(next.start(size).unwrap().0 - segment.start(size).unwrap().0, size.bytes());
                prop_assert!(next > segment);
            }
        }

        #[test]
        fn accepted_name_renders_back(name in "\\PC*|[0-9A-F]{8}(\\.history)?|[0-9A-F]{24}(\\.partial|\\.[0-9A-F]{8}\\.backup)?") {
            if let Ok(parsed) = name.parse::<WalFileName>() {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }
    }
}
