//! What the archive reports.

use std::time::Duration;

use postgres_model::{
    instance::Moment,
    report::{ArchiveFailure, ArchiveReport, BackupInventory},
    wal_file::WalFileName,
};

use crate::clock::now;

/// Shortest time between two reports of the last archived segment.
const LAST_ARCHIVED: Duration = Duration::from_mins(1);

/// What the archive reports, and what it has not reported yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(super) report: ArchiveReport,
    /// Why the archive cannot be used.
    setup: Option<ArchiveFailure>,
    /// Why the last file could not be archived.
    push: Option<ArchiveFailure>,
    published_at: Option<Moment>,
    /// Segment that has not been reported yet.
    unpublished: Option<String>,
}

impl State {
    /// Notes whether the archive can be used. Returns whether the report changed.
    pub(super) fn set_up(&mut self, failure: Option<ArchiveFailure>) -> bool {
        self.setup = failure;
        let is_claimed = self.setup.is_none();
        let is_new = std::mem::replace(&mut self.report.is_claimed, is_claimed) != is_claimed;
        self.refresh() || is_new
    }

    /// Notes that a file was archived. Returns whether the report changed.
    pub(super) fn archived(&mut self, name: WalFileName) -> bool {
        (self.setup, self.push) = (None, None);
        if let WalFileName::Segment(segment) = name {
            self.unpublished = Some(segment.to_string());
        }
        let is_published = self.publish_last();
        self.refresh() || is_published
    }

    /// Notes that a file could not be archived. Returns whether the report changed.
    pub(super) fn failed(&mut self, failure: ArchiveFailure) -> bool {
        self.push = Some(failure);
        self.refresh()
    }

    /// Notes the backups of the archive. Returns whether the report changed.
    pub(super) fn listed(&mut self, backups: BackupInventory) -> bool {
        let is_new = self.report.backups.as_ref() != Some(&backups);
        self.report.backups = Some(backups);
        is_new
    }

    /// Reports the last archived segment, if enough time has passed. Returns whether it did.
    pub(super) fn publish_last(&mut self) -> bool {
        let is_due = self.published_at.is_none_or(|last| now().saturating_sub(last) >= LAST_ARCHIVED);
        match self.unpublished.take_if(|_| is_due) {
            Some(segment) => {
                (self.report.last_archived, self.published_at) = (Some(segment), Some(now()));
                true
            }
            None => false,
        }
    }

    fn refresh(&mut self) -> bool {
        let failure = self.push.clone().or_else(|| self.setup.clone());
        let is_new = self.report.failure != failure;
        self.report.failure = failure;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_segment_is_published_at_most_once_a_minute() {
        let mut state = State::default();
        let name = |number: u8| format!("0000000100000000000000{number:02X}").parse().unwrap();
        assert!(state.archived(name(1)));
        assert!(!state.archived(name(2)));
        assert_eq!(state.report.last_archived.as_deref(), Some("000000010000000000000001"));
        state.published_at = Some(Moment::ZERO);
        assert!(state.publish_last());
        assert_eq!(state.report.last_archived.as_deref(), Some("000000010000000000000002"));
        assert!(!state.publish_last());
    }

    #[test]
    fn success_clears_failures_and_a_conflict_stays() {
        let mut state = State::default();
        let conflict = ArchiveFailure { is_conflict: true, message: "x".to_owned() };
        assert!(state.failed(conflict.clone()));
        assert!(!state.failed(conflict.clone()));
        assert!(state.set_up(None), "the archive is claimed");
        assert_eq!(state.report.failure, Some(conflict));
        assert!(state.archived("00000002.history".parse().unwrap()));
        assert_eq!(state.report.failure, None);
    }
}
