//! Command of the manager's command line.

use std::time::Duration;

use clap::{Arg, ArgMatches, Command};

use super::duration::duration;

/// Subcommand of [`Task::Cleanup`].
const CLEANUP: &str = "cleanup";
/// Flag of [`CLEANUP`].
const WAIT: &str = "wait";

/// Command of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run the controllers until the process is stopped.
    Run,
    /// Remove webhooks, finalizers, and permissions of a manager that no longer runs.
    Cleanup {
        /// Maximum time to wait until no manager runs. Zero skips the check.
        wait: Duration,
    },
}

impl Task {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let Some((CLEANUP, cleanup)) = matches.subcommand() else { return Self::Run };
        Self::Cleanup { wait: cleanup.get_one(WAIT).copied().unwrap_or_default() }
    }
}

/// Returns the subcommand. The flags before it are those of the manager that is removed.
pub(super) fn cleanup() -> Command {
    Command::new(CLEANUP)
        .about("Remove webhooks, finalizers, and permissions of a manager that no longer runs")
        .long_about(
            "Remove webhooks, finalizers, and permissions of a manager that no longer runs.\n\nDeletes the webhook \
             configurations, admission policies, and cluster roles of Tenant owners. Removes the finalizers of the \
             manager, and no others, from all objects of its kinds, so that deleting these objects does not wait \
             for a controller. Custom resources and the objects created for them stay. Objects that do not exist \
             are skipped.\n\nStop the manager first, because it adds finalizers again. The command waits until \
             no Pod of a manager runs in --namespace. To limit the cleanup, set --controllers and \
             --watch-namespaces before the command or in the environment.",
        )
        .arg(wait())
}

fn wait() -> Arg {
    Arg::new(WAIT)
        .long(WAIT)
        .env("ENSEMBLE_CLEANUP_WAIT")
        .value_name("DURATION")
        .default_value("1m")
        .value_parser(duration)
        .help("Maximum time to wait for the Pods of managers to terminate; 0s skips the check")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_from;

    #[test]
    fn cleanup_uses_flags_before_it() {
        let parse = |args: &[&str]| parse_from(["ensemble-manager"].iter().chain(args).map(Into::into));
        assert_eq!(parse(&[]).unwrap().task, Task::Run);
        let flags = parse(&["--controllers=podset", "cleanup"]).unwrap();
        let wait = Duration::from_mins(1);
        assert_eq!((flags.task, flags.controllers.len()), (Task::Cleanup { wait }, 1));
        let flags = parse(&["cleanup", "--wait=0s"]).unwrap();
        assert_eq!(flags.task, Task::Cleanup { wait: Duration::ZERO });
        assert!(parse(&["cleanup", "--wait=soon"]).is_err());
        assert!(parse(&["clean"]).is_err());
    }
}
