//! WAL: segments, timeline histories, and backup histories.

mod list;
mod prepare;
mod put;
mod restore;
mod row;
mod write;

pub(crate) use self::row::Row;
pub use self::{list::ArchivedSegment, restore::Restore};

use postgres_model::wal_file::WalFileName;

/// Largest segment: `wal_segment_size` is at most 1 GiB.
const MAX_SEGMENT: u64 = 1 << 30;
/// Largest timeline history or backup history. A stub history lists up to 65,536 timelines.
const MAX_SMALL: u64 = 1 << 20;

/// Returns the most bytes of a file.
fn max_bytes(name: WalFileName) -> u64 {
    match name {
        WalFileName::Segment(_) | WalFileName::Partial(_) => MAX_SEGMENT,
        WalFileName::History(_) | WalFileName::Backup { .. } => MAX_SMALL,
    }
}

/// Returns whether the archive has the file as it is.
fn is_plain(name: WalFileName) -> bool {
    matches!(name, WalFileName::History(_))
}
