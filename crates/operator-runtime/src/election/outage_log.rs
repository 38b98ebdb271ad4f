//! Logs failing requests about a Lease.

use operator_core::error::{chain, is_already_exists, is_conflict, is_denied};
use tracing::{debug, info, warn};

/// Logs an outage once when it begins and once when it ends.
pub(super) struct OutageLog {
    controller: &'static str,
    namespace: String,
    reported: Option<String>,
}

impl OutageLog {
    pub(super) fn of(controller: &'static str, namespace: &str) -> Self {
        Self { controller, namespace: namespace.to_owned(), reported: None }
    }

    /// Logs a failed request; `None` is a timeout. Conflicts with another candidate are expected
    /// and not logged as an outage.
    pub(super) fn failed(&mut self, operation: &str, error: Option<&kube::Error>) {
        let (controller, namespace) = (self.controller, &self.namespace);
        let cause = error.map_or_else(|| "the request timed out".to_owned(), |error| chain(error));
        debug!(controller, namespace, operation, error = cause, "a request about the Lease failed");
        let is_race = error.is_some_and(|error| is_conflict(error) || is_already_exists(error));
        if is_race || self.reported.as_ref() == Some(&cause) {
            return;
        }
        let advice = match error {
            Some(error) if is_denied(error) => "; apply deploy/rbac/leader-election.yaml in its namespace",
            _ => "",
        };
        warn!(controller, namespace, error = cause, "cannot {operation} the Lease; retrying{advice}");
        self.reported = Some(cause);
    }

    /// Logs the end of an outage.
    pub(super) fn recovered(&mut self) {
        if self.reported.take().is_some() {
            info!(
                controller = self.controller,
                namespace = self.namespace,
                "recovered: can write the Lease again"
            );
        }
    }
}
