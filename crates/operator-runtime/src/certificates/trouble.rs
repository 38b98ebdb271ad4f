//! Telling of trouble once when it begins, and once when it is over.

use tracing::{info, warn};

/// Whether something works, for the log.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What is being done: `keep the Secret a/b`.
    doing: String,
    told: Option<String>,
}

impl Trouble {
    pub(super) fn new(doing: String) -> Self {
        Self { doing, told: None }
    }

    /// It failed; `error` must hold no secrets.
    pub(super) fn failed(&mut self, error: &str) {
        if self.told.as_deref() != Some(error) {
            warn!(error, "cannot {}; trying again until it works", self.doing);
            self.told = Some(error.to_owned());
        }
    }

    /// It worked.
    pub(super) fn worked(&mut self) {
        if self.told.take().is_some() {
            info!("could {} again", self.doing);
        }
    }
}
