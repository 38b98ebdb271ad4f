//! The flags of leader election. They are named as kube-controller-manager's.

use std::time::Duration;

use clap::{ArgAction, Args};
use operator_runtime::election::{Timing, TimingError};

use super::duration::duration;

/// How this process shares its controllers with other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The times of the election.
    pub timing: Timing,
    /// The namespace of the Leases.
    pub namespace: String,
}

#[derive(Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct ElectionFlags {
    /// Share the controllers with other replicas: run each only while this one leads it
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT", default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    leader_elect: bool,

    /// How long others leave a Lease alone that is not renewed: whole seconds, up to 10m
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Duration,

    /// How long a leader goes on that cannot renew its Lease; shorter than the lease duration
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Duration,

    /// How long to wait after a request that failed; at most a third of the renew deadline
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Duration,

    /// The namespace of the Leases; the manager's own unless given
    #[arg(long, env = "ENSEMBLE_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
}

impl ElectionFlags {
    /// What was asked for; nothing if the controllers are not shared.
    ///
    /// # Errors
    /// A sentence that names the flag whose value does not fit the others.
    pub(super) fn sharing(self, namespace: &str) -> Result<Option<Sharing>, String> {
        let timing = Timing::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let timing = timing.map_err(|error| format!("--leader-elect-{}: {error}", flag(error)))?;
        let namespace = self.lease_namespace.unwrap_or_else(|| namespace.to_owned());
        Ok(self.leader_elect.then_some(Sharing { timing, namespace }))
    }
}

fn flag(error: TimingError) -> &'static str {
    match error {
        TimingError::Lease => "lease-duration",
        TimingError::RenewDeadline => "renew-deadline",
        TimingError::Retry => "retry-period",
    }
}
