//! Base backups.

mod complete;
mod json;
mod list;
mod manifest;
mod reader;
mod writer;

pub use self::{
    list::{Backups, UnreadableBackup},
    manifest::{Backup, ClusterReference, Manifest, Part},
    reader::BackupReader,
    writer::{BackupData, BackupWriter},
};

use postgres_model::timeline::History;

use crate::wal::Row;

impl Backup {
    /// Returns whether a recovery from the backup can follow a history: the backup ended on it, and
    /// before it left the timeline.
    pub(crate) fn is_on(&self, history: &History) -> bool {
        let row = Row::new(history, self.segment_size);
        let is_valid = row.number(self.begin_wal).is_some() && row.number(self.end_wal).is_some();
        is_valid
            && row.contains(self.timeline, self.begin_lsn)
            && row.contains(self.end_wal.timeline(), self.end_lsn)
    }
}
