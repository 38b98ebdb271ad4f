//! Base backups.

mod chain;
mod complete;
mod file_list;
mod json;
mod list;
mod manifest;
mod reader;
mod writer;

pub use self::{
    chain::Chains,
    file_list::MAX_FILE_LIST_BYTES,
    list::{Backups, UnreadableBackup},
    manifest::{Backup, ClusterReference, Manifest, Part},
    reader::BackupReader,
    writer::{BackupData, BackupWriter},
};

use postgres_model::timeline::History;

use crate::wal::Row;

impl Backups {
    /// Returns the newest complete backup from which a recovery can follow a history.
    pub fn newest_on(&self, history: &History) -> Option<&Backup> {
        let on_history = self.complete.iter().filter(|backup| backup.is_on(history));
        on_history.max_by_key(|backup| (backup.stopped_at, backup.end_lsn))
    }
}

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
