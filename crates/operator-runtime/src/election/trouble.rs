//! Telling of requests about a Lease that fail.

use operator_core::error::{chain, is_already_exists, is_conflict, is_refusal};
use tracing::{debug, info, warn};

/// Tells what is wrong once, and once that it is over.
pub(super) struct Trouble {
    controller: &'static str,
    namespace: String,
    told: Option<String>,
}

impl Trouble {
    pub(super) fn of(controller: &'static str, namespace: &str) -> Self {
        Self { controller, namespace: namespace.to_owned(), told: None }
    }

    /// A request failed; without an error, no answer came in time. That somebody else was faster is nothing to tell.
    pub(super) fn failed(&mut self, doing: &str, error: Option<&kube::Error>) {
        let (controller, namespace) = (self.controller, &self.namespace);
        let why = error.map_or_else(|| "no answer in time".to_owned(), |error| chain(error));
        debug!(controller, namespace, doing, error = why, "a request about the Lease failed");
        let is_race = error.is_some_and(|error| is_conflict(error) || is_already_exists(error));
        if is_race || self.told.as_ref() == Some(&why) {
            return;
        }
        let advice = match error {
            Some(error) if is_refusal(error) => "; apply deploy/rbac/leader-election.yaml in its namespace",
            _ => "",
        };
        warn!(controller, namespace, error = why, "cannot {doing} the Lease; trying again{advice}");
        self.told = Some(why);
    }

    /// A write succeeded.
    pub(super) fn over(&mut self) {
        if self.told.take().is_some() {
            info!(controller = self.controller, namespace = self.namespace, "the Lease can be written again");
        }
    }
}
