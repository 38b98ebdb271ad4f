//! The segments in `pg_wal`.

use std::fs::{self, DirEntry};

use postgres_model::wal_file::{SegmentSize, WalFileName, WalSegment};

use super::Archiving;

impl Archiving {
    /// Returns the segments in `pg_wal`, in no order.
    pub(super) fn segments(&self) -> impl Iterator<Item = WalSegment> + use<> {
        let files = fs::read_dir(&self.wal).into_iter().flatten().flatten();
        files.filter_map(|file: DirEntry| match file.file_name().to_str()?.parse().ok()? {
            WalFileName::Segment(segment) => Some(segment),
            _ => None,
        })
    }

    /// Returns the size of the segments of this database, which is that of any of them.
    pub(super) fn size_of_segments(&self) -> SegmentSize {
        let any = self.segments().next();
        any.map_or(SegmentSize::DEFAULT, |segment| self.size_of_segment(&segment.to_string()))
    }

    /// Returns the size of the segment in a file of `pg_wal`.
    pub(super) fn size_of_segment(&self, file: &str) -> SegmentSize {
        let length = fs::metadata(self.wal.join(file)).map(|file| file.len());
        length.ok().and_then(|bytes| SegmentSize::from_bytes(bytes).ok()).unwrap_or(SegmentSize::DEFAULT)
    }
}
