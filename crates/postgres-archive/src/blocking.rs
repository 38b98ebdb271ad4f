//! Work that would hold up the runtime.

use tokio::task::spawn_blocking;

use crate::error::ArchiveError;

/// Runs work on a thread for blocking work, so that the thread of the runtime serves others.
///
/// The work is not stopped when the future is dropped. `name` says in an error what it is about.
pub(crate) async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ArchiveError> {
    spawn_blocking(work).await.map_err(|_| ArchiveError::Stopped(name.to_owned()))
}
