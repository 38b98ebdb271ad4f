//! Flags of leader election, with the names of kube-controller-manager's flags.

use std::time::Duration;

use clap::{ArgAction, Args};
use operator_runtime::election::{Timing, TimingError};

use operator_runtime::flags::duration;

/// Configuration of leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Lease duration, renew deadline, and retry period.
    pub timing: Timing,
    /// Namespace of the Leases.
    pub namespace: String,
}

#[derive(Args)]
#[command(next_help_heading = "Leader election")]
#[expect(clippy::struct_field_names, reason = "clap derives the names of the flags from them")]
pub(super) struct ElectionFlags {
    /// Enable leader election for each controller. Required to run several replicas
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT", default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    leader_elect: bool,

    /// Duration that non-leaders wait after the last observed renewal before they acquire a Lease. Whole seconds, at most 10m
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Duration,

    /// Duration for which a leader retries the renewal of its Lease before it gives up. Must be shorter than the lease duration
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Duration,

    /// Duration between attempts to acquire or renew a Lease. At most a third of the renew deadline
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Duration,

    /// Namespace of the Leases. Defaults to the namespace of the manager
    #[arg(long, env = "ENSEMBLE_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
}

impl ElectionFlags {
    /// Returns the configuration. `None` without leader election.
    ///
    /// # Errors
    /// Returns an error with the name of the flag whose value is invalid.
    pub(super) fn validate(self, namespace: &str) -> Result<Option<LeaderElection>, String> {
        let timing = Timing::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let timing = timing.map_err(|error| format!("--leader-elect-{}: {error}", flag(error)))?;
        let namespace = self.leader_elect_resource_namespace.unwrap_or_else(|| namespace.to_owned());
        Ok(self.leader_elect.then_some(LeaderElection { timing, namespace }))
    }
}

fn flag(error: TimingError) -> &'static str {
    match error {
        TimingError::Lease => "lease-duration",
        TimingError::RenewDeadline => "renew-deadline",
        TimingError::Retry => "retry-period",
    }
}
