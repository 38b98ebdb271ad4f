//! Why something could not be archived.

use postgres_archive::{ArchiveError, StoreError};
use postgres_model::report::{ArchiveFailure, shortened};

/// Returns a failure that is no conflict.
pub(super) fn failure(message: impl Into<String>) -> ArchiveFailure {
    ArchiveFailure { is_conflict: false, message: shortened(message.into()) }
}

/// Classifies an error of the archive.
pub(super) fn of(error: &ArchiveError) -> ArchiveFailure {
    let is_conflict =
        matches!(error, ArchiveError::Owned { .. } | ArchiveError::Store(StoreError::Conflict { .. }));
    ArchiveFailure { is_conflict, ..failure(error.to_string()) }
}
