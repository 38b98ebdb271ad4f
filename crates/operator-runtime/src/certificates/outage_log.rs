//! Logs an outage once when it begins and once when it ends.

use tracing::{info, warn};

/// Logs whether an operation fails or works again.
#[derive(Debug)]
pub(super) struct OutageLog {
    /// What fails, for example `rotate the certificates in the Secret a/b`.
    operation: String,
    reported: Option<String>,
}

impl OutageLog {
    pub(super) fn new(operation: String) -> Self {
        Self { operation, reported: None }
    }

    /// Logs a failure unless the same one was logged last. `error` must not contain secrets.
    pub(super) fn failed(&mut self, error: &str) {
        if self.reported.as_deref() != Some(error) {
            warn!(error, "cannot {}; retrying", self.operation);
            self.reported = Some(error.to_owned());
        }
    }

    /// Logs the end of a reported failure.
    pub(super) fn recovered(&mut self) {
        if self.reported.take().is_some() {
            info!("recovered: can {} again", self.operation);
        }
    }
}
