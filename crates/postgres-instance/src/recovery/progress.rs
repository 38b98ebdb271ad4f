//! What a member reports about its recovery.

use parking_lot::Mutex;
use postgres_archive::RecoveryPlan;
use postgres_model::{
    report::{RecoveryReport, shortened},
    volume_state::RecoveryState,
};

/// Progress of a recovery, shared with the task that restores the backup.
#[derive(Default)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Default)]
struct State {
    backup: Option<String>,
    recovery: Option<RecoveryState>,
    failure: Option<String>,
}

impl Progress {
    /// Notes which backup is restored, and for which recovery.
    pub(super) fn planned(&self, plan: &RecoveryPlan, recovery: RecoveryState) {
        *self.0.lock() =
            State { backup: Some(plan.backup.to_string()), recovery: Some(recovery), failure: None };
    }

    /// Returns the recovery that the restored data are for.
    pub(crate) fn recovery(&self) -> Option<RecoveryState> {
        self.0.lock().recovery
    }

    /// Notes why the backup could not be restored.
    pub(crate) fn failed(&self, reason: &str) {
        self.0.lock().failure = Some(shortened(reason.to_owned()));
    }

    /// Returns the report. `failure` is why no WAL is restored.
    pub(crate) fn report(&self, replays: bool, failure: Option<String>) -> RecoveryReport {
        let state = self.0.lock();
        let failure = if replays { failure } else { state.failure.clone() };
        RecoveryReport { backup: state.backup.clone(), replays, failure }
    }
}
