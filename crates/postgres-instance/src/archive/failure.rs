//! Why something could not be archived.

use postgres_archive::{ArchiveError, StoreError};
use postgres_model::report::{ArchiveFailure, MAX_PROBLEM};

/// Returns a failure that is no conflict.
pub(super) fn failure(message: impl Into<String>) -> ArchiveFailure {
    let message: String = message.into();
    let end = message.floor_char_boundary(MAX_PROBLEM);
    ArchiveFailure { is_conflict: false, message: message.get(..end).unwrap_or_default().to_owned() }
}

/// Classifies an error of the archive.
pub(super) fn of(error: &ArchiveError) -> ArchiveFailure {
    let is_conflict =
        matches!(error, ArchiveError::Owned { .. } | ArchiveError::Store(StoreError::Conflict { .. }));
    ArchiveFailure { is_conflict, ..failure(error.to_string()) }
}
